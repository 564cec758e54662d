/** Answers `/fairlead/v1/service`: the resolved state of a Service on this node. */

import { apiVersion } from '../../ask/paths.ts';
import { reasonSections } from '../../ask/problem-reasons.ts';
import type { ServiceAnswer } from '../../ask/service.ts';
import {
  type Address,
  formatAddress,
  formatCIDR,
  joinHostPort,
  parseAddress,
} from '../../net/address.ts';
import { LookupError } from '../../source/lookup.ts';
import { type FrontendKey, frontendKey } from '../../state/frontend-key.ts';
import type { Path } from '../../state/paths.ts';
import type { Seen } from '../../state/resolve.ts';
import type { ClusterState } from '../../state/store.ts';
import type { Forwarding, Frontend, Service } from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';
import type { ServiceTraffic } from '../service-counters.ts';
import type { AgentState, RunningEngine } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { detectionRemarks, withAnswers } from './endpoint-answers.ts';
import { EndpointsSaid } from './endpoints.ts';
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
  const said = await EndpointsSaid.read(agent.state.slices(service.key), pods, pacer);
  const ports: Port[] = [];
  let left = endpointsMax;
  for (const one of asked.slice(0, portsMax)) {
    const port = await shownPort(agent, service, { said, pacer, traffic }, one, left);
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
  readonly said: EndpointsSaid;
  readonly pacer: Pacer;
  readonly traffic: readonly ServiceTraffic[];
}

async function shownPort(
  agent: AgentState,
  service: Service,
  { said, pacer, traffic }: Sources,
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
  const endpoints = withAnswers(agent, seen, await said.of(seen, endpointsMax, pacer));
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
