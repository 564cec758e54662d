/** The problems of a Service on this node. This is the only definition of a Service's problems. */
import { type ProblemReason, reasonNames } from '../../ask/problem-reasons.ts';
import { portTitle } from '../../ask/service-words.ts';
import { counted } from '../../ask/words.ts';
import { disabledText } from '../../host/checks.ts';
import { type Family, formatAddress, joinHostPort } from '../../net/address.ts';
import { formatPorts } from '../../net/host-port.ts';
import { formatExcess } from '../../state/budget.ts';
import { frontendKey } from '../../state/frontend-key.ts';
import { type ClientKind, isElsewhere, type Refusal } from '../../state/paths.ts';
import type { Seen } from '../../state/resolve.ts';
import {
  byKey,
  type EndpointSlice,
  type Forwarding,
  type Frontend,
  formatServicePortName,
  forwardingKeys,
  type Service,
} from '../../state/types.ts';
import { failureText } from '../refusal-text.ts';
import type { ServiceHealthFailure } from '../service-health.ts';
import type { AgentState, RunningEngine } from './agent-state.ts';
import { silentProblems } from './endpoint-answers.ts';
import {
  emptyProblem,
  flappingProblems,
  keptProblem,
  otherFamilyProblem,
  serviceAddressProblems,
  unknownNodeProblems,
} from './endpoint-problems.ts';
import { limitProblems } from './limit-problems.ts';
import type { Problem, Subject } from './problem.ts';

/** The parts of `AgentState` that problems depend on. */
export type ProblemFacts = Pick<
  AgentState,
  | 'clock'
  | 'connectionLimits'
  | 'engine'
  | 'eventHistory'
  | 'failureDetection'
  | 'foreignRules'
  | 'serviceHealth'
  | 'sliceSurvey'
  | 'state'
  | 'takenNodePorts'
  | 'unanswered'
  | 'unrouted'
>;

/**
 * Reasons why connections to it may fail, or a part of it is not served. Lists, metrics, the page,
 * commands and their exit codes all use this function.
 */
export function problemsOf(known: ProblemFacts, subject: Subject): Problem[] {
  return [...ownProblems(known, subject), ...refusals(known, subject.service)];
}

/**
 * Problems that change only when the Service is resolved, its endpoints fall silent, a program has
 * a port of it or no longer, or `foreignRules.found` or `unrouted.found` is replaced: all but
 * rejections by the kernel. That endpoints flap ends with the time.
 */
export function ownProblems(known: ProblemFacts, subject: Subject): Problem[] {
  const { engine: running, foreignRules, state, unrouted } = known;
  const { excess, seen, service } = subject;
  const slices = state.slices(service.key);
  const filled = slices.filter(({ length }) => length > 0);
  const empty = keptProblem(state, service) ?? emptyProblem(state, service);
  return [
    ...(empty === undefined ? [] : [empty]),
    ...familyProblems(seen, slices),
    ...(running === undefined
      ? []
      : [
          ...unservedFamilies(running, service),
          ...ofPorts(seen, (one) => lostProblems(running, state.isDirty(service.key), one)),
          ...serviceAddressProblems(running, state, service.key, seen),
          ...foreignRules
            .obstacles(seen, running.interfaces)
            .map(({ text }): Problem => ({ reason: 'rule_in_the_way', text })),
          ...unrouted.problems(seen),
        ]),
    ...ofPorts(seen, (one) => portProblems(one, filled)),
    ...ofPorts(seen, (one) => silentProblems(known, one)),
    ...ofPorts(seen, rangeProblems),
    ...badRangeProblems(service),
    ...flappingProblems(known, service.key),
    ...unknownNodeProblems(service, slices),
    ...known.sliceSurvey.problems(service.key),
    ...loadBalancerProblems(service),
    ...known.takenNodePorts.problems(service.key),
    ...limitProblems(known, service),
    ...healthPortProblems(known.serviceHealth.failureOf(service.key)),
    ...excess.map((one): Problem => {
      const text = () => `It asks for too much and gets a part: ${formatExcess(one)}.`;
      return { reason: 'over_limit', text };
    }),
  ];
}

/**
 * The most ports that are looked at, and the most problems of them: a Service may have 20,000
 * ports, and is checked in one turn.
 */
const portsMax = 4096;
const ofPortsMax = 500;

function ofPorts(seen: readonly Seen[], find: (one: Seen) => readonly Problem[]): Problem[] {
  const found: Problem[] = [];
  for (const one of seen.slice(0, portsMax)) {
    found.push(...find(one));
    if (found.length >= ofPortsMax) break;
  }
  return found;
}

/** The distinct reasons of the problems. */
export function reasonsIn(problems: readonly Problem[]): readonly ProblemReason[] {
  return reasonNames.filter((name) => problems.some(({ reason }) => reason === name));
}

function familyProblems(seen: readonly Seen[], slices: readonly EndpointSlice[]): Problem[] {
  const families = new Set<Family>(seen.map(({ forwarding }) => forwarding.family));
  return [...families].flatMap((family) => otherFamilyProblem(family, slices) ?? []);
}

function unservedFamilies({ families }: RunningEngine, { clusterIPs }: Service): Problem[] {
  return clusterIPs
    .filter((address) => !families.some(({ family }) => family === address.family))
    .map(({ bytes, family }): Problem => {
      const text = () =>
        `It has ClusterIP ${formatAddress(bytes)}, and this node does not serve ${family}: ${disabledText}.`;
      return { reason: 'family_not_served', text };
    });
}

function loadBalancerProblems({ awaitedLoadBalancer: name }: Service): Problem[] {
  if (name === undefined) return [];
  const whose = name === '' ? 'no load balancer' : `no load balancer of class "${name}"`;
  const which =
    name === ''
      ? 'the cluster has none, or it has not come to it yet'
      : 'no controller of that class runs, or it has not come to it yet';
  const text = () =>
    `It is of type LoadBalancer and has no address for clients outside: ${whose} has given it one (${which}).`;
  return [{ reason: 'no_load_balancer', text }];
}

function healthPortProblems(failure: ServiceHealthFailure | undefined): Problem[] {
  if (failure?.error.code !== 'EADDRINUSE') return [];
  const { error, port } = failure;
  const text = () => `Load balancers cannot ask health-check node port ${port}: ${error.message}.`;
  return [{ reason: 'address_taken', text }];
}

/** The most frontends of a port that a message names. */
const lostMax = 10;

function rangeProblems({ forwarding, port, rangeRefusal }: Seen): Problem[] {
  if (rangeRefusal === undefined) return [];
  const of = `Port ${portTitle(port)} in ${forwarding.family}`;
  const text = () => `${of} does not get the range of ports that begins there: ${rangeRefusal}.`;
  return [{ reason: 'port_range', text }];
}

function badRangeProblems({ portRange, ports }: Service): Problem[] {
  if (portRange === undefined || ports.some(({ port }) => port === portRange.first)) return [];
  const text = () =>
    'It has no range of ports: its annotation fairlead.io/port-range must be two ports like 10000-19999, the first a port of the Service and less than the second.';
  return [{ reason: 'port_range', text }];
}

/** While the Service waits to be resolved, it is not known which frontends it gets. */
function lostProblems(engine: RunningEngine, isDirty: boolean, { forwarding, port }: Seen) {
  const { family, frontends } = forwarding;
  const desired = desiredOf(engine, forwarding);
  if (isDirty || desired === undefined || desired.frontends.length === frontends.length) return [];
  const held = new Set(desired.frontends.map(frontendKey));
  const lost: Problem[] = [];
  for (const frontend of frontends) {
    if (lost.length === lostMax) break;
    if (held.has(frontendKey(frontend))) continue;
    const holder = engine.owners.ownerInsteadOf(forwarding, frontend);
    if (holder === undefined) continue;
    const at = addressOf(frontend);
    const text = () =>
      `Port ${portTitle(port)} in ${family} does not get ${frontend.kind} ${at}, which ${holder} holds.`;
    lost.push({ reason: 'address_taken', text });
  }
  return lost;
}

function desiredOf({ families }: RunningEngine, { family, key }: Forwarding) {
  return families.find((one) => one.family === family)?.desired.get(key);
}

function addressOf(frontend: Frontend): string {
  const { address } = frontend;
  const host = address === undefined ? '*' : formatAddress(address.bytes);
  return joinHostPort(host, formatPorts(frontend));
}

/**
 * Why a port has no usable endpoint; only the first reason. `filled`: slices that have endpoints.
 */
function portProblems(seen: Seen, filled: readonly EndpointSlice[]): Problem[] {
  const missing = missingPort(seen, filled);
  if (missing !== undefined) return [missing];
  const { candidates, forwarding, port } = seen;
  const endpointCount = candidates.endpoints.length;
  if (endpointCount === 0) return [];
  const { family, frontends, healthCheckNodePort } = forwarding;
  const of = `Port ${portTitle(port)} in ${family}`;
  const none =
    endpointCount === 1
      ? 'its only endpoint is not'
      : `none of its ${counted(endpointCount, 'endpoint')} is`;
  const refuses = (client: ClientKind, how: Refusal): boolean =>
    frontends.some(({ paths }) => paths[client].to === how);
  if (refuses('pod', 'reject')) {
    return [{ reason: 'not_ready', text: () => `${of} refuses connections: ${none} ready.` }];
  }
  const problems: Problem[] = [];
  if (refuses('pod', 'drop')) {
    const text = () =>
      `${of} drops connections: internalTrafficPolicy is Local, and ${none} on this node and ready.`;
    problems.push({ reason: 'no_local_endpoints', text });
  }
  // Load balancers ask the health check node port, and skip a node without endpoints.
  if (frontends.some(({ paths }) => isElsewhere(paths)) && healthCheckNodePort === 0) {
    const text = () =>
      `${of} drops connections from outside: externalTrafficPolicy is Local, and ${none} on this node and ready.`;
    problems.push({ reason: 'no_local_endpoints', text });
  }
  return problems;
}

function refusals({ engine }: ProblemFacts, service: Service): Problem[] {
  return (engine?.families ?? []).flatMap(({ family, quarantined }) => {
    if (quarantined.size === 0) return [];
    return forwardingKeys(service).flatMap((key): Problem[] => {
      const refusal = quarantined.get(key);
      if (refusal === undefined) return [];
      const { failure, forwarding, inForce } = refusal;
      const before = inForce === undefined ? 'nothing of it is in force' : 'it is as it was before';
      const text = () =>
        `The kernel refuses ${formatServicePortName(forwarding.servicePort)} in ${family}: ${failureText(failure)}; ${before}.`;
      return [{ reason: 'refused_by_kernel', text }];
    });
  });
}

/** Finds the most frequent mistake: the names of ports differ. */
export function missingPort(
  { candidates, forwarding: { family }, port: { name, protocol } }: Seen,
  filled: readonly EndpointSlice[],
): Problem | undefined {
  const isOfFamily = (slice: EndpointSlice): boolean => slice.family === family;
  if (candidates.endpoints.length > 0 || !filled.some(isOfFamily)) return undefined;
  const text = () => {
    const ofFamily = filled.filter(isOfFamily);
    const known = firstPorts(ofFamily);
    const offered = known.length === 0 ? 'no port' : known.join(', ');
    const isNamed = ofFamily.some(({ ports }) => ports.some((one) => one.name === name));
    const why = isNamed
      ? 'the protocols differ'
      : 'targetPort may name a port that no container has';
    return `No EndpointSlice of ${family} has a port named "${name}" for ${protocol}, they have ${offered}: ${why}.`;
  };
  return { reason: 'port_name', text };
}

/** The first few distinct values, whatever the order in which slices came. */
function firstPorts(slices: readonly EndpointSlice[]): string[] {
  const known = new Set<string>();
  for (const { ports } of slices.toSorted(byKey)) {
    for (const { name, port, protocol } of ports) {
      known.add(`"${name}" (${port}/${protocol})`);
      if (known.size === 5) return [...known];
    }
  }
  return [...known];
}
