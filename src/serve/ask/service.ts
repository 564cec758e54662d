/** Answers `/fairlead/v1/service`: the resolved state of a Service on this node. */

import { apiVersion } from '../../ask/paths.ts';
import { reasonSections } from '../../ask/problem-reasons.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import {
  type Address,
  addressBytes,
  formatAddress,
  formatCIDR,
  joinHostPort,
  parseAddress,
} from '../../net/address.ts';
import { type EndpointKey, type EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import { LookupError } from '../../source/lookup.ts';
import { EndpointFlag } from '../../state/candidates.ts';
import { type Choices, choose, whyNot } from '../../state/categorise.ts';
import { slotCounts } from '../../state/deal.ts';
import { type FrontendKey, frontendKey } from '../../state/frontend-key.ts';
import type { Path } from '../../state/paths.ts';
import type { Seen } from '../../state/resolve.ts';
import type { ClusterState } from '../../state/store.ts';
import {
  type EndpointSlice,
  type Forwarding,
  type Frontend,
  latin1At,
  type Service,
} from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';
import type { ServiceTraffic } from '../service-counters.ts';
import type { AgentState, RunningEngine } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { detectionRemarks, withAnswers } from './endpoint-answers.ts';
import { limitRemarks } from './limit-problems.ts';
import { look } from './look.ts';
import { lookedUpWithin } from './lookups.ts';
import { portRangeRemarks, portRemarks, rangeRemarks } from './port-remarks.ts';
import { portState, stateOf, timeOf } from './port-state.ts';
import { isAsked, numberOf, Refusal } from './refusal.ts';
import { noSuchPort, serviceNamed } from './service-names.ts';
import { problemsOf, reasonsIn } from './service-problems.ts';
import { headOf } from './services.ts';
import { shownOutcomes } from './traffic.ts';

const endpointLimits = { standard: 500, most: 10_000 };
const portLimits = { standard: 50, most: 500 };
/** The most frontends of a port that are shown. */
const frontendsMax = 50;

/** How long to wait for names of pods. */
const podsPatienceMs = 2000;

type Port = ServiceAnswer['ports'][number];

export async function serviceOf(agent: AgentState, query: URLSearchParams): Promise<ServiceAnswer> {
  const endpointsMax = numberOf(query, 'endpoints', endpointLimits);
  const portsMax = numberOf(query, 'ports', portLimits);
  const pacer = answerPacer(agent);
  await Promise.all([agent.foreignRules.refresh(), agent.unrouted.refresh()]);
  const service = await find(agent, query, pacer);
  const { resolved, seen } = await look(agent, service, pacer);
  const asked = withPort(seen, query.get('port'), service);
  const { pods, unknown } = await podsOf(agent, service, query);
  const traffic = await trafficOf(agent, service, isAsked(query, 'traffic'));
  const rows = await EndpointRows.read(agent.state.slices(service.key), pods, pacer);
  const ports: Port[] = [];
  let left = endpointsMax;
  for (const one of asked.slice(0, portsMax)) {
    const port = await shownPort(agent, service, { rows, pacer, traffic }, one, left);
    left -= port.endpoints.length;
    ports.push(port);
  }
  const { excess } = resolved;
  agent.problemIndex.check({ service, seen, excess });
  const problems = problemsOf(agent, { service, seen: asked, excess });
  return {
    apiVersion,
    kind: 'Service',
    ...headOf(service),
    sourceRanges: service.loadBalancerSourceRanges.map(formatCIDR),
    ...(service.healthCheckNodePort > 0 && { healthCheckNodePort: service.healthCheckNodePort }),
    state: stateOf(agent, service),
    observed: observedOf(agent, service),
    problems: problems.map(({ text }) => text()),
    reasons: reasonsIn(problems),
    runbook: problems.map(({ reason }) => reasonSections[reason]),
    ...(unknown === undefined ? {} : { podsUnknown: unknown }),
    portCount: asked.length,
    ports,
    changes: agent.eventHistory.recent.of(service.key),
  };
}

/** What the kernel has counted of its ports; none: it was not asked for, or is not counted. */
async function trafficOf(
  { counters }: AgentState,
  { name, namespace }: Service,
  isWanted: boolean,
): Promise<readonly ServiceTraffic[]> {
  if (!isWanted) return [];
  const { services = [] } = (await counters.read()) ?? {};
  return services.filter((one) => one.service === name && one.namespace === namespace);
}

interface Pods {
  /** Names by address in text. */
  readonly pods: ReadonlyMap<string, string>;
  /** Why there are no names. */
  readonly unknown: string | undefined;
}

/** The rest of the answer does not depend on the API server. */
async function podsOf(
  { askers, source }: AgentState,
  { name, namespace }: Service,
  query: URLSearchParams,
): Promise<Pods> {
  if (!isAsked(query, 'pods')) return { pods: new Map(), unknown: undefined };
  try {
    const pods = await lookedUpWithin(podsPatienceMs, { askers, query }, (signal) =>
      source.lookup.podsOf(namespace, name, signal),
    );
    return { pods, unknown: undefined };
  } catch (error) {
    if (!(error instanceof LookupError)) throw error;
    return { pods: new Map(), unknown: error.message };
  }
}

/** The revisions of the objects from which the Service is resolved. */
function observedOf({ source, state }: AgentState, { key }: Service): ServiceAnswer['observed'] {
  const service = source.revision('services', key);
  const slices = state.slices(key).map((slice) => {
    const revision = source.revision('endpointslices', slice.key);
    const name = slice.key.slice(slice.key.indexOf('/') + 1);
    return revision === undefined ? { name } : { name, revision };
  });
  return service === undefined ? { slices } : { service, slices };
}

/** Finds the Service. Throws a Refusal if no Service or several have the name. */
async function find({ state }: AgentState, query: URLSearchParams, pacer: Pacer): Promise<Service> {
  const address = query.get('address');
  if (address !== null) return serviceAt(state, address, pacer);
  const name = query.get('name');
  if (name === null) throw new Refusal(400, 'name is missing: which Service?');
  return serviceNamed(state, { name, namespace: query.get('namespace') ?? undefined }, pacer);
}

async function serviceAt(state: ClusterState, text: string, pacer: Pacer): Promise<Service> {
  const wanted = parseAddress(text);
  if (wanted === undefined) throw new Refusal(400, `address "${text}" is not an address`);
  const isIt = ({ key }: Address): boolean => key === wanted.key;
  for (const key of state.serviceKeys()) {
    const service = state.service(key);
    if (service === undefined) continue;
    const { clusterIPs, externalIPs, loadBalancerIPs } = service;
    if ([clusterIPs, externalIPs, loadBalancerIPs].some((all) => all.some(isIt))) return service;
    if (pacer.due) await pacer.rest();
  }
  throw new Refusal(404, `no Service of this proxy has the address ${text}`);
}

/** `port`: a name or a number; null = all. */
function withPort(
  seen: readonly Seen[],
  port: string | null,
  { key, ports }: Service,
): readonly Seen[] {
  if (port === null) return seen;
  const found = seen.filter((one) => one.port.name === port || String(one.port.port) === port);
  if (found.length === 0) throw noSuchPort(key, port, ports);
  return found;
}

interface Sources {
  readonly rows: EndpointRows;
  readonly pacer: Pacer;
  readonly traffic: readonly ServiceTraffic[];
}

async function shownPort(
  agent: AgentState,
  service: Service,
  { rows, pacer, traffic }: Sources,
  seen: Seen,
  endpointsMax: number,
): Promise<Port> {
  const { candidates, forwarding, port } = seen;
  const { family, key } = forwarding;
  const engine = agent.engine!;
  const sync = engine.families.find((one) => one.family === family)!;
  const inForce = sync.inForce.get(key);
  const { status, sinceMs } = portState(agent, service.key, key, sync);
  const frontends = forwarding.frontends.slice(0, frontendsMax);
  const counted = traffic.find(
    (one) => one.family === family && one.port === port.name && one.protocol === port.protocol,
  );
  const endpoints = withAnswers(agent, seen, await rows.of(seen, endpointsMax, pacer));
  const held = new Set((sync.desired.get(key) ?? forwarding).frontends.map(frontendKey));
  return {
    name: port.name,
    protocol: port.protocol,
    port: port.port,
    family,
    state: status,
    since: timeOf(agent.clock, sinceMs),
    frontendCount: forwarding.frontends.length,
    frontends: frontends.map((one) => shownFrontend(engine, seen, one, held)),
    endpointCount: candidates.endpoints.length,
    cluster: forwarding.cluster.length,
    local: forwarding.local.length,
    ...(forwarding.deal === undefined ? {} : { balance: forwarding.deal.balance }),
    remarks: [
      ...portRemarks(seen, engine.context.zone, agent.mode),
      ...rangeRemarks(service, seen),
      ...portRangeRemarks(service, seen),
      ...limitRemarks(service),
      ...detectionRemarks(agent, service, seen),
    ],
    endpoints: withOutcomes(endpoints, counted),
    kernel: inForce === undefined ? [] : engine.describe(withFirst(inForce)),
  };
}

function withOutcomes(
  endpoints: Port['endpoints'],
  counted: ServiceTraffic | undefined,
): Port['endpoints'] {
  if (counted === undefined) return endpoints;
  return endpoints.map((one) => {
    const outcomes = counted.endpoints.get(joinHostPort(one.address, one.port))?.outcomes;
    return outcomes === undefined ? one : { ...one, outcomes: shownOutcomes(outcomes) };
  });
}

/** The Forwarding with only the listed frontends. */
function withFirst(forwarding: Forwarding): Forwarding {
  const { frontends } = forwarding;
  if (frontends.length <= frontendsMax) return forwarding;
  return { ...forwarding, frontends: frontends.slice(0, frontendsMax) };
}

type Shown = ServiceAnswer['ports'][number]['frontends'][number];

/** `held`: keys of the Service's frontends that are in force. */
function shownFrontend(
  engine: Pick<RunningEngine, 'owners'>,
  { forwarding }: Seen,
  frontend: Frontend,
  held: ReadonlySet<FrontendKey>,
): Shown {
  const { address, kind, lastPort, paths, port } = frontend;
  const { pod, node, outside } = paths;
  const shown = ({ to, isMasqueraded }: Path) => ({ to, masqueraded: isMasqueraded });
  const isHeld = held.has(frontendKey(frontend));
  return {
    kind,
    ...(address === undefined ? {} : { address: formatAddress(address.bytes) }),
    port,
    ...(lastPort === undefined ? {} : { lastPort }),
    paths: { pod: shown(pod), node: shown(node), outside: shown(outside) },
    ...(isHeld ? {} : { heldBy: engine.owners.ownerInsteadOf(forwarding, frontend) }),
  };
}

type ShownEndpoint = ServiceAnswer['ports'][number]['endpoints'][number];

interface Row {
  readonly slice: EndpointSlice;
  readonly index: number;
}

const pools = ['cluster', 'local'] as const;

/**
 * The endpoints of a Service port, with their conditions in EndpointSlices and the pools that use
 * them.
 */
class EndpointRows {
  /** Rows by address: a string with one character for each byte. */
  readonly #rows = new Map<string, Row>();
  /** Names of pods by address in text. */
  readonly #pods: ReadonlyMap<string, string>;

  private constructor(pods: ReadonlyMap<string, string>) {
    this.#pods = pods;
  }

  static async read(
    slices: readonly EndpointSlice[],
    pods: ReadonlyMap<string, string>,
    pacer: Pacer,
  ): Promise<EndpointRows> {
    const rows = new EndpointRows(pods);
    for (const slice of slices) {
      for (let index = 0; index < slice.length; index += 1) {
        rows.#rows.set(latin1At(slice, index), { slice, index });
        if (pacer.due) await pacer.rest();
      }
    }
    return rows;
  }

  /** The first `most` endpoints of a port. */
  async of(seen: Seen, most: number, pacer: Pacer): Promise<ShownEndpoint[]> {
    const shown: ShownEndpoint[] = [];
    const { endpoints, flags } = seen.candidates;
    const choices = choose(flags, seen.policy);
    const shares = sharesOf(seen.forwarding);
    const inUse = pools.filter((pool) => choices[pool] !== undefined).length;
    for (let i = 0; i < flags.length && shown.length < most; i += 1) {
      if (pacer.due) await pacer.rest();
      const flag = flags[i]!;
      const place = this.#slicePosition(endpoints, i, flag);
      const usedBy = pools.filter((pool) => choices[pool]?.takes(flag));
      const address = formatAddress(endpoints.address(i));
      const pod = this.#pods.get(address);
      shown.push({
        address,
        port: endpoints.port(i),
        ...(pod === undefined ? {} : { pod }),
        ...conditions(flag),
        ...place,
        usedBy,
        ...(shares && { shares: usedBy.map((pool) => shares[pool](endpoints.key(i))) }),
        ...(usedBy.length === inUse
          ? {}
          : { because: because(flag, choices, place.node === undefined) }),
      });
    }
    return shown;
  }

  #slicePosition(endpoints: EndpointList, index: number, flag: number): Partial<ShownEndpoint> {
    const at = index * endpointBytes[endpoints.family];
    const place = this.#rows.get(endpoints.latin1.slice(at, at + addressBytes[endpoints.family]));
    const where = place?.slice.places?.[place.index];
    const zones = place?.slice.zoneHints?.at(place.index) ?? [];
    const isHere = (flag & EndpointFlag.nodeHintedHere) !== 0;
    return {
      ...(where?.node ? { node: where.node } : {}),
      ...(where?.zone ? { zone: where.zone } : {}),
      ...(zones.length > 0 ? { zoneHints: zones } : {}),
      ...((flag & EndpointFlag.nodeHinted) !== 0
        ? { nodeHints: isHere ? ('this node' as const) : ('other nodes' as const) }
        : {}),
    };
  }
}

/** The part of new connections that an endpoint gets, by pool; undefined: all get the same. */
function sharesOf({ deal }: Seen['forwarding']) {
  if (deal === undefined) return undefined;
  const [cluster, local] = pools.map((pool) => {
    const slots = deal[pool];
    const counts = slotCounts(slots);
    return (key: EndpointKey): number => {
      return Math.round((1e4 * (counts.get(key) ?? 0)) / Math.max(1, slots.length)) / 1e4;
    };
  });
  return { cluster: cluster!, local: local! };
}

function conditions(flag: number) {
  return {
    ready: (flag & EndpointFlag.ready) !== 0,
    serving: (flag & EndpointFlag.serving) !== 0,
    terminating: (flag & EndpointFlag.terminating) !== 0,
    local: (flag & EndpointFlag.local) !== 0,
  };
}

/** Why it is missing in pools: by pool, or a single reason if all pools in use have the same. */
function because(flag: number, choices: Choices, isNodeless: boolean): string {
  const inUse = pools.flatMap((pool) => {
    const choice = choices[pool];
    return choice === undefined ? [] : [{ pool, reason: whyNot(flag, choice, pool, isNodeless) }];
  });
  const why = inUse.filter(({ reason }) => reason !== undefined);
  const reasons = new Set(why.map(({ reason }) => reason));
  const [only] = reasons;
  if (only !== undefined && reasons.size === 1 && why.length === inUse.length) return only;
  return why.map(({ pool, reason }) => `${pool}: ${reason}`).join('; ');
}
