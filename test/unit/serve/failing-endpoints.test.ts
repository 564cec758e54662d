import { expect, it } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import type { ModeFacts } from '../../../src/modes/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Count } from '../../../src/modes/traffic-counts.ts';
import { FailingEndpoints, failingMax, firstOfEach } from '../../../src/serve/failing-endpoints.ts';
import { ServiceCounters } from '../../../src/serve/service-counters.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { noPause } from '../../../src/time/pacer.ts';
import { all, byFrontend, forwarding, pool } from '../modes/nftables/forwardings.ts';

const failed = { tried: 10, answered: 0, reset: 0 };
const later = 60_000;

function of(namespace: string) {
  const port = { service: 'web', port: '', protocol: 'TCP' };
  return { family: 'IPv4' as const, namespace, ...port };
}

function count(failing: FailingEndpoints): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { namespace } of failing.known(later)) {
    counts[namespace] = (counts[namespace] ?? 0) + 1;
  }
  return counts;
}

it('no namespace leaves the failing endpoints of another one without room', () => {
  const failing = new FailingEndpoints();
  for (let i = 0; i < failingMax.all + 5; i += 1) {
    failing.note(of('large'), `10.1.0.1:${i}`, failed, 0);
  }
  failing.note(of('small'), '10.0.0.1:80', failed, 0);
  expect(count(failing)).toEqual({ small: 1, large: failingMax.namespace });
});

it('all namespaces together have no more than a number of failing endpoints', () => {
  const failing = new FailingEndpoints();
  for (let i = 0; i < failingMax.all + 5; i += 1)
    failing.note(of(`ns-${i}`), '10.0.0.1:80', failed, 0);
  expect([failing.size, failing.known(later).length]).toEqual([failingMax.all, failingMax.all]);
});

it('some of each namespace come before those of one that has more', () => {
  const failing = new FailingEndpoints();
  for (let i = 0; i < 200; i += 1) {
    failing.note(of('large'), `10.1.0.1:${i}`, { ...failed, tried: 1000 + i }, 0);
  }
  failing.note(of('small'), '10.0.0.1:80', failed, 0);
  const known = failing.known(later);
  expect(known).toHaveLength(201);
  expect(known.findIndex(({ namespace }) => namespace === 'small')).toBe(firstOfEach);
  const large = known.filter(({ namespace }) => namespace === 'large');
  expect(large.map((one) => one.failed)).toEqual(large.map((_, i) => 1199 - i));
});

it('endpoints that are gone, or answer, leave room', async () => {
  const failing = new FailingEndpoints();
  for (const namespace of ['a', 'b']) failing.note(of(namespace), '10.0.0.1:80', failed, 0);
  failing.note(of('a'), '10.0.0.1:80', { ...failed, answered: 1 }, 1);
  expect([failing.size, count(failing)]).toEqual([1, { b: 1 }]);
  await failing.prune(2, () => false, noPause);
  expect([failing.size, count(failing)]).toEqual([0, {}]);
});

it('counts of many endpoints are taken in many turns of the event loop', async () => {
  const endpoints = 2000;
  const web = forwarding('web', pool(1));
  const { address, port } = web.frontends[0]!;
  const destination = { address, port, protocol: 'TCP' } as const;
  let [nowMs, turns, told] = [0, 0, 0];
  const counts = Array.from({ length: endpoints }, (_, i): Count => {
    const connected = { kind: 'endpoint', endpoint: `10.0.0.1:${i}`, isFollowed: true } as const;
    return { id: String(i), count: 10, destination, of: connected };
  });
  const mode: ModeFacts = {
    ...nftablesMode,
    trafficCounts: async (_kernel, _family, _pause, found) => {
      counts.forEach(found);
      told = turns;
    },
  };
  const counters = new ServiceCounters({
    kernel: {} as Kernel,
    clock: {
      ...systemClock,
      // Each look at the clock takes a tenth of what a turn may take.
      now: () => {
        nowMs += 0.2;
        return nowMs;
      },
      turn: async () => {
        turns += 1;
      },
    },
    config: { serviceMetrics: true },
    mode,
    engine: { connectTime: undefined, frontends: byFrontend(all(web)) },
    families: [{ family: 'IPv4', inForce: all(web) }],
    problemIndex: { resolved() {} },
    connectionLimits: { refusals: { counts: () => [], refresh: async () => {} } },
    state: { service: () => ({ ports: [{ name: '', protocol: 'TCP' }] }) },
  });
  await counters.read();
  expect(turns - told).toBeGreaterThan(endpoints / 20);
});
