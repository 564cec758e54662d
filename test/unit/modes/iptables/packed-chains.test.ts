import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ObservedRule } from '../../../../src/modes/iptables/objects.ts';
import { PackedChains } from '../../../../src/modes/iptables/packed-chains.ts';

const rule = fc.record({
  handle: fc.maxSafeNat(),
  // A few are as large as half a page.
  expressions: fc.oneof(
    { weight: 20, arbitrary: fc.uint8Array({ maxLength: 60 }) },
    { weight: 1, arbitrary: fc.nat({ max: 700_000 }).map((length) => new Uint8Array(length)) },
  ),
});

function plain(rules: readonly ObservedRule[]) {
  return rules.map(({ handle, expressions }) => [handle, Buffer.from(expressions).toString('hex')]);
}

it('packed chains return the rules of each chain in order', () => {
  fc.assert(
    fc.property(fc.array(fc.array(rule, { maxLength: 6 }), { maxLength: 20 }), (chains) => {
      const packed = new PackedChains();
      const ids = chains.map((_, i) => `nat KUBE-SVC-${i}`);
      for (const id of ids) packed.add(id);
      for (const [i, rules] of chains.entries()) packed.set(ids[i]!, rules);
      expect([...packed.keys()]).toEqual(ids);
      for (const [i, rules] of chains.entries()) {
        expect(plain(packed.get(ids[i]!)!)).toEqual(plain(rules));
      }
    }),
  );
});

it.each([3, 2 ** 21])('packed chains keep a copy, of a rule of %i bytes', (length) => {
  const packed = new PackedChains();
  const expressions = new Uint8Array(length).fill(1);
  packed.add('nat KUBE-SVC-A');
  packed.set('nat KUBE-SVC-A', [{ handle: 7, expressions }]);
  expressions.fill(9);
  const [rule] = packed.get('nat KUBE-SVC-A')!;
  expect(rule?.handle).toBe(7);
  expect(Buffer.alloc(length, 1).equals(rule!.expressions)).toBe(true);
});

it('packed chains distinguish an empty chain from a missing one', () => {
  const packed = new PackedChains();
  packed.add('nat KUBE-SVC-A');
  expect(packed.get('nat KUBE-SVC-A')).toEqual([]);
  expect(packed.get('nat KUBE-SVC-B')).toBeUndefined();
  expect([packed.has('nat KUBE-SVC-A'), packed.has('nat KUBE-SVC-B')]).toEqual([true, false]);
});
