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

function sorted(list: EndpointList): EndpointList {
  return list.picked(Uint32Array.from(list.sorted()));
}

/** What stays below the new length stays there; the others fill the holes in their order. */
function inOrderOf(previous: readonly string[], next: readonly string[]): string[] {
  const stays = next.map((_, i) => next.includes(previous[i] ?? ''));
  const others = next.filter((one) => !stays[previous.indexOf(one)]);
  return stays.map((isSame, i) => (isSame ? previous[i]! : others.shift()!));
}

describe('keepOrder', () => {
  it('lets what stays keep its place, and fills the others, again and again', () => {
    const steps = fc.array(
      fc.record({
        gone: fc.array(fc.nat(200)),
        come: fc.array(fc.nat(200)),
        isSorted: fc.boolean(),
      }),
    );
    const family = fc.constantFrom<Family>('IPv4', 'IPv6');
    const first = fc.oneof(ids, fc.uniqueArray(fc.nat(200), { minLength: 90, maxLength: 120 }));
    fc.assert(
      fc.property(family, first, steps, (family, ids, changes) => {
        let known = ids;
        let ordered = sorted(listOf(family, known));
        for (const { gone, come, isSorted } of changes) {
          known = [...new Set([...known.filter((id) => !gone.includes(id)), ...come])];
          const next = isSorted ? sorted(listOf(family, known)) : listOf(family, known);
          const before = ordered.texts();
          ordered = keepOrder(ordered, next);
          expect(ordered.texts()).toEqual(inOrderOf(before, next.texts()));
        }
      }),
      { numRuns: 200 },
    );
  });

  it('changes no more positions than any other order of next would', () => {
    const small = fc.uniqueArray(fc.nat(5), { maxLength: 4 });
    fc.assert(
      fc.property(small, small, (previous, next) => {
        const [before, after] = [listOf('IPv4', previous), listOf('IPv4', next)];
        const changed = (order: readonly string[]): number =>
          order.filter((one, i) => i >= before.length || one !== before.text(i)).length;
        const fewest = Math.min(...permutations(after.texts()).map(changed));
        expect(changed(keepOrder(before, after).texts())).toBe(fewest);
      }),
    );
  });

  it('changes nothing the second time', () => {
    fc.assert(
      fc.property(fc.constantFrom<Family>('IPv4', 'IPv6'), ids, ids, (family, previous, next) => {
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
