import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CandidateIndex, EndpointFlag } from '../../../src/state/candidates.ts';
import { finish } from '../../../src/state/steps.ts';
import type { EndpointSlice, ServicePort } from '../../../src/state/types.ts';
import { column, slice, slicePort } from './build.ts';

const port: ServicePort = { name: 'http', port: 80, protocol: 'TCP', nodePort: 0 };
const { ready, serving, terminating } = EndpointFlag;

/** The last byte of its address, and its conditions. */
type Given = readonly [last: number, conditions: number];

const given = fc.tuple(
  fc.nat(120),
  fc.constantFrom(0, ready, serving, ready | serving, terminating),
);

function gather(endpoints: readonly Given[], family: 'IPv4' | 'IPv6'): Given[] {
  const width = family === 'IPv4' ? 4 : 16;
  const index = new CandidateIndex(family, { zone: '' });
  index.expect([port], 0);
  const addresses = endpoints.flatMap(([last]) => [...new Array(width - 1).fill(1), last]);
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
  return [...flags].map((flag, i) => [found.address(i).at(-1)!, flag]);
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

it('two Services whose endpoints are gathered in turns, within a limit, keep their own', () => {
  const gatherings = [0, 1].map((n) => {
    const index = new CandidateIndex('IPv4', { zone: '' });
    index.expect([port], 0);
    for (let at = 0; at < 30; at += 1) index.add(hundred(n, at), 0);
    return index.gather(port, 500);
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
  const firstOf = (n: number): string[] =>
    Array.from({ length: 500 }, (_, i) => `10.${n}.${Math.floor(i / 100)}.${i % 100}:8080`);
  expect(found).toEqual([firstOf(0), firstOf(1)]);
});

/** Endpoints 10.n.at.0 and so on. */
function hundred(n: number, at: number): EndpointSlice {
  const addresses = Array.from({ length: 100 }, (_, last) => [10, n, at, last]).flat();
  return slice(
    {},
    {
      family: 'IPv4',
      ports: [slicePort('http', 8080)],
      length: 100,
      addresses: column(...addresses),
      conditions: column(...new Array(100).fill(ready)),
    },
  );
}
