import { expect, it } from 'vitest';
import type { Reached } from '../../../src/host/reach.ts';
import { NetworkHealth } from '../../../src/serve/network-health.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { cidr, ready, readyLocal, service, slice, unready } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const node2 = [{ node: 'node-2', zone: '' }];
const node3 = [{ node: 'node-3', zone: '' }];

/** With one endpoint for each Service. */
function world(
  endpoints: Readonly<Record<string, { ip: string; node: typeof node2; is?: typeof ready }>>,
  silent: readonly string[] = [],
) {
  const state = new ClusterState();
  for (const [name, { ip, is = ready, node: places }] of Object.entries(endpoints)) {
    const [namespace = '', own = ''] = name.split('/');
    state.apply({ kind: 'service', service: service({ namespace, name: own }) });
    const of = { key: `${name}-1`, service: name, places };
    state.apply({ kind: 'slice', slice: slice({ [ip]: is }, of) });
  }
  let random = 0;
  const clock = new (class extends ToyClock {
    override random(): number {
      random = (random + 0.37) % 1;
      return random;
    }
  })();
  const seen = {
    health: { isCutOff: false },
    silent: new Set(silent),
    tried: [] as string[],
    answer: 'connected',
  };
  const logged: string[] = [];
  const log = {
    info: (text: string) => logged.push(text),
    warn: (text: string) => logged.push(text),
  };
  const network = new NetworkHealth({
    ...{ clock, state, health: seen.health, log: log as never },
    config: { clusterCIDR: [cidr('10.0.0.0/8')] },
    http: { changed: () => {} },
    connect: async (_, { address, port }, timeoutMs) => {
      seen.tried.push(`${address}:${port}`);
      if (!seen.silent.has(address)) return { answer: seen.answer } as Reached;
      await new Promise<void>((done) => void clock.after(timeoutMs, done));
      return undefined;
    },
  });
  const end = new AbortController();
  const running = network.run(end.signal);
  return {
    ...{ state, seen, logged },
    clock,
    pass: (rounds: number) => clock.pass(10_000 * rounds),
    silence: (...all: string[]) => {
      seen.silent = new Set(all);
    },
    stop: async () => {
      end.abort();
      await clock.pass(2000);
      await running;
    },
  };
}

const [a, b] = ['10.0.2.1', '10.0.3.1'];
const two = { 'a/web': { ip: a, node: node2 }, 'b/web': { ip: b, node: node3 } };

it('is cut off once endpoints of two nodes and namespaces have not answered three times', async () => {
  const { clock, logged, pass, seen, silence, stop } = world(two);
  await pass(20);
  silence(a, b);
  // Ten seconds before each time, and two for an answer.
  await clock.pass(3 * 12_000 - 1);
  expect(seen.health.isCutOff).toBe(false);
  await clock.pass(1);
  expect(seen.health.isCutOff).toBe(true);
  // A reset is an answer.
  seen.answer = 'refused';
  silence(a);
  await pass(2);
  expect(seen.health.isCutOff).toBe(false);
  expect(logged).toEqual([
    'No endpoint of another node answers',
    'Endpoints of other nodes answer again',
  ]);
  expect([...new Set(seen.tried)].sort()).toEqual([`${a}:8080`, `${b}:8080`]);
  await stop();
});

it('stays cut off while the silent endpoints are replaced by others that are silent', async () => {
  const { pass, seen, silence, state, stop } = world(two);
  await pass(20);
  silence(a, b, '10.0.3.2');
  await pass(4);
  for (const name of ['a', 'b']) state.apply({ kind: 'slice-gone', key: `${name}/web-1` });
  const of = { key: 'b/web-2', service: 'b/web', places: node3 };
  state.apply({ kind: 'slice', slice: slice({ '10.0.3.2': ready }, of) });
  await pass(5);
  expect(seen.health.isCutOff).toBe(true);
  silence(a, b);
  await pass(5);
  expect(seen.health.isCutOff).toBe(false);
  await stop();
});

it.each([
  ['that is the only one', { 'a/web': { ip: a, node: node2 } }],
  ['of one namespace', { 'a/web': { ip: a, node: node2 }, 'a/other': { ip: b, node: node3 } }],
  ['of one node', { 'a/web': { ip: a, node: node2 }, 'b/web': { ip: b, node: node2 } }],
])('an endpoint %s is not enough', async (_, endpoints) => {
  const { pass, seen, silence, stop } = world(endpoints);
  await pass(20);
  silence(a, b);
  await pass(20);
  expect(seen.health.isCutOff).toBe(false);
  await stop();
});

it.each([
  ['have never answered', two, [a, b]],
  ['are on this node', { ...two, 'b/web': { ip: b, node: node3, is: readyLocal } }, []],
  ['are not ready', { ...two, 'b/web': { ip: b, node: node3, is: unready } }, []],
  [
    'are on a node that is not named',
    { ...two, 'b/web': { ip: b, node: [{ node: '', zone: '' }] } },
    [],
  ],
  ['are in the network of nodes', { ...two, 'b/web': { ip: '192.0.2.3', node: node3 } }, []],
])('endpoints that %s do not count', async (_, endpoints, silent) => {
  const { pass, seen, silence, stop } = world(endpoints, silent);
  await pass(20);
  silence(a, b);
  await pass(20);
  expect(seen.health.isCutOff).toBe(false);
  await stop();
});

it('tries sixteen endpoints again, and four others, at a time', async () => {
  const names = Array.from({ length: 40 }, (_, i) => `${i}`);
  const endpoints = names.map((i) => [
    `a${i}/web`,
    { ip: `10.0.4.${i}`, node: [{ node: i, zone: '' }] },
  ]);
  const { pass, seen, stop } = world(Object.fromEntries(endpoints));
  await pass(100);
  seen.tried.length = 0;
  await pass(1);
  expect(seen.tried).toHaveLength(20);
  await stop();
});
