import fc from 'fast-check';
import { expect, it } from 'vitest';
import { fairShares } from '../../../src/modes/fair-shares.ts';
import { noPause } from '../../../src/time/pacer.ts';

interface One {
  readonly namespace: string;
  readonly id: number;
}

const lists = fc
  .array(fc.constantFrom('a', 'a', 'a', 'a', 'b', 'b', 'c', 'd'), { maxLength: 60 })
  .map((all) => all.map((namespace, id): One => ({ namespace, id })));

function counts(list: readonly One[]): Map<string, number> {
  const found = new Map<string, number>();
  for (const { namespace } of list) found.set(namespace, (found.get(namespace) ?? 0) + 1);
  return found;
}

it('all room is used, and no namespace has less than another unless it has all of its own', async () => {
  await fc.assert(
    fc.asyncProperty(lists, fc.nat(60), async (list, room) => {
      const of = (one: One): string => one.namespace;
      const { within: shown, beyond } = await fairShares(list, of, room, noPause);
      expect(beyond).toEqual(list.filter((one) => !shown.includes(one)));
      expect(shown).toHaveLength(Math.min(list.length, room));
      expect(shown).toEqual(list.filter((one) => shown.includes(one)));
      const [all, got] = [counts(list), counts(shown)];
      const most = Math.max(0, ...got.values());
      for (const [namespace, size] of all) {
        const own = got.get(namespace) ?? 0;
        if (own < size) expect(own).toBeGreaterThanOrEqual(most - 1);
        const first = list.filter((one) => one.namespace === namespace).slice(0, own);
        expect(shown.filter((one) => one.namespace === namespace)).toEqual(first);
      }
    }),
    { numRuns: 500 },
  );
});
