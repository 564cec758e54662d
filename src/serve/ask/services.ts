/** Answers `/fairlead/v1/services`. */
import { apiVersion } from '../../ask/paths.ts';
import type { ServiceList } from '../../ask/service.ts';
import { byName } from '../../ask/words.ts';
import { type Address, formatAddress } from '../../net/address.ts';
import { forwardingKeys, type Service } from '../../state/types.ts';
import type { Pacer } from '../../time/pacer.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { stateOf } from './port-state.ts';
import { isAsked, numberOf, Refusal } from './refusal.ts';

type ServiceRow = ServiceList['items'][number];

const limits = { standard: 500, most: 1000 };
const portsMax = 100;

const noReasons: ServiceRow['reasons'] = [];

export async function servicesOf(agent: AgentState, query: URLSearchParams): Promise<ServiceList> {
  const limit = numberOf(query, 'limit', limits);
  const namespace = query.get('namespace');
  const name = query.get('name');
  const isOnlyWithProblems = isAsked(query, 'state', 'unhealthy');
  const areProblemsFirst = isAsked(query, 'order', 'problems');
  await agent.problemIndex.catchUp();
  const { withProblems } = agent.problemIndex;
  const pacer = answerPacer(agent);
  const isSelected = (service: Service): boolean =>
    (namespace === null || service.namespace === namespace) &&
    (name === null || matchesGlob(service.name, name)) &&
    (!isOnlyWithProblems || withProblems.has(service.key));
  const items: ServiceRow[] = [];
  const after = query.get('continue') ?? '';
  const places = areProblemsFirst
    ? await placesByName(agent, { after, count: limit + 1, isSelected, pacer })
    : placesAfter(after, agent);
  let last = '';
  for (const place of places) {
    if (pacer.due) await pacer.rest();
    const service = agent.state.service(place.replace(firstMark, ''));
    if (service === undefined || !isSelected(service)) continue;
    if (items.length === limit) return { apiVersion, kind: 'ServiceList', items, continue: last };
    const reasons = withProblems.get(service.key) ?? noReasons;
    items.push(rowOf(agent, service, reasons));
    last = place;
  }
  return { apiVersion, kind: 'ServiceList', items };
}

/** Marks places among the Services that come first. */
const firstMark = '!';

/** The places of all Services after `last`, at which a page ended, in the order of arrival. */
function* placesAfter(last: string, { state }: AgentState): Generator<string> {
  let isBefore = last !== '';
  if (isBefore && state.service(last) === undefined) {
    throw new Refusal(410, `Service ${last} was deleted in the meantime: start again`);
  }
  for (const key of state.serviceKeys()) {
    if (isBefore) isBefore = key !== last;
    else yield key;
  }
}

interface Page {
  /** The place at which the page before ended; empty: the first page. */
  readonly after: string;
  readonly count: number;
  readonly isSelected: (service: Service) => boolean;
  readonly pacer: Pacer;
}

/** The next places: of Services with problems, then of the others, each by name. */
async function placesByName(
  { problemIndex: { withProblems }, state }: AgentState,
  { after, count, isSelected, pacer }: Page,
): Promise<string[]> {
  let places: string[] = [];
  /** None after it is among them. */
  let end: string | undefined;
  for (const key of state.serviceKeys()) {
    if (pacer.due) await pacer.rest();
    const place = withProblems.has(key) ? firstMark + key : key;
    if (after !== '' && byName(place, after) <= 0) continue;
    if (end !== undefined && byName(place, end) > 0) continue;
    const service = state.service(key);
    if (service === undefined || !isSelected(service)) continue;
    places.push(place);
    if (places.length < 2 * count) continue;
    places = places.sort(byName).slice(0, count);
    end = places.at(-1);
  }
  return places.sort(byName).slice(0, count);
}

function rowOf(agent: AgentState, service: Service, reasons: ServiceRow['reasons']): ServiceRow {
  const { externalIPs, key, loadBalancerIPs, ports } = service;
  const keys = forwardingKeys(service);
  let endpoints = 0;
  for (const { length } of agent.state.slices(key)) endpoints += length;
  const others = [...loadBalancerIPs.slice(0, portsMax), ...externalIPs.slice(0, portsMax)];
  return {
    ...headOf(service),
    externalIPs: texts(others.slice(0, portsMax)),
    ports: ports.slice(0, portsMax).map(({ name, nodePort, port, protocol }) => {
      return { name, protocol, port, ...(nodePort === 0 ? {} : { nodePort }) };
    }),
    endpoints,
    used: leastUsed(agent, keys),
    state: stateOf(agent, service, keys),
    reasons,
  };
}

/** What all answers have of a Service. */
export function headOf(service: Service) {
  return {
    namespace: service.namespace,
    name: service.name,
    type: service.type,
    clusterIPs: texts(service.clusterIPs),
    ...(service.createdMs > 0 && { created: new Date(service.createdMs).toISOString() }),
    internalTrafficPolicy: service.internalTrafficPolicy,
    externalTrafficPolicy: service.externalTrafficPolicy,
    ...(service.affinityTimeoutSeconds > 0 && { affinitySeconds: service.affinityTimeoutSeconds }),
  };
}

function texts(addresses: readonly Address[]): string[] {
  return addresses.map(({ bytes }) => formatAddress(bytes));
}

/** The smallest number over all ports. */
function leastUsed(agent: AgentState, keys: readonly string[]): number {
  const families = agent.engine?.families ?? [];
  let least: number | undefined;
  for (const key of keys) {
    let used = 0;
    for (const { desired } of families) {
      const forwarding = desired.get(key);
      used += Math.max(forwarding?.cluster.length ?? 0, forwarding?.local.length ?? 0);
    }
    least = Math.min(least ?? used, used);
  }
  return least ?? 0;
}

/**
 * Whether a name matches a pattern, in which `*` matches any characters and `?` one. The time is at
 * most proportional to the product of both lengths.
 */
export function matchesGlob(name: string, pattern: string): boolean {
  let [at, mark] = [0, 0];
  let star = -1;
  for (let i = 0; i < name.length; ) {
    const want = pattern[at];
    if (want === '*') {
      star = at;
      mark = i;
      at += 1;
    } else if (want === '?' || want === name[i]) {
      i += 1;
      at += 1;
    } else if (star >= 0) {
      // Try again with the last star matching one more character.
      mark += 1;
      i = mark;
      at = star + 1;
    } else return false;
  }
  return [...pattern.slice(at)].every((rest) => rest === '*');
}
