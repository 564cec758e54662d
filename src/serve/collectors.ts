/** The metrics that are read when Prometheus asks. */
import type { Counter, Registry } from 'prom-client';
import gc from 'prom-client/lib/metrics/gc.js';
import heapSizeAndUsed from 'prom-client/lib/metrics/heapSizeAndUsed.js';
import heapSpacesSizeAndUsed from 'prom-client/lib/metrics/heapSpacesSizeAndUsed.js';
import osMemoryHeap from 'prom-client/lib/metrics/osMemoryHeap.js';
import processCpuTotal from 'prom-client/lib/metrics/processCpuTotal.js';
import processMaxFileDescriptors from 'prom-client/lib/metrics/processMaxFileDescriptors.js';
import processOpenFileDescriptors from 'prom-client/lib/metrics/processOpenFileDescriptors.js';
import processStartTime from 'prom-client/lib/metrics/processStartTime.js';
import nodeVersion from 'prom-client/lib/metrics/version.js';
import { ownRelease, proxyGates, stageIn } from '../config/gates.ts';
import { configHash } from '../config/hash.ts';
import { fairleadVersion } from '../config/version.ts';
import { conntrackLosses, conntrackUse } from '../host/conntrack.ts';
import { type NamedCounter, readCounters } from '../kernel/acct.ts';
import type { TurnMeter } from '../kernel/addon.ts';
import type { KernelReader, ReplyOf } from '../kernel/kernel.ts';
import { protocolOf } from '../kernel/nft/constants.ts';
import { fairShares } from '../modes/fair-shares.ts';
import type { AffinityFill, ModeFacts } from '../modes/mode.ts';
import { bounds } from '../modes/sockets/bounds.ts';
import type { Descriptors } from '../modes/sockets/descriptors.ts';
import { Address, type Family, families, formatEndpoint } from '../net/address.ts';
import { resources } from '../state/change.ts';
import type { FrontendsByFamily, ServedPort } from '../state/frontends-in-force.ts';
import type { FamilySync } from '../sync/family.ts';
import { systemClock } from '../time/clock.ts';
import { Pacer, type Pause } from '../time/pacer.ts';
import { RecentResults } from '../time/recent.ts';
import type { AgentState } from './ask/agent-state.ts';
import { statusNow } from './ask/status.ts';
import { connectTimeMetrics } from './connect-time-metrics.ts';
import type { Logger } from './log.ts';
import type { LogDestination } from './log-destination.ts';
import {
  ipvsServersMax,
  metric,
  outcomePortsMax,
  readHistogram,
  readMetric,
  servicePortsMax,
} from './metric-table.ts';
import type { ServiceCounters, ServiceTraffic } from './service-counters.ts';

type Facts<K extends keyof AgentState> = Pick<AgentState, K>;

/** All metrics that are read from the state of the process and from the kernel. */
export function agentMetrics(registry: Registry, agent: AgentState): void {
  const each = [
    ...[buildMetrics, gateMetrics, stateMetrics, infoMetrics, problemMetrics, ipvsMetrics],
    ...[affinityMetrics, conntrackTableMetrics, serviceMetrics, detectionMetrics],
    ...[connectTimeMetrics, byteMetrics],
  ];
  for (const add of each) add(registry, agent);
}

/** Of the library's, those of the process and of Node that read only when they are asked. */
const ofProcess = [
  processCpuTotal,
  processStartTime,
  osMemoryHeap,
  processOpenFileDescriptors,
  processMaxFileDescriptors,
  heapSizeAndUsed,
  heapSpacesSizeAndUsed,
  nodeVersion,
  gc,
];

/** Metrics of the process and of Node that the library makes. */
export function libraryMetrics(registry: Registry): void {
  for (const add of ofProcess) add(registry);
}

/**
 * Metrics of the process and of Node. The library's gauges of the event loop have a timer, and a
 * histogram of 0.4 MB, behind them: the lag is measured here, the rest is
 * `fairlead_event_loop_delay_seconds`.
 */
export function processMetrics(registry: Registry): void {
  libraryMetrics(registry);
  metric('nodejs_eventloop_lag_seconds', registry, (lag) => {
    const askedMs = performance.now();
    setImmediate(() => lag.set((performance.now() - askedMs) / 1000));
  });
}

/** Constant 1, with versions as labels. */
export function buildMetrics(registry: Registry, { source }: Facts<'source'>): void {
  readMetric('kubernetes_build_info', registry, () => {
    const known = source.serverVersion();
    if (known === undefined) return [];
    const { gitVersion: git_version, major, minor, platform } = known;
    return [[{ major, minor, git_version, platform }, 1]];
  });
  const own = metric('fairlead_build_info', registry);
  own.set({ version: fairleadVersion, node_version: process.version }, 1);
}

/** 1 = enabled. Stages as upstream's: a gate of general availability has none. */
export function gateMetrics(registry: Registry, { config }: Facts<'config'>): void {
  const gauge = metric('kubernetes_feature_enabled', registry);
  // They never change.
  for (const [name, isEnabled] of Object.entries(config.featureGates)) {
    const gate = proxyGates[name];
    const stage = gate === undefined ? 'GA' : stageIn(gate, ownRelease).stage;
    gauge.set({ name, stage: stage === 'GA' ? '' : stage }, isEnabled ? 1 : 0);
  }
}

export function eventLoopMetrics(registry: Registry, turns: TurnMeter): void {
  readMetric('fairlead_event_loop_delay_seconds', registry, () => {
    const { p50, p99, longest } = turns.take();
    const delays = Object.entries({ 50: p50, 99: p99, 100: longest });
    return delays.map(([percentile, ms]) => [{ percentile }, ms / 1000]);
  });
}

/** What is desired, in force and listed. Between two engines, values stay as they were. */
export function stateMetrics(
  registry: Registry,
  agent: Facts<'engine' | 'heapGuard' | 'localhostListeners' | 'source'>,
): void {
  const { heapGuard, source } = agent;
  const ofFamilies = (name: FamilyGauge, read: (one: FamilySync) => number): void => {
    metric(name, registry, (gauge) => {
      for (const one of familiesOf(agent)) gauge.set({ ip_family: one.family }, read(one));
    });
  };
  ofFamilies('fairlead_service_ports', ({ desired }) => desired.size);
  ofFamilies('fairlead_service_ports_set_aside', ({ quarantined }) => quarantined.size);
  ofFamilies('kubeproxy_nftables_localhost_nodeport_listeners', ({ family }) =>
    agent.localhostListeners(family),
  );
  metric('kubeproxy_sync_proxy_rules_no_local_endpoints_total', registry, (gauge) => {
    for (const { family, unreached } of familiesOf(agent)) {
      gauge.set({ traffic_policy: 'internal', ip_family: family }, unreached.internal);
      gauge.set({ traffic_policy: 'external', ip_family: family }, unreached.external);
    }
  });
  readMetric('fairlead_services_over_limit', registry, () => agent.engine?.overLimit ?? 0);
  readMetric('fairlead_objects_left_out', registry, () => heapGuard.leftOut.count);
  readMetric('fairlead_object_bytes', registry, () => heapGuard.bytes.taken);
  readMetric('fairlead_object_bytes_max', registry, () => heapGuard.bytes.max);
  metric('fairlead_watch_silence_seconds', registry, (gauge) => {
    for (const resource of resources) {
      const { silenceMs } = source.condition(resource);
      if (silenceMs !== undefined) gauge.set({ resource }, silenceMs / 1000);
    }
  });
  readMetric('fairlead_first_list_missing_seconds', registry, () => {
    return resources.map((resource) => {
      return [{ resource }, (source.condition(resource).missingMs ?? 0) / 1000];
    });
  });
}

type FamilyGauge =
  | 'fairlead_service_ports'
  | 'fairlead_service_ports_set_aside'
  | 'kubeproxy_nftables_localhost_nodeport_listeners';

function familiesOf({ engine }: Facts<'engine'>): readonly FamilySync[] {
  return engine?.families ?? [];
}

/** The mode and configuration of a node, so that nodes can be compared. */
export function infoMetrics(
  registry: Registry,
  agent: Facts<'config' | 'configRefusal' | 'mode'>,
): void {
  readMetric('fairlead_config_refused', registry, () =>
    agent.configRefusal === undefined ? 0 : 1,
  );
  readMetric('fairlead_mode_info', registry, () => {
    return [[{ mode: agent.mode.name, requested: agent.config.mode || 'auto' }, 1]];
  });
  readMetric('fairlead_config_info', registry, () => [[{ hash: configHash(agent.config) }, 1]]);
}

/** Whether the proxy is healthy, and how many Services have problems. */
function problemMetrics(registry: Registry, agent: AgentState): void {
  const { problemIndex } = agent;
  readMetric('fairlead_healthy', registry, () => (statusNow(agent).healthy ? 1 : 0));
  readMetric('fairlead_services_with_problems', registry, async () => {
    const { byReason } = (await problemIndex.recentCounts()) ?? {};
    return Array.from(byReason ?? [], ([reason, count]) => [{ reason }, count]);
  });
}

export function logMetrics(registry: Registry, lines: Pick<LogDestination, 'leftOut'>): void {
  readMetric('fairlead_log_lines_left_out_total', registry, () => lines.leftOut);
}

/** What sockets of Services use. */
export function socketMetrics(
  registry: Registry,
  descriptors: Pick<Descriptors, 'buffers' | 'datagrams' | 'max' | 'refused' | 'used'>,
): void {
  readMetric('fairlead_socket_descriptors', registry, () => descriptors.used);
  readMetric('fairlead_socket_descriptors_max', registry, () => descriptors.max.all);
  readMetric('fairlead_socket_clients_refused_total', registry, () => {
    return bounds.map((bound) => [{ bound }, descriptors.refused[bound]]);
  });
  const { buffers } = descriptors;
  readMetric('fairlead_socket_buffer_bytes', registry, () => buffers.used);
  readMetric('fairlead_socket_buffer_bytes_max', registry, () => buffers.max.all);
  readMetric('fairlead_socket_connections_ended_total', registry, () => {
    return bounds.map((bound) => [{ bound }, buffers.ended[bound]]);
  });
  readMetric('fairlead_socket_datagrams_dropped_total', registry, () => {
    return bounds.map((bound) => [{ bound }, descriptors.datagrams.dropped[bound]]);
  });
}

/** The size of the conntrack table, and packets dropped because it was full; nothing without `host`. */
export function conntrackTableMetrics(registry: Registry, { host }: Facts<'host'>): void {
  for (const what of ['entries', 'limit'] as const) {
    readMetric(`fairlead_conntrack_${what}`, registry, () => host && conntrackUse(host)?.[what]);
  }
  readMetric('fairlead_conntrack_losses_total', registry, () => {
    const losses = Object.entries((host && conntrackLosses(host)) ?? {});
    return losses.map(([kind, count]) => [{ kind }, count]);
  });
}

/** Existing counters; empty if they can't be read. */
export type ReadCounters = () => Promise<readonly Pick<NamedCounter, 'name' | 'packets'>[]>;

/** Empty if they can't be read, so that other metrics are still served. */
export function countersOf(kernel: KernelReader, log: Logger): ReadCounters {
  return () =>
    readCounters(kernel).catch((error: Error) => {
      log.warn({ err: error.message }, 'Could not read named counters');
      return [];
    });
}

/** A metric of the packets that the kernel's counter `counter` has seen; no series without it. */
export function namedCounterMetric(
  name:
    | 'kubeproxy_iptables_ct_state_invalid_dropped_packets_total'
    | 'kubeproxy_iptables_localhost_nodeports_accepted_packets_total',
  counter: string,
  read: ReadCounters,
): Counter {
  return readMetric(name, undefined, async () => {
    return (await read()).find((one) => one.name === counter)?.packets;
  });
}

/** Maps that are at least this full have their own series: few contain half of 65,535 clients. */
const shareMin = 0.5;

const readAgainMs = 60_000;

type Fills = ReadonlyMap<Family, readonly AffinityFill[]>;

/**
 * How full the maps of session affinity are. They are not read more often than once a minute: to
 * count elements, the kernel must list them.
 */
export function affinityMetrics(
  registry: Registry,
  agent: Facts<'clock' | 'kernel' | 'mode'>,
): void {
  const readings = new RecentResults<Fills>({ clock: agent.clock, keepMs: readAgainMs });
  const fills = (): Promise<Fills> => {
    const { kernel, mode } = agent;
    return readings.of(mode.name, () => readFills(mode, kernel));
  };
  readMetric('fairlead_affinity_fill_ratio', registry, async () => {
    return [...(await fills())].flatMap(([ip_family, maps]) => {
      const full = maps.filter(({ share }) => share >= shareMin);
      const labels = (map: AffinityFill) => ({ service_port: map.servicePort, pool: map.pool });
      return full.map((map) => [{ ip_family, ...labels(map) }, map.share] as const);
    });
  });
}

/** A family that can't be read has no series, so that other metrics are still served. */
async function readFills(mode: ModeFacts, kernel: KernelReader): Promise<Fills> {
  const found = new Map<Family, readonly AffinityFill[]>();
  for (const family of families) {
    const fills = await mode.affinityFill?.(kernel, family).catch(() => undefined);
    if (fills !== undefined) found.set(family, fills);
  }
  return found;
}

type VirtualService = ReplyOf<'virtualService'>;
type Destination = ReplyOf<'destination'>;
type IPVSRecord = VirtualService | Destination;

const ipvsCounters = {
  fairlead_ipvs_connections_total: 'connections',
  fairlead_ipvs_in_packets_total: 'inPackets',
  fairlead_ipvs_out_packets_total: 'outPackets',
  fairlead_ipvs_in_bytes_total: 'inBytes',
  fairlead_ipvs_out_bytes_total: 'outBytes',
} as const;

/**
 * The kernel's counters of each virtual service and each real server. There may be many, so they
 * are off by default (--ipvs-counters), and a tenant may have most of them.
 */
export function ipvsMetrics(
  registry: Registry,
  agent: Facts<'config' | 'engine' | 'kernel' | 'mode'>,
): void {
  const { pause } = new Pacer(systemClock, sharingMs);
  const areCounted = () => agent.config.ipvs.counters && agent.mode.usesIPVS;
  // All metrics of an answer share a reading.
  const readings = new RecentResults<{ shown: readonly IPVSRecord[]; leftOut: number }>({
    clock: systemClock,
  });
  const read = () =>
    readings.of('', async () => {
      const all = areCounted() ? await readIPVS(agent.kernel) : [];
      const shown = await sharedOut(all, agent.engine?.frontends ?? {}, pause);
      return { shown, leftOut: all.length - shown.length };
    });
  for (const name of Object.keys(ipvsCounters) as (keyof typeof ipvsCounters)[]) {
    readMetric(name, registry, async () => {
      const { shown } = await read();
      return shown.map((record) => [ipvsLabels(record), record[ipvsCounters[name]]]);
    });
  }
  readMetric('fairlead_ipvs_real_server_connections', registry, async () => {
    return (await read()).shown.flatMap((record) =>
      record.kind === 'destination'
        ? (['active', 'inactive', 'persistent'] as const).map(
            (state) => [{ ...ipvsLabels(record), state }, record[`${state}Connections`]] as const,
          )
        : [],
    );
  });
  readMetric('fairlead_ipvs_metrics_left_out', registry, async () => {
    const { leftOut } = await read();
    return areCounted() ? leftOut : undefined;
  });
}

/** Those that have series: namespaces with many have the same number. */
async function sharedOut(
  all: readonly IPVSRecord[],
  frontends: FrontendsByFamily,
  pause: Pause,
): Promise<readonly IPVSRecord[]> {
  const namespaceOf = (record: IPVSRecord): string => {
    const address = Address.from(record.address);
    const at = { address, port: record.port, protocol: protocolOf(record.protocol) };
    return frontends[address.family]?.at(at).namespace ?? '';
  };
  return (await fairShares(all, namespaceOf, ipvsServersMax, pause)).within;
}

/** Nothing if the kernel can't be read, so that other metrics are still served. */
async function readIPVS(kernel: KernelReader): Promise<IPVSRecord[]> {
  const any = { family: 0, protocol: 0, address: new Uint8Array(0), port: 0 };
  const dumps = [
    kernel.dump({ kind: 'virtualServicesDump', family: 0 }),
    kernel.dump({ kind: 'destinationsDump', ...any }),
  ];
  const answers = await Promise.allSettled(dumps);
  const records = answers.flatMap((one) => (one.status === 'fulfilled' ? one.value.records : []));
  return records.filter(
    (one): one is IPVSRecord =>
      one.kind === 'destination' || (one.kind === 'virtualService' && one.firewallMark === 0),
  );
}

function ipvsLabels(record: IPVSRecord) {
  return {
    protocol: protocolOf(record.protocol) ?? String(record.protocol),
    virtual_service: formatEndpoint(record.address, record.port),
    real_server:
      record.kind === 'destination'
        ? formatEndpoint(record.destination, record.destinationPort)
        : '',
  };
}

/** How long it is found out in one turn of the event loop which Service ports have series. */
const sharingMs = 2;

const outcomes = ['tried', 'answered', 'reset'] as const;

/** Connections and refusals by Service; only with --service-metrics. */
export function serviceMetrics(
  registry: Registry,
  { counters }: { readonly counters: Pick<ServiceCounters, 'read'> },
): void {
  const all = async (): Promise<readonly ServiceTraffic[]> =>
    (await counters.read())?.services ?? [];
  const { pause } = new Pacer(systemClock, sharingMs);
  const chosen = new WeakMap<readonly ServiceTraffic[], Promise<readonly ServiceTraffic[]>>();
  const shown = async (): Promise<readonly ServiceTraffic[]> => {
    const list = await all();
    const known = chosen.get(list) ?? sharesOf(list, servicePortsMax, pause);
    chosen.set(list, known);
    return known;
  };
  readMetric('fairlead_service_connections_total', registry, async () => {
    const counted = (await shown()).filter(({ connections }) => connections > 0);
    return counted.map((one) => [servicePortLabels(one), one.connections]);
  });
  readMetric('fairlead_service_refusals_total', registry, async () => {
    return (await shown()).flatMap((one) =>
      [...one.refusals].map(
        ([reason, count]) => [{ ...servicePortLabels(one), reason }, count] as const,
      ),
    );
  });
  readMetric('fairlead_service_outcomes_total', registry, async () => {
    const followed = (await shown()).filter((one) => one.outcomes.tried > 0);
    return (await sharesOf(followed, outcomePortsMax, pause)).flatMap((one) =>
      outcomes.map(
        (outcome) => [{ ...servicePortLabels(one), outcome }, one.outcomes[outcome]] as const,
      ),
    );
  });
  readMetric('fairlead_service_metrics_left_out', registry, async () => {
    return (await all()).length - (await shown()).length;
  });
}

/** Bytes and durations of ended connections; only with --service-bytes. */
export function byteMetrics(registry: Registry, agent: Facts<'serviceBytes'>): void {
  const { serviceBytes: counted } = agent;
  const { pause } = new Pacer(systemClock, sharingMs);
  const shown = () => sharesOf([...counted.ports.values()], outcomePortsMax, pause);
  readMetric('fairlead_service_bytes_total', registry, async () => {
    const ports = await shown();
    return (['in', 'out'] as const).flatMap((direction) =>
      ports.map((one) => [{ ...servicePortLabels(one), direction }, one[direction]] as const),
    );
  });
  readHistogram('fairlead_service_connection_duration_seconds', registry, async () => {
    const timed = (await shown()).filter(({ durations }) => durations.some((count) => count > 0));
    return timed.map((one) => [servicePortLabels(one), one.durations, one.ms / 1000]);
  });
  readMetric('fairlead_service_bytes_missed_connections_total', registry, () => counted.missed);
  readMetric('fairlead_zone_bytes_total', registry, () => {
    return Array.from(counted.zones.values(), ({ bytes, from, to }) => [{ from, to }, bytes]);
  });
}

/** Those that have series. */
async function sharesOf<T extends ServedPort>(list: readonly T[], room: number, pause: Pause) {
  return (await fairShares(list, ({ namespace }) => namespace, room, pause)).within;
}

function servicePortLabels({ family, namespace, service, port, protocol }: ServedPort) {
  return { ip_family: family, namespace, service, port, protocol };
}

/** What failure detection has found, of all Services together. */
function detectionMetrics(registry: Registry, agent: Facts<'failureDetection'>): void {
  readMetric('fairlead_followed_endpoints', registry, () => {
    const { state, totals } = agent.failureDetection;
    if (state.kind === 'off') return [];
    const { endpoints, leftOut, out, silent } = totals;
    const states = { answering: endpoints - out - silent, silent, ejected: out, left_out: leftOut };
    return Object.entries(states).map(([name, count]) => [{ state: name }, count]);
  });
  const totals = () => agent.failureDetection.totals;
  readMetric('fairlead_endpoint_ejections_total', registry, () => totals().ejected);
  readMetric('fairlead_endpoint_returns_total', registry, () => totals().returned);
  readMetric('fairlead_endpoint_probes_total', registry, () => {
    const { failed, notTried, succeeded } = totals().probes;
    const results = { succeeded, failed, not_tried: notTried };
    return Object.entries(results).map(([result, count]) => [{ result }, count]);
  });
}
