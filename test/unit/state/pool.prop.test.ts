import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBytes, type Family } from '../../../src/net/address.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { keepOrder } from '../../../src/state/pool.ts';

function listOf(family: Family, ids: readonly number[]): EndpointList {
  const endpoints = ids.map((id) => {
    const address = new Uint8Array(addressBytes[family]);
    address[id % address.length] = 1;
    return { address, port: 1000 + id };
  });
  return EndpointList.of(family, endpoints);
}

const ids = fc.uniqueArray(fc.nat(24), { maxLength: 20 });
const lists = fc.record({
  family: fc.constantFrom<Family>('IPv4', 'IPv6'),
  previous: ids,
  next: ids,
});

function sorted(list: EndpointList): EndpointList {
  return list.picked(Uint32Array.from(list.sorted()));
}

/** What stays below the new length stays there; the others fill the holes in their order. */
function inOrderOf(previous: readonly string[], next: readonly string[]): string[] {
  const stays = next.map((_, i) => next.includes(previous[i] ?? ''));
  const others = next.filter((one) => !stays[previous.indexOf(one)]);
  return stays.map((isSame, i) => (isSame ? previous[i]! : others.shift()!));
}

/** Positions of the pool that a mode has to write. */
function changedPositions(previous: readonly string[], result: readonly string[]): number {
  return result.filter((endpoint, i) => endpoint !== previous[i]).length;
}

describe('keepOrder', () => {
  it('returns the endpoints of next, each once', () => {
    fc.assert(
      fc.property(lists, ({ family, previous, next }) => {
        const result = keepOrder(listOf(family, previous), listOf(family, next));
        expect(result.texts().sort()).toEqual(listOf(family, next).texts().sort());
      }),
    );
  });

  it('changes as many positions as were added or, in a smaller pool, removed from it', () => {
    fc.assert(
      fc.property(lists, ({ family, previous, next }) => {
        const added = next.filter((id) => !previous.includes(id)).length;
        const removed = previous.slice(0, next.length).filter((id) => !next.includes(id)).length;
        const result = keepOrder(listOf(family, previous), listOf(family, next)).texts();
        const changed = changedPositions(listOf(family, previous).texts(), result);
        expect(changed).toBe(next.length >= previous.length ? added : removed);
      }),
      { numRuns: 500 },
    );
  });

  it('changes no more positions than any other order of next would', () => {
    const small = fc.uniqueArray(fc.nat(5), { maxLength: 4 });
    fc.assert(
      fc.property(small, small, (previous, next) => {
        const before = listOf('IPv4', previous).texts();
        const result = keepOrder(listOf('IPv4', previous), listOf('IPv4', next)).texts();
        const best = Math.min(
          ...permutations(listOf('IPv4', next).texts()).map((p) => changedPositions(before, p)),
        );
        expect(changedPositions(before, result)).toBe(best);
      }),
    );
  });

  it('depends on the order of next only for the positions of new endpoints', () => {
    fc.assert(
      fc.property(lists, ({ family, previous, next }) => {
        const before = listOf(family, previous);
        const one = keepOrder(before, listOf(family, next));
        const other = keepOrder(before, listOf(family, next.toReversed()));
        one.texts().forEach((endpoint, i) => {
          if (i < previous.length && endpoint === before.text(i))
            expect(other.text(i)).toBe(endpoint);
        });
      }),
    );
  });

  it('does the same with long lists of which little changes, again and again', () => {
    const some = { minLength: 90, maxLength: 120 };
    const steps = fc.array(
      fc.record({
        gone: fc.array(fc.nat(200)),
        come: fc.array(fc.nat(200)),
        isSorted: fc.boolean(),
      }),
    );
    const family = fc.constantFrom<Family>('IPv4', 'IPv6');
    fc.assert(
      fc.property(family, fc.uniqueArray(fc.nat(200), some), steps, (family, first, changes) => {
        let known = first;
        let ordered = sorted(listOf(family, known));
        for (const { gone, come, isSorted } of changes) {
          known = [...new Set([...known.filter((id) => !gone.includes(id)), ...come])];
          const next = isSorted ? sorted(listOf(family, known)) : listOf(family, known);
          const before = ordered.texts();
          ordered = keepOrder(ordered, next);
          expect(ordered.texts()).toEqual(inOrderOf(before, next.texts()));
        }
      }),
      { numRuns: 100 },
    );
  });

  it('changes nothing the second time', () => {
    fc.assert(
      fc.property(lists, ({ family, previous, next }) => {
        const once = keepOrder(listOf(family, previous), listOf(family, next));
        expect(keepOrder(once, listOf(family, next))).toBe(once);
      }),
    );
  });
});

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) =>
    permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]),
  );
}
