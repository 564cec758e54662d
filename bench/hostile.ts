/**
 * What does a Service cost that asks for as much as it can, and how long does another one wait for
 * it? It measures reading, resolving, claiming, failure detection, counters and the search for
 * routes, without a kernel. Each object is compared with one of a quarter of its size.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { Admission } from '../src/connect-time/maps/admission.ts';
import { ConnectTimeBackend, type ConnectTimeTypes } from '../src/connect-time/maps/backend.ts';
import { ofServiceMax } from '../src/connect-time/maps/map-room.ts';
import { standardLeaseMs, standardRoom } from '../src/connect-time/maps/placement.ts';
import { ConntrackReconciler } from '../src/conntrack/reconciler.ts';
import type { ModeConfig } from '../src/modes/mode.ts';
import { ModePlanner } from '../src/modes/planner.ts';
import { decodeChange, decodeContext } from '../src/source/decode.ts';
import { type Excess, noLimits } from '../src/state/budget.ts';
import { slotsOf } from '../src/state/deal.ts';
import { FrontendOwners } from '../src/state/frontend-owners.ts';
import { FrontendsInForce } from '../src/state/frontends-in-force.ts';
import { withOrderOf } from '../src/state/pool.ts';
import { resolve, resolveInSteps } from '../src/state/resolve.ts';
import { finish } from '../src/state/steps.ts';
import { ClusterState } from '../src/state/store.ts';
import type { EndpointSlice, Forwarding, Service } from '../src/state/types.ts';
import { Departures } from '../src/sync/departures.ts';
import { Desired } from '../src/sync/desired.ts';
import type { FamilySync } from '../src/sync/family.ts';
import { Refresher } from '../src/sync/refresher.ts';
import { SlowStarts } from '../src/sync/slow-starts.ts';
import { TrackedForwardings } from '../src/sync/tracked.ts';
import { systemClock } from '../src/time/clock.ts';
import { noPause, Pacer } from '../src/time/pacer.ts';
import { type FakeEntry, packedEntries } from '../test/fake/conntrack.ts';
import { ejections } from './lib/ejections.ts';
import { LongestTurn } from './lib/longest-turn.ts';
import { manyPorts } from './lib/many-ports.ts';
import { number, table } from './lib/stats.ts';

/** The limits that flags have by default. */
const limits = {
  frontends: 20_000,
  frontendEndpoints: 10_000,
  endpoints: 250_000,
  sourceRanges: 50_000,
  affinityPorts: 1000,
};
const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
const factor = 4;
const rounds = 5;
const sliceMs = 2;

export async function hostile(): Promise<string> {
  const head = ['object', 'a quarter', 'whole', 'ratio'];
  const growth = table(head, [
    row('resolve 8,000 ports', 8000, (n) => resolving(ports(n), [])),
    row('resolve 2 ports at 8,000 external IPs', 8000, (n) => resolving(ports(2), ips(n))),
    row('decode 20,000 ports', 20_000, decoding),
    row('1,000 Services claim the same 20 frontends', 1000, contending),
  ]);
  const others = [await overtaken(), await hashed(), await replaced(), await crowded()];
  others.push(await swayed());
  const followed = [await ejections(), await manyPorts()];
  return [growth, bounded(), ...others, ...followed, await moved()].join('\n\n');
}

function row(name: string, size: number, make: (size: number) => () => unknown): string[] {
  const [quarterMs, wholeMs] = [fastestMs(make(size / factor)), fastestMs(make(size))];
  const ms = (value: number): string => `${number(value)} ms`;
  return [name, ms(quarterMs), ms(wholeMs), `${number(wholeMs / quarterMs)}×`];
}

function fastestMs(run: () => unknown): number {
  let fastest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < rounds; i += 1) {
    const startMs = performance.now();
    run();
    fastest = Math.min(fastest, performance.now() - startMs);
  }
  return fastest;
}

/** 2,000 ports at 1,500 external IPs: 80 KB of JSON. */
function bounded(): string {
  const service = made('shop', 'large', ports(2000), ips(1500));
  let excess: readonly Excess[] = [];
  let forwardings: readonly Forwarding[] = [];
  const ms = fastestMs(() => {
    ({ excess, forwardings } = finish(resolveInSteps(service, [], { ...context, limits })));
  });
  const served = forwardings.reduce((sum, { frontends }) => sum + frontends.length, 0);
  const asked = excess[0]?.asked ?? 0;
  return `2,000 ports at 1,500 external IPs: ${number(asked)} frontends, ${number(served)} served, ${number(ms)} ms`;
}

/** One Service of 20,000 ports is renumbered again and again while another one changes. */
function overtaken(): Promise<string> {
  return beside('20,000 ports that are renumbered', 10, ({ change }, round) => {
    change(made('shop', 'large', ports(20_000, 1000 + 100 * round), []));
  });
}

/** A Service has the largest table of `maglev`, and another of its endpoints in each round. */
function hashed(): Promise<string> {
  const count = 10_000;
  return beside(`${number(count)} endpoints of maglev that change`, 10, (world, round) => {
    if (round === 0) {
      const service = made('shop', 'large', ports(1), []);
      world.change({ ...service, balancing: { balance: 'maglev' } });
    }
    for (const slice of manySlices(count, round)) world.state.apply({ kind: 'slice', slice });
    world.refresh('shop/large');
  });
}

/** All endpoints are replaced in each round, of a Service that follows them closely. */
function replaced(): Promise<string> {
  const count = 10_000;
  const what = `${number(count)} endpoints that are all replaced (slow-start, end-connections)`;
  return beside(what, 10, (world, round) => {
    if (round === 0) {
      const service = made('shop', 'large', ports(1), []);
      const balancing = { balance: undefined, slowStartMs: 60_000 };
      world.change({ ...service, balancing, endings: { endAfterMs: 60_000 } });
    }
    const slices = manySlices(count, 0, 100 + 2 * round);
    for (const slice of slices) world.state.apply({ kind: 'slice', slice });
    world.refresh('shop/large');
  });
}

/** Many Services with a table of `maglev` for each of 16 ports get another endpoint in each round. */
function crowded(): Promise<string> {
  const names = Array.from({ length: 400 }, (_, i) => `large-${i}`);
  const what = '400 Services of 16 tables of maglev that change';
  return beside(what, 3, (world, round) => {
    for (const name of names) {
      if (round === 0) {
        const service = made('shop', name, ports(16), []);
        world.change({ ...service, balancing: { balance: 'maglev' } });
      }
      const [slice] = slices(ports(16), 2, { name, net: round });
      world.state.apply({ kind: 'slice', slice: slice! });
      world.refresh(`shop/${name}`);
    }
  });
}

/** All connections of 1,000 Services that ask for `least-connections` move once in four seconds. */
async function swayed(): Promise<string> {
  const [count, each, seconds] = [1000, 100, 40];
  const named = Array.from({ length: count }, (_, i) => {
    const service = made('shop', `s${i}`, ports(1), [], `10.96.${i >> 8}.${i & 255}`);
    return { ...service, balancing: { balance: 'least-connections' as const } };
  });
  const services = new Map(named.map((one) => [one.key, one]));
  const inForce = new Map<string, Forwarding>();
  const entries = [0, 1].map((busy) => {
    const of = Array.from({ length: count * each }, (_, i): FakeEntry => {
      const [at, port] = [i % count, 1024 + Math.floor(i / count)];
      const to = `10.96.${at >> 8}.${at & 255}:1000`;
      return { protocol: 'TCP', from: `10.9.0.1:${port}`, to, answeredBy: `10.244.0.${busy}:8080` };
    });
    return packedEntries('IPv4', of);
  });
  let [passes, moves, slots] = [0, 0, 0];
  const reconciler = new ConntrackReconciler({
    inForce: new FrontendsInForce('IPv4'),
    conntrack: {
      dump: async ({ state }) => {
        if (state === 'any') passes += 1;
        return { entries: entries[(passes >> 2) & 1]!, complete: true };
      },
      delete: async () => ({ deleted: 0, gone: 0, failures: [] }),
      close: () => {},
    },
    clock: systemClock,
    observer: () => {},
    localAddresses: () => [],
    moved: (key) => {
      moves += 1;
      write(services.get(key)!);
    },
  });
  const write = (service: Service): void => {
    const open = (_: string, forwarding: string) => reconciler.open(forwarding);
    const [slice] = slices(ports(1), 3, { name: service.name });
    const [next] = resolve(service, [slice!], { ...context, open });
    const before = inForce.get(service.key);
    const after = withOrderOf(before, next!);
    slots += [...slotsOf(after, 'cluster').changedAt(slotsOf(before ?? after, 'cluster'))].length;
    inForce.set(service.key, after);
    reconciler.changed(before, after);
    reconciler.settled({ nodePortAddresses: [] });
  };
  for (const service of services.values()) write(service);
  await sleep(5000);
  [passes, moves, slots] = [0, 0, 0];
  const turns = new LongestTurn();
  const before = process.threadCpuUsage();
  await sleep(1000 * seconds);
  const { user, system } = process.threadCpuUsage(before);
  const longestMs = turns.take();
  turns.close();
  await reconciler.stop();
  return (
    `${number(count)} Services ask for least-connections, and ${number(count * each)} connections move from one ` +
    `endpoint to another and back: ${number((user + system) / 1000 / seconds)} ms of processor time a second ` +
    `(${number(passes / seconds)} passes, without the kernel's part), longest turn ${number(longestMs)} ms; ` +
    `${number(moves / seconds)} Services and ${number(slots / seconds)} slots a second`
  );
}

interface Beside {
  readonly state: ClusterState;
  readonly change: (service: Service) => void;
  readonly refresh: (name: string) => void;
}

/** Another Service changes again and again while `disturb` has changed something large. */
async function beside(
  what: string,
  rounds: number,
  disturb: (world: Beside, round: number) => void,
): Promise<string> {
  const state = new ClusterState();
  /** When the small Service changed; undefined: that is resolved. */
  let sinceMs: number | undefined;
  const waitedMs: number[] = [];
  const tracked = new TrackedForwardings('IPv4', { now: () => 0 });
  const family: Pick<FamilySync, 'changed' | 'desired' | 'family' | 'setDesired' | 'track'> = {
    family: 'IPv4',
    desired: tracked.desired,
    changed: () => {},
    track: (key) => tracked.at(key),
    setDesired: (record, next) => {
      tracked.setDesired(record, next);
      if (!record.key.startsWith('shop/small') || sinceMs === undefined) return;
      waitedMs.push(performance.now() - sinceMs);
      sinceMs = undefined;
    },
  };
  const slowStarts = new SlowStarts({ clock: systemClock, state });
  const departures = new Departures({ clock: systemClock, state });
  const desired = new Desired({
    owners: new FrontendOwners(),
    state,
    families: [family as FamilySync],
    context: () => ({
      ...{ ...context, limits: noLimits },
      starting: (...of) => slowStarts.starting(...of),
    }),
    clock: systemClock,
    observer: () => {},
    ...{ slowStarts, departures },
  });
  desired.listed();
  state.markSynced('services');
  state.markSynced('endpointslices');
  const refresher = new Refresher({
    clock: systemClock,
    state,
    sliceMs,
    refresh: (name, receivedMs) => desired.refresh(name, receivedMs),
  });
  const pacer = new Pacer(systemClock, sliceMs);
  const refresh = (name: string): void => state.touch(name);
  const change = (service: Service): void => void state.apply({ kind: 'service', service });
  const turnsMs: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    disturb({ state, change, refresh }, round);
    for (let turn = 0; !refresher.idle; turn += 1) {
      if (turn % 20 === 2 && sinceMs === undefined) {
        sinceMs = performance.now();
        change(made('shop', 'small', ports(1, 80 + waitedMs.length), []));
      }
      const usedBefore = process.threadCpuUsage();
      refresher.work(pacer);
      const { user, system } = process.threadCpuUsage(usedBefore);
      turnsMs.push((user + system) / 1000);
      if (pacer.due) await pacer.rest();
    }
  }
  slowStarts.stop();
  departures.stop();
  const at = (values: readonly number[], share: number): string => {
    const sorted = values.toSorted((a, b) => a - b);
    return number(sorted[Math.floor(share * (sorted.length - 1))] ?? 0);
  };
  return (
    `Beside ${what}: ${waitedMs.length} changes of a small Service waited ` +
    `${at(waitedMs, 0.5)} ms (median), ${at(waitedMs, 1)} ms (longest); longest turns ` +
    `${at(turnsMs, 1)} ms and ${at(turnsMs, 0.99)} ms (1 of 100), of processor time`
  );
}

/** A Service gets too large for the maps of connect-time translation and small again, in turns. */
async function moved(): Promise<string> {
  const { frontends, endpoints } = ofServiceMax;
  const all = ports(frontends + 1);
  const each = endpoints / frontends;
  const service = made('shop', 'large', all, []);
  const forwardings = resolve(service, slices(all, each), context);
  // An eighth less, and it comes in again.
  const few = Math.floor(frontends / 1.125);
  const planner = new ModePlanner<ConnectTimeTypes>({
    family: config.family,
    backend: () => new ConnectTimeBackend(config, placement),
    environment: { serviceCIDRs: [], nodePortAddresses: 'all' },
  });
  const desired = new Map<string, Forwarding>();
  const admission = new Admission({
    room: placement.room,
    setting: { config, reach: placement.reach },
    desire: (key, next) => {
      planner.change(desired.get(key), next);
      if (next === undefined) desired.delete(key);
      else desired.set(key, next);
    },
  });
  await planner.resume([], noPause);
  let longestMs = 0;
  const timed = (work: () => void): void => {
    const startMs = performance.now();
    work();
    longestMs = Math.max(longestMs, performance.now() - startMs);
  };
  const write = (): void => {
    timed(() => planner.take()?.committed({ kind: 'applied' }));
    timed(() => admission.settled(desired));
    timed(() => planner.take()?.committed({ kind: 'applied' }));
  };
  const told = new Set<boolean>();
  const change = (some: readonly Forwarding[], what: 'added' | 'removed'): void => {
    for (const one of some) {
      timed(() => admission.changed(one, what === 'added' ? one : undefined));
    }
    write();
    told.add(admission.holds(service.key));
  };
  change(forwardings.slice(0, few), 'added');
  longestMs = 0;
  for (let round = 0; round < rounds; round += 1) {
    change(forwardings.slice(few), 'added');
    change(forwardings.slice(few), 'removed');
  }
  if (told.size < 2) throw new Error('the Service was never moved');
  const size = `${number(frontends)} ports and ${number(endpoints)} endpoints`;
  return `A Service of ${size} comes into the maps of connect-time translation and leaves them: longest turn ${number(longestMs)} ms`;
}

const placement = {
  directory: '',
  cgroup: '',
  reach: 'all',
  excludes: false,
  room: standardRoom,
  secret: new Uint8Array(16).fill(7),
  leaseMs: standardLeaseMs,
} as const;
const config: ModeConfig = {
  family: 'IPv4',
  masqueradeAll: false,
  masqueradeMark: 0x4000,
  localDetector: { kind: 'none' },
  localhostNodePorts: false,
  asIptables: false,
  dropInvalid: false,
  ownTables: false,
  countsTraffic: false,
};

/** EndpointSlices of 100 endpoints, one of which is another one in each round. */
function manySlices(count: number, round: number, net = 244): EndpointSlice[] {
  const of = round === 0 ? Array.from({ length: count / 100 }, (_, i) => i) : [round % 100];
  return of.map((i) => {
    const labels = { 'kubernetes.io/service-name': 'large' };
    const metadata = { namespace: 'shop', name: `large-${i}`, uid: `large-${i}`, labels };
    const endpoints = Array.from({ length: 100 }, (_, k) => {
      const host = k === 0 ? round % 256 : k + 100;
      return { addresses: [`10.${net + (k === 0 ? 1 : 0)}.${i}.${host}`] };
    });
    const own = [{ name: 'p0', port: 8080 }];
    const made = { metadata, addressType: 'IPv4', ports: own, endpoints };
    const { change } = decodeChange('endpointslices', made, decodeContext('here'));
    if (change?.kind !== 'slice') throw new Error('the EndpointSlice was refused');
    return change.slice;
  });
}

/** The number of endpoints for each port; a slice has 100 ports at most. */
function slices(
  of: Service['ports'],
  each: number,
  { name: service = 'large', net = 0 } = {},
): EndpointSlice[] {
  const endpoints = Array.from({ length: each }, (_, i) => ({ addresses: [`10.244.${net}.${i}`] }));
  return Array.from({ length: Math.ceil(of.length / 100) }, (_, i) => {
    const labels = { 'kubernetes.io/service-name': service };
    const name = `${service}-${i}`;
    const metadata = { namespace: 'shop', name, uid: name, labels };
    const own = of.slice(100 * i, 100 * (i + 1)).map(({ name }) => ({ name, port: 8080 }));
    const made = { metadata, addressType: 'IPv4', ports: own, endpoints };
    const { change } = decodeChange('endpointslices', made, decodeContext('here'));
    if (change?.kind !== 'slice') throw new Error('the EndpointSlice was refused');
    return change.slice;
  });
}

function resolving(of: Service['ports'], externalIPs: string[]): () => unknown {
  const service = made('shop', 'large', of, externalIPs);
  return () => resolve(service, [], context);
}

function decoding(count: number): () => unknown {
  const text = JSON.stringify(raw('shop', 'large', ports(count), []));
  return () => decodeChange('services', JSON.parse(text), decodeContext('here'));
}

function contending(count: number): () => unknown {
  const services = Array.from({ length: count }, (_, i) => {
    return made('shop', `s${i}`, ports(20), ['203.0.113.1']);
  });
  const resolved = services.map((service) => resolve(service, [], context));
  return () => {
    const owners = new FrontendOwners();
    for (const [i, service] of services.entries()) finish(owners.set(service, resolved[i]!));
    for (const { key } of services) owners.release(key);
  };
}

function ports(count: number, first = 1000): Service['ports'] {
  return Array.from({ length: count }, (_, i) => {
    return { name: `p${i}`, protocol: 'TCP', port: first + i, nodePort: 0 } as const;
  });
}

/** Distinct addresses 203.0.x.y. */
function ips(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `203.0.${i >> 8}.${i & 0xff}`);
}

function raw(
  namespace: string,
  name: string,
  of: Service['ports'],
  externalIPs: string[],
  clusterIP = '10.96.0.1',
) {
  const metadata = { namespace, name, uid: name };
  return { metadata, spec: { clusterIP, ports: of, externalIPs } };
}

function made(...args: Parameters<typeof raw>): Service {
  const { change } = decodeChange('services', raw(...args), decodeContext('here'));
  if (change?.kind !== 'service') throw new Error('the Service was refused');
  return change.service;
}
