/**
 * One Service of 20,000 ports: how long do those hold the event loop that follow its ports, the
 * counters of its endpoints and their routes?
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ModeFacts } from '../../src/modes/mode.ts';
import { UnroutedEndpoints } from '../../src/serve/ask/unrouted.ts';
import { ServiceCounters } from '../../src/serve/service-counters.ts';
import { decodeChange, decodeContext } from '../../src/source/decode.ts';
import { FrontendsInForce } from '../../src/state/frontends-in-force.ts';
import { resolve } from '../../src/state/resolve.ts';
import { ClusterState } from '../../src/state/store.ts';
import type { EndpointSlice, Service } from '../../src/state/types.ts';
import { systemClock } from '../../src/time/clock.ts';
import { CountingKernel, DetectionStage } from './ejections.ts';
import { LongestTurn } from './longest-turn.ts';
import { number, summarise } from './stats.ts';

const ports = 20_000;
/** Each port of the Service has as many as all its ports may have together. */
const endpoints = 6;
const rounds = 5;
const key = 'shop/large';

export async function manyPorts(): Promise<string> {
  return [await followed(), await counted(), await searched()].join('\n\n');
}

/** Its ports get other numbers in each round, and failure detection follows them. */
async function followed(): Promise<string> {
  const stage = new DetectionStage(new CountingKernel());
  for (const slice of slices()) stage.state.apply({ kind: 'slice', slice });
  const services = Array.from({ length: rounds }, (_, round) => service(round));
  await sleep(10);
  const longest = new LongestTurn();
  const turns: number[] = [];
  for (const service of services) {
    stage.state.apply({ kind: 'service', service });
    await stage.resolved(key);
    await sleep(1000);
    turns.push(longest.take());
  }
  longest.close();
  const { endpoints: some } = stage.detection.totals;
  await stage.close();
  return (
    `${number(ports)} ports with failure-detection: eject, all renumbered, of whose endpoints ` +
    `${number(some)} are followed: ${longestOf(turns)}`
  );
}

/** No endpoint of its ports answers, and clients connect to all of them between two readings. */
async function counted(): Promise<string> {
  const large = service(0);
  const forwardings = resolve(large, slices(), context);
  const inForce = new FrontendsInForce('IPv4');
  for (const one of forwardings) inForce.changed(undefined, one);
  let tried = 0;
  const mode: Pick<ModeFacts, 'trafficCounts'> = {
    trafficCounts: async (_kernel, _family, pause, found) => {
      tried += 5;
      for (const { cluster, frontends, servicePort } of forwardings) {
        const { address, port } = frontends[0]!;
        const destination = { address, port, protocol: servicePort.protocol };
        for (const endpoint of cluster.texts()) {
          const of = { kind: 'endpoint', endpoint, isFollowed: true } as const;
          found({ id: `${port} ${endpoint}`, count: tried, destination, of });
        }
        await pause();
      }
    },
  };
  let skippedMs = 0;
  const counters = new ServiceCounters({
    kernel: undefined as never,
    clock: { ...systemClock, now: () => systemClock.now() + skippedMs },
    config: { serviceMetrics: true },
    mode: mode as ModeFacts,
    engine: { connectTime: undefined, frontends: { IPv4: inForce } },
    connectionLimits: { refusals: { counts: () => [], refresh: () => Promise.resolve() } },
    state: { service: () => large },
  });
  await counters.read();
  await sleep(10);
  const longest = new LongestTurn();
  const turns: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    skippedMs += 10_000;
    await counters.read();
    await sleep(10);
    turns.push(longest.take());
  }
  longest.close();
  return (
    `Counters of ${number(ports)} ports of ${endpoints} endpoints each that never answer: ` +
    longestOf(turns)
  );
}

/** The node has no route to any of its endpoints. */
async function searched(): Promise<string> {
  const state = new ClusterState();
  state.apply({ kind: 'service', service: service(0) });
  for (const slice of slices(1000)) state.apply({ kind: 'slice', slice });
  const unrouted = new UnroutedEndpoints({
    clock: systemClock,
    state,
    routing: {
      read: async (family) => (family === 'IPv4' ? routes : undefined),
      find: async (addresses) => addresses.map(() => 'unreachable'),
      deadHops: async () => new Set(),
    },
  });
  const forwardings = resolve(service(0), slices(), context);
  const seen = forwardings.map((forwarding) => ({ forwarding }));
  await sleep(10);
  const longest = new LongestTurn();
  await unrouted.refresh();
  while (unrouted.found.size === 0) await sleep(1);
  const problems = unrouted.problems(seen);
  await sleep(10);
  const ms = longest.take();
  longest.close();
  return (
    `The search for endpoints without a route among ${number(1000 * slices().length)} of ` +
    `${number(ports)} ports, of which ${number(unrouted.found.size)} are found and ` +
    `${problems.length} named: longest turn ${number(ms)} ms, of processor time`
  );
}

/** Of rounds: a collection of the whole heap is in some of them. */
function longestOf(turns: readonly number[]): string {
  const { max, p50 } = summarise(turns);
  return `longest turn ${number(p50)} ms (median of ${turns.length} rounds), ${number(max)} ms (all), of processor time`;
}

const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };

/** A table of routes without a default one. */
const routes = ['Iface\tDestination', ...Array.from({ length: 1000 }, (_, i) => route(i))].join(
  '\n',
);

/** A route to 11.x.y.0/24, as /proc/net/route has it. */
function route(i: number): string {
  const hex = [0, i & 0xff, i >> 8, 11].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return ['eth0', hex.toUpperCase(), '00000000', '1', '0', '0', '0', '00FFFFFF', '0'].join('\t');
}

function service(round: number): Service {
  const own = Array.from({ length: ports }, (_, i) => {
    return { name: `p${i}`, protocol: 'TCP', port: 1000 + 100 * round + i };
  });
  const metadata = { namespace: 'shop', name: 'large', uid: 'large' };
  const made = { metadata, spec: { clusterIP: '10.96.0.1', ports: own } };
  const { change } = decodeChange('services', made, decodeContext('here'));
  if (change?.kind !== 'service') throw new Error('the Service was refused');
  return change.service;
}

/** A slice has 100 ports at most. */
function slices(each = endpoints): EndpointSlice[] {
  return Array.from({ length: ports / 100 }, (_, i) => {
    const labels = { 'kubernetes.io/service-name': 'large' };
    const metadata = { namespace: 'shop', name: `large-${i}`, uid: `large-${i}`, labels };
    const own = Array.from({ length: 100 }, (_, k) => ({
      name: `p${100 * i + k}`,
      port: 8000 + k,
    }));
    const some = Array.from({ length: each }, (_, k) => {
      return { addresses: [`10.${i}.${k >> 8}.${k & 0xff}`] };
    });
    const made = { metadata, addressType: 'IPv4', ports: own, endpoints: some };
    const { change } = decodeChange('endpointslices', made, decodeContext('here'));
    if (change?.kind !== 'slice') throw new Error('the EndpointSlice was refused');
    return change.slice;
  });
}
