import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CandidateIndex, EndpointFlag } from '../../../src/state/candidates.ts';
import { finish } from '../../../src/state/steps.ts';
import type { EndpointSlice, ServicePort } from '../../../src/state/types.ts';
import { column, service, slice, slicePort } from './build.ts';

const port: ServicePort = { name: 'http', port: 80, protocol: 'TCP', nodePort: 0 };
const { local, ready, serving, terminating } = EndpointFlag;

/** The last two bytes of its address, and its conditions. */
type Given = readonly [last: number, conditions: number];

const given = fc.tuple(
  fc.nat(120),
  fc.constantFrom(0, ready, serving, ready | serving, terminating),
);

function gather(endpoints: readonly Given[], family: 'IPv4' | 'IPv6'): Given[] {
  const width = family === 'IPv4' ? 4 : 16;
  const index = new CandidateIndex(family, { zone: '' });
  index.expect([port], 0);
  const addresses = endpoints.flatMap(([last]) => [
    ...new Array(width - 2).fill(1),
    ...[last >> 8, last & 255],
  ]);
  const one = slice(
    {},
    {
      family,
      ports: [slicePort('http', 8080)],
      length: endpoints.length,
      addresses: column(...addresses),
      conditions: column(...endpoints.map(([, conditions]) => conditions)),
    },
  );
  index.add(one, 0);
  const { endpoints: found, flags } = finish(index.gather(port));
  return [...flags].map((flag, i) => {
    const [high = 0, low = 0] = found.address(i).slice(-2);
    return [256 * high + low, flag];
  });
}

/** As upstream chooses among equal ones: not terminating, ready, serving. */
function rank([, conditions]: Given): number {
  const bits = [terminating, ready, serving].map((bit) => ((conditions & bit) === 0 ? 0 : 1));
  return (1 - bits[0]!) * 4 + bits[1]! * 2 + bits[2]!;
}

it('candidates are sorted without duplicates, for few and many', () => {
  fc.assert(
    fc.property(
      fc.array(given, { maxLength: 200, size: 'max' }),
      fc.constantFrom('IPv4', 'IPv6'),
      (endpoints, family) => {
        const best = new Map<number, Given>();
        for (const one of endpoints) {
          const other = best.get(one[0]);
          if (other === undefined || rank(one) > rank(other)) best.set(one[0], one);
        }
        const expected = [...best.values()].sort(([a], [b]) => a - b);
        expect(gather(endpoints, family)).toEqual(expected);
      },
    ),
    { numRuns: 300 },
  );
});

it('candidates of IPv6 in no order are sorted in steps, when there are thousands', () => {
  const all = Array.from({ length: 2500 }, (_, i): Given => [(7919 * i) % 65_536, ready]);
  expect(gather(all, 'IPv6')).toEqual(all.toSorted(([a], [b]) => a - b));
});

/** A slice with an endpoint for each number, of one of two /16, whose conditions follow from it. */
function numbered(numbers: readonly number[]): EndpointSlice {
  const conditions = [ready | serving, serving | terminating, 0, local | ready];
  return slice(
    {},
    {
      ports: [slicePort('http', 8080)],
      length: numbers.length,
      addresses: column(...numbers.flatMap((n) => [10, n >> 16, (n >> 8) & 255, n & 255])),
      conditions: column(...numbers.map((n) => conditions[n % 4]!)),
    },
  );
}

it('what is gathered again after changes of slices is what would be gathered first', () => {
  const change = fc.record({
    at: fc.nat(5),
    gone: fc.array(fc.nat(120), { maxLength: 3 }),
    come: fc.array(fc.nat(2000), { maxLength: 3 }),
    zone: fc.constantFrom('', 'a'),
  });
  // There are 360 at first.
  const limit = fc.constantFrom(undefined, 60, 280, 355, 362);
  fc.assert(
    fc.property(fc.array(change, { maxLength: 12 }), limit, (changes, most) => {
      const one = service();
      const heres = { '': { zone: '' }, a: { zone: 'a' } };
      let numbers = [0, 1, 2, 3, 4, 5].map((at) =>
        Array.from({ length: at < 4 ? 90 : 0 }, (_, i) => 100 * at + 7 * i),
      );
      let slices = numbers.map(numbered);
      for (const { at, gone, come, zone } of changes) {
        const next = [...(numbers[at] ?? []).filter((_, i) => !gone.includes(i)), ...come];
        numbers = numbers.with(at, next);
        slices = slices.with(at, numbered(next));
        const [again, first] = [one, undefined].map((known) => {
          const index = new CandidateIndex('IPv4', heres[zone], known);
          index.expect([port], 0);
          for (const each of slices) index.add(each, 0);
          return finish(index.gather(port, most));
        });
        expect(again!.flags).toEqual(first!.flags);
        const isLocal = (n: number) => Number(n % 4 === 3);
        const nearFirst = numbers.flat().sort((a, b) => isLocal(b) - isLocal(a));
        const served = [...new Set(nearFirst.slice(0, most))].sort((a, b) => a - b);
        const texts = served.map((n) => `10.0.${n >> 8}.${n & 255}:8080`);
        expect(again!.endpoints.texts()).toEqual(texts);
      }
    }),
    { numRuns: 200 },
  );
});

it.each([
  ['the first', 500, 0],
  ['those on this node', 300, 10],
])('two Services of which %s are gathered in turns keep their own', (_, limit, local) => {
  const gatherings = [0, 1].map((n) => {
    const index = new CandidateIndex('IPv4', { zone: '' });
    index.expect([port], 0);
    for (let at = 0; at < 30; at += 1) index.add(hundred(n, at, local), 0);
    return index.gather(port, limit);
  });
  const found: string[][] = [];
  let pauses = 0;
  for (const waiting = new Map(gatherings.entries()); waiting.size > 0; ) {
    for (const [n, steps] of waiting) {
      const { done, value } = steps.next();
      if (done) {
        waiting.delete(n);
        found[n] = value.endpoints.texts();
      } else pauses += 1;
    }
  }
  expect(pauses).toBeGreaterThan(0);
  const each = local === 0 ? 100 : local;
  const firstOf = (n: number): string[] =>
    Array.from({ length: limit }, (_, i) => `10.${n}.${Math.floor(i / each)}.${i % each}:8080`);
  expect(found).toEqual([firstOf(0), firstOf(1)]);
});

/** Endpoints 10.n.at.0 and so on, the first of which are on this node. */
function hundred(n: number, at: number, onNode: number): EndpointSlice {
  const addresses = Array.from({ length: 100 }, (_, last) => [10, n, at, last]).flat();
  return slice(
    {},
    {
      family: 'IPv4',
      ports: [slicePort('http', 8080)],
      length: 100,
      addresses: column(...addresses),
      conditions: column(
        ...Array.from({ length: 100 }, (_, i) => (i < onNode ? local : 0) | ready),
      ),
    },
  );
}
