import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CostGroups, type Waiting } from '../../../src/state/cost-groups.ts';

interface Item extends Waiting {
  readonly name: string;
  /** What each of its turns costs. */
  readonly turn: number;
}

function item(name: string, cost: number, turn = cost): Item {
  return { name, cost, turn, group: undefined };
}

/** Takes the next one; `again`: it still waits. */
function turnOf(groups: CostGroups<Item>, again: boolean): Item {
  const next = groups.next()!;
  groups.take()(next.turn);
  if (again) groups.add(next);
  return next;
}

/** The cost of a turn of each of some that are never done. */
const large = fc.array(fc.integer({ min: 4, max: 100_000 }), { minLength: 1, maxLength: 40 });

describe('turns of what costs much and what costs little', () => {
  it('one that costs little waits for less than two turns in each group of larger ones', () => {
    const turnsBefore = fc.nat(200);
    fc.assert(
      fc.property(large, turnsBefore, (costs, before) => {
        const groups = new CostGroups<Item>();
        for (const [i, cost] of costs.entries()) groups.add(item(`large-${i}`, cost));
        for (let i = 0; i < before; i += 1) turnOf(groups, true);
        groups.add(item('small', 1));
        const taken: (number | undefined)[] = [];
        for (let next = groups.next()!; next.name !== 'small'; next = groups.next()!) {
          taken.push(next.group);
          turnOf(groups, true);
        }
        // Nothing: the group was empty, so that none has spent less.
        expect(taken).toEqual([]);
      }),
    );
  });

  it('there are twelve groups, and the last one has all that cost more', () => {
    const groups = new CostGroups<Item>();
    for (const power of [10, 11, 12, 20]) groups.add(item(`${power}`, 4 ** power));
    expect([...groups].map(({ group }) => group)).toEqual([10, 11, 11, 11]);
  });

  it('each group gets the same share, whatever its turns cost, and how many wait in it', () => {
    fc.assert(
      fc.property(large, (costs) => {
        const groups = new CostGroups<Item>();
        const spent = new Map<number, number>();
        for (const [i, cost] of costs.entries()) groups.add(item(`${i}`, cost));
        for (const { group } of groups) spent.set(group!, 0);
        for (let i = 0; i < 2000; i += 1) {
          const { group } = groups.next()!;
          spent.set(group!, spent.get(group!)! + turnOf(groups, true).turn);
        }
        const all = [...spent.values()];
        expect(Math.max(...all) - Math.min(...all)).toBeLessThanOrEqual(Math.max(...costs));
      }),
    );
  });

  it('those of one group take turns in their order, also when some leave, grow or continue', () => {
    const step = fc.record({
      does: fc.constantFrom('add', 'take', 'take again', 'take and continue', 'remove', 'grow'),
      at: fc.nat(10),
      cost: fc.integer({ min: 1, max: 300 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300, size: 'max' }), (steps) => {
        const groups = new CostGroups<Item>();
        let waiting: Item[] = [];
        for (const [i, { at, cost, does }] of steps.entries()) {
          const chosen = waiting[at % Math.max(1, waiting.length)];
          const next = groups.next();
          expect(next).toBe(waiting.find(({ group }) => group === next?.group));
          if (does === 'add') {
            const added = item(`${i}`, cost, 1);
            groups.add(added);
            waiting.push(added);
          } else if (does === 'remove' && chosen !== undefined) {
            groups.remove(chosen);
            waiting = waiting.filter((one) => one !== chosen);
          } else if (does === 'grow' && chosen !== undefined) {
            const { cost: had, group } = chosen;
            groups.grow(chosen, cost);
            expect(chosen.cost).toBe(had + cost);
            if (chosen.group !== group) {
              waiting = [...waiting.filter((one) => one !== chosen), chosen];
            }
          } else if (next !== undefined && does === 'take and continue') {
            const { group } = next;
            groups.take()(next.turn);
            next.cost += at;
            groups.addAgain(next);
            const others = waiting.filter((one) => one !== next);
            waiting = next.group === group ? [next, ...others] : [...others, next];
          } else if (next !== undefined && does.startsWith('take')) {
            turnOf(groups, does === 'take again');
            waiting = waiting.filter((one) => one !== next);
            if (does === 'take again') waiting.push(next);
          }
          expect(groups.size).toBe(waiting.length);
          expect(new Set(groups)).toEqual(new Set(waiting));
        }
      }),
    );
  });
});
