/** A change of a slice costs as much as the slice, however many endpoints its Service has. */
import { expect, it } from 'vitest';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { CandidateIndex } from '../../../src/state/candidates.ts';
import { keepOrder } from '../../../src/state/pool.ts';
import { finish } from '../../../src/state/steps.ts';
import { column, http, service, slice, slicePort } from './build.ts';
import { growth, stepsTaken } from './steps-taken.ts';

/**
 * Gathers the `size` endpoints of a port in slices of 100, one of which is another one in each
 * version. `limit`: the most.
 */
function gatherer(size: number, limit?: number, ports = [http]) {
  const [here, one] = [{ zone: '' }, service()];
  const sliceOf = (numbers: readonly number[]) =>
    slice(
      {},
      {
        ports: ports.map(({ name }) => slicePort(name, 8080)),
        length: numbers.length,
        addresses: column(...numbers.flatMap((n) => [10, n >> 16, (n >> 8) & 255, n & 255])),
        conditions: column(...numbers.map(() => 1)),
      },
    );
  const all = Array.from({ length: size / 100 }, (_, at) =>
    Array.from({ length: 100 }, (_, i) => ((100 * at + i) * 7919) % 65_536),
  );
  const slices = all.map(sliceOf);
  return (version: number, port = ports[0]!): EndpointList => {
    slices[0] = sliceOf(all[0]!.with(50, 70_000 + version));
    const index = new CandidateIndex('IPv4', here, one);
    index.expect(ports, 0);
    for (const each of slices) index.add(each, 0);
    return finish(index.gather(port, limit)).endpoints;
  };
}

/** The ratio of four times as many endpoints, and the part of what it costs for the first time. */
function compared(work: (size: number, knows: boolean) => () => unknown, size: number) {
  const ratio = growth((endpoints) => work(endpoints, true), size);
  const [known, first] = [true, false].map((knows) => stepsTaken(work(size, knows)));
  return { ratio, saved: known! / first! };
}

it.each([
  ['all', undefined],
  ['those within a limit', 290],
])('gathering %s again costs as much as the slice that has changed', (_, limit) => {
  const gatherAgain = (size: number, knows: boolean) => {
    const gather = gatherer(size, limit && (limit * size) / 300);
    if (knows) gather(0);
    return () => gather(1);
  };
  const { ratio, saved } = compared(gatherAgain, 300);
  // What grows with the endpoints is 4. Each slice takes some steps: 1.2.
  expect(ratio).toBeLessThan(1.5);
  expect(saved).toBeLessThan(0.6);
});

it('four ports of a Service are remembered, so that others take no memory', () => {
  const ports = Array.from({ length: 8 }, (_, i) => ({ ...http, name: `http${i}` }));
  const gather = gatherer(300, undefined, ports);
  for (const port of ports) gather(0, port);
  const steps = ports.map((port) => stepsTaken(() => gather(1, port)));
  const most = Math.max(...steps);
  expect(steps.map((one) => one < 0.6 * most)).toEqual(ports.map((_, i) => i < 4));
});

it('keeping the order costs as much as what comes and goes, also after other changes', () => {
  const keepAgain = (size: number, knows: boolean) => {
    const gather = gatherer(size);
    const [first, second, third] = [0, 1, 2].map((version) => gather(version));
    const ordered = keepOrder(first!, second!);
    const unknown = EndpointList.from('IPv4', ordered.bytes().reverse());
    return () => keepOrder(knows ? ordered : unknown, third!);
  };
  const { ratio, saved } = compared(keepAgain, 100);
  expect(ratio).toBeLessThan(1.5);
  expect(saved).toBeLessThan(0.2);
});
