/** How much is done at a time when a Service has very many endpoints. */
import { expect, it } from 'vitest';
import type { EndpointList } from '../../../src/net/endpoint-list.ts';
import { CandidateIndex } from '../../../src/state/candidates.ts';
import { dealInSteps } from '../../../src/state/deal.ts';
import { finish } from '../../../src/state/steps.ts';
import type { ServicePort } from '../../../src/state/types.ts';
import { column, slice, slicePort } from './build.ts';
import { stepsTaken } from './steps-taken.ts';

const port: ServicePort = { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 };

/** That many endpoints, in no order, in slices of 100. */
function indexOf(count: number): CandidateIndex {
  const index = new CandidateIndex('IPv6', { zone: '' });
  index.expect([port], 0);
  for (let from = 0; from < count; from += 100) {
    const numbers = Array.from({ length: 100 }, (_, i) => ((from + i) * 7919) % 65_536);
    const one = slice(
      {},
      {
        family: 'IPv6',
        ports: [slicePort('http', 8080)],
        length: numbers.length,
        addresses: column(
          ...numbers.flatMap((n) => [0xfd, ...new Array(13).fill(1), n >> 8, n & 255]),
        ),
        conditions: column(...numbers.map(() => 1)),
        weight: 1 + (from % 700),
      },
    );
    index.add(one, 0);
  }
  return index;
}

/** The most that one step does. */
function longestStep(steps: Generator<undefined, unknown>): number {
  let longest = 0;
  for (let isDone = false; !isDone; ) {
    longest = Math.max(
      longest,
      stepsTaken(() => {
        isDone = steps.next().done === true;
      }),
    );
  }
  return longest;
}

it.each([
  ['gathering endpoints', (count: number) => indexOf(count).gather(port)],
  ['reading weights', (count: number) => indexOf(count).weights(port)],
])('%s does not do more at a time where there are more', (_, begin) => {
  const [some, many] = [8000, 32_000].map((count) => longestStep(begin(count)));
  expect(many! / some!).toBeLessThan(1.3);
});

it('a step of the deal of weights does a small part of it', () => {
  const index = indexOf(10_000);
  const cluster: EndpointList = finish(index.gather(port)).endpoints;
  const weights = finish(index.weights(port));
  const input = { asked: undefined, weights, slotsMax: 65_536, here: undefined };
  const deal = () => dealInSteps({ ...input, canRemember: true }, { cluster, local: cluster });
  const whole = stepsTaken(() => finish(deal()));
  expect(longestStep(deal()) / whole).toBeLessThan(0.5);
});
