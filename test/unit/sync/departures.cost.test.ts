/** What it costs to follow the endpoints of a large Service, when all of them are replaced. */
import { expect, it } from 'vitest';
import { FollowedPorts } from '../../../src/failure-detection/ports.ts';
import { dealInSteps } from '../../../src/state/deal.ts';
import { endedBy } from '../../../src/state/endings.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { Departures } from '../../../src/sync/departures.ts';
import { SlowStarts } from '../../../src/sync/slow-starts.ts';
import { unknown } from '../failure-detection/world.ts';
import { ready, resolveOne, service, slice } from '../state/build.ts';
import { growth, stepsTaken } from '../state/steps-taken.ts';
import { ToyClock } from './double.ts';

const of = service({
  endings: { endAfterMs: 60_000 },
  balancing: { balance: undefined, slowStartMs: 60_000 },
});
const asked = { mode: 'eject', probes: false, growthMs: 10_000 } as const;

/** The Service with this number of endpoints, beginning with the one of this number. */
function ending(from: number, count: number): Forwarding {
  const names = Array.from({ length: count }, (_, i) => {
    const n = from + i;
    return `10.${n >> 16}.${(n >> 8) & 0xff}.${n & 0xff}`;
  });
  return resolveOne(of, [slice(Object.fromEntries(names.map((name) => [name, ready])))]);
}

function ports(): FollowedPorts {
  return new FollowedPorts(unknown);
}

/** Four times as many endpoints cost about four times as much. */
const linear = 6;

it('the cost of endpoints that all leave grows with their number', () => {
  const all = (count: number) => {
    const [before, after] = [ending(0, count), ending(count, count)];
    return () => {
      const departures = new Departures({ clock: new ToyClock(), state: { touch() {} } });
      const [first] = finish(departures.note(of, [before]));
      return endedBy(first, finish(departures.note(of, [after]))[0]);
    };
  };
  expect(growth(all, 1000)).toBeLessThan(linear);
});

it('40,960 endpoints that have left are waited for in a namespace, and as many in another', () => {
  const departures = new Departures({ clock: new ToyClock(), state: { touch() {} } });
  const [before, after] = [ending(0, 5000), ending(5000, 1)];
  const leave = (namespace: string, name: string): number => {
    const one = service({ namespace, name, endings: { endAfterMs: 60_000 } });
    finish(departures.note(one, [before]));
    const [noted] = finish(departures.note(one, [after]));
    return noted!.endings!.kept!.length - 1;
  };
  for (let i = 0; i < 10; i += 1) expect(leave('a', `web-${i}`)).toBe(4096);
  expect(leave('a', 'web-10')).toBe(0);
  expect(leave('b', 'web')).toBe(4096);
  departures.forget('a/web-3');
  expect(leave('a', 'web-10')).toBe(4096);
  // Of one that is noted again, its own do not count twice.
  expect(leave('a', 'web-5')).toBe(4096);
});

it('the cost of endpoints that all start slowly grows with their number', () => {
  const all = (count: number) => {
    const [before, after] = [ending(0, count), ending(count, count)];
    return () => {
      const starts = new SlowStarts({ clock: new ToyClock(), state: { touch() {} } });
      return finish(starts.note(of, [after], () => before));
    };
  };
  expect(growth(all, 1000)).toBeLessThan(linear);
});

it('the cost of weights grows with the number of endpoints', () => {
  const dealing = (count: number) => {
    const { cluster, local } = ending(0, count);
    const weights = new Map(Array.from({ length: count }, (_, i) => [cluster.key(i), 1 + (i % 7)]));
    const input = { asked: undefined, weights, slotsMax: 65_536, here: undefined };
    return () => finish(dealInSteps({ ...input, canRemember: true }, { cluster, local }));
  };
  expect(growth(dealing, 1000)).toBeLessThan(linear);
});

it('the cost of endpoints of which only some are followed grows with their number', () => {
  const all = (count: number) => {
    const [before, after] = [ending(0, count), ending(count, count)];
    return () => {
      const followed = ports();
      followed.follow(before, asked);
      return followed.follow(after, asked);
    };
  };
  expect(growth(all, 1000)).toBeLessThan(linear);
});

it('endpoints that are followed and stay the same cost nothing', () => {
  const followed = ports();
  followed.follow(ending(0, 3000), asked);
  const same = ending(0, 3000);
  expect(stepsTaken(() => followed.follow(same, asked))).toBeLessThan(100);
  expect(followed.byId([...followed.all][0]!.id)!.leftOut).toBe(2000);
});

it('endpoints for which there is no room in their namespace are compared when another one leaves', () => {
  const followed = ports();
  const port = (name: string, from: number): Forwarding => {
    const one = ending(from, 900);
    return { ...one, key: name, servicePort: { ...one.servicePort, port: name } };
  };
  const [first, second, third] = [port('a', 0), port('b', 1000), port('c', 2000)];
  for (const one of [first, second, third]) followed.follow(one, asked);
  const leftOut = () => followed.of('IPv4', 'c')!.leftOut;
  expect(leftOut()).toBe(700);
  const same = port('c', 2000);
  expect(stepsTaken(() => followed.follow(same, asked))).toBeLessThan(100);
  followed.forget(followed.of('IPv4', 'a')!.id);
  followed.follow(same, asked);
  expect(leftOut()).toBe(0);
});
