/**
 * What one byte of a Service and its EndpointSlices costs at most. docs/limits.md has the bounds;
 * objects that cost more show that something multiplies without a limit.
 */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { families } from '../../../../src/net/address.ts';
import { costliest, costlyObjects, least, type Shape } from '../../../fake/costly-objects.ts';
import { type Cost, costOf } from './cost.ts';

/** By the first cell of its rows. */
const table = new Map<string, Cost>(
  [
    ...readFileSync('docs/limits.md', 'utf8').matchAll(
      /^\| (.*?) \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \| .* \|$/gm,
    ),
  ].map(([, name, ...cells]) => {
    const [elements, kernelBytes, heapBytes] = cells.map((cell) =>
      Number(cell.replaceAll(',', '')),
    );
    return [name!, { elements: elements!, kernelBytes: kernelBytes!, heapBytes: heapBytes! }];
  }),
);

/** Small numbers as often as large ones. */
const upTo = (most: number): fc.Arbitrary<number> =>
  fc.integer({ min: 0, max: 1000 }).map((part) => Math.floor((most + 1) ** (part / 1000)) - 1);
const some = (most: number) => upTo(most - 1).map((count) => 1 + count);
const maybe = fc.boolean();
const none = fc.constant(0);

/** What may differ, and by how much, without any of the multipliers. */
const plain = {
  families: fc.constantFrom<Shape['families']>(['IPv4'], ['IPv6'], families),
  ports: some(50),
  externalIPs: upTo(60),
  loadBalancerIPs: upTo(40),
  hasNodePorts: maybe,
  endpoints: upTo(60),
  isLocal: maybe,
  hasRange: maybe,
  nameLength: some(60),
} as const;
const one = { externalIPs: none, loadBalancerIPs: none };
const few = { endpoints: upTo(3) };

const rows: Readonly<Record<string, fc.Arbitrary<Partial<Shape>>>> = {
  'many ports': fc.record({ ...plain, ...one, endpoints: upTo(1) }),
  'many ports and addresses': fc.record({ ...plain, endpoints: upTo(1) }),
  'many ports and endpoints': fc.record({
    ...plain,
    ...one,
    ...{ ports: some(200), endpoints: upTo(300) },
  }),
  'many ports, addresses and endpoints': fc.record(plain),
  'weights or `least-connections` of two endpoints': fc.oneof(
    fc.record({ ...plain, ...few, hasWeights: fc.constant(true) }),
    fc.record({ ...plain, ...few, balance: fc.constant('least-connections') }),
  ),
  '`maglev` of two endpoints': fc.record({ ...plain, ...few, balance: fc.constant('maglev') }),
  '`round-robin` at many addresses': fc.record({
    ...{ ...plain, ...few, balance: fc.constant('round-robin') },
  }),
  'session affinity of many ports': fc.record({
    ...{ ...plain, ...one, endpoints: upTo(1), hasAffinity: fc.constant(true) },
  }),
  '100 source ranges or more': fc.record({
    ...{ ...plain, ...few, ports: fc.constantFrom(1, 3), externalIPs: none },
    ...{
      loadBalancerIPs: fc.constantFrom(1, 3),
      sourceRanges: upTo(900).map((count) => 100 + count),
    },
  }),
};

const anything = fc.record({
  ...{ ...plain, sourceRanges: upTo(300), hasWeights: maybe, hasAffinity: maybe },
  balance: fc.constantFrom('', 'maglev', 'round-robin', 'flow-hash', 'least-connections'),
});

function ratios(shape: Partial<Shape>): Cost {
  const objects = costlyObjects({ ...least, ...shape });
  const cost = costOf(objects);
  return {
    elements: cost.elements / objects.bytes,
    kernelBytes: cost.kernelBytes / objects.bytes,
    heapBytes: cost.heapBytes / objects.bytes,
  };
}

function expectWithin(shape: Partial<Shape>, most: Cost): void {
  const found = ratios(shape);
  for (const what of ['elements', 'kernelBytes', 'heapBytes'] as const) {
    expect(found[what], what).toBeLessThanOrEqual(most[what]);
  }
}

describe('one byte of objects costs no more than docs/limits.md says', () => {
  it.each(Object.entries(rows))('with %s', (name, shapes) => {
    const most = table.get(name)!;
    fc.assert(
      fc.property(shapes, (shape) => expectWithin(shape, most)),
      { numRuns: 25, examples: [[costliest[name]!]] },
    );
    // The bound is close to what such objects can cost.
    expect(ratios(costliest[name]!).kernelBytes).toBeGreaterThan(0.6 * most.kernelBytes);
  });

  it('with anything', () => {
    const most = table.get('anything')!;
    fc.assert(
      fc.property(anything, (shape) => expectWithin(shape, most)),
      { numRuns: 40 },
    );
  });
});
