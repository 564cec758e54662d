import { expect, test } from 'vitest';
import { NetworkHealth } from '../../../src/serve/network-health.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { ips, ready, service, slice } from '../state/build.ts';
import { stepsTaken } from '../state/steps-taken.ts';
import { ToyClock } from '../sync/double.ts';

test('a round that looks for endpoints of other nodes looks at few of a large slice', () => {
  const state = new ClusterState();
  state.apply({ kind: 'service', service: service() });
  const addresses = ips(1000);
  const places = addresses.map(() => ({ node: 'node-2', zone: '' }));
  const endpoints = Object.fromEntries(addresses.map((address) => [address, ready]));
  state.apply({ kind: 'slice', slice: slice(endpoints, { places }) });
  const network = new NetworkHealth({
    ...{ clock: new ToyClock(), state, health: { isCutOff: false }, log: {} as never },
    config: { clusterCIDR: [] },
    http: { changed: () => {} },
    connect: () => new Promise(() => {}),
  });
  // Of each of four: the port and the state of each endpoint.
  expect(stepsTaken(() => void network.run(new AbortController().signal))).toBeLessThan(20_000);
});
