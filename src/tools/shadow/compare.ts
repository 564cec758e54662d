/** Differences between what kube-proxy has programmed and what the cluster's objects ask for. */
import type { Family } from '../../net/address.ts';
import { parseEndpoint } from '../../net/host-port.ts';
import { formatServicePort } from '../../net/protocol.ts';
import type { ClusterState } from '../../state/store.ts';
import { Condition, type Forwarding, latin1At, serviceKey } from '../../state/types.ts';
import {
  type DesiredFrontend,
  type HeldFrontend,
  nameOf,
  type Programmed,
  type Reach,
} from './reach.ts';

export interface Difference {
  readonly family: Family;
  /** `ns/name:port`; empty when the rules do not name a Service. */
  readonly service: string;
  /** What is different, and why that is wrong. */
  readonly text: string;
  /** The frontends that have it: `10.96.0.1:80/TCP`, `node port 30080/TCP`. */
  readonly frontends: readonly string[];
}

/** Identifies a difference. Its frontends do not matter. */
export function differenceKey({ family, service, text }: Difference): string {
  return [family, service, text].join('\n');
}

/** Returns one difference for each fault of a port, with all frontends that have it. */
export function compare(
  desired: ReadonlyMap<string, DesiredFrontend>,
  { family, frontends }: Programmed,
  state: ClusterState,
): Difference[] {
  const found = new Map<string, Difference & { readonly frontends: string[] }>();
  const note = (service: string, text: string, frontend: string): void => {
    const difference = { family, service, text, frontends: [frontend] };
    const key = differenceKey(difference);
    const known = found.get(key);
    if (known === undefined) found.set(key, difference);
    else known.frontends.push(frontend);
  };
  for (const [frontend, one] of desired) {
    // A frontend that can't be read is compared in the next pass.
    if (frontends.has(frontend) && frontends.get(frontend) === undefined) continue;
    for (const text of differencesOf(one, frontends.get(frontend), state)) {
      note(nameOf(one.forwarding), text, frontend);
    }
  }
  for (const [frontend, held] of frontends) {
    if (held === undefined || desired.has(frontend)) continue;
    const { service, text } = stale(held, state);
    note(service, text, frontend);
  }
  return [...found.values()];
}

function stale({ owner }: HeldFrontend, state: ClusterState): Pick<Difference, 'service' | 'text'> {
  if (owner === undefined) return { service: '', text: 'stale: no Service has this frontend' };
  const service = formatServicePort(owner.service, owner.port);
  const isThere = state.service(owner.service) !== undefined;
  const why = isThere ? 'the Service does not have it' : 'there is no such Service';
  return { service, text: `stale: ${why}` };
}

function* differencesOf(
  { forwarding, reach }: DesiredFrontend,
  held: HeldFrontend | undefined,
  state: ClusterState,
): Generator<string> {
  if (held === undefined) {
    yield 'frontend missing in the kernel';
    return;
  }
  const because = (endpoint: string): string => whyNot(endpoint, forwarding, state);
  const has = held.reach;
  if (reach.refusal !== has.refusal) yield refusalText(reach.refusal, has.refusal);
  yield* poolDifferences('', reach.endpoints, has.endpoints, because);
  yield* nearbyDifferences(reach, has, because);
  if (!isServed(reach) || !isServed(has)) return;
  if (reach.masquerade !== has.masquerade) {
    const [should, does] = [reach, has].map(({ masquerade }) =>
      masquerade ? 'all clients' : 'not all clients',
    );
    yield `policy differs: kube-proxy masquerades ${does}, expected ${should}`;
  }
  if (reach.affinitySeconds !== has.affinitySeconds) {
    yield `session affinity differs: kube-proxy has ${seconds(has)}, expected ${seconds(reach)}`;
  }
  const [mine, theirs] = [reach.clients, has.clients].map(clientsText);
  if (mine !== theirs) yield `source ranges differ: kube-proxy lets in ${theirs}, expected ${mine}`;
}

function* nearbyDifferences(
  reach: Reach,
  has: Reach,
  because: (endpoint: string) => string,
): Generator<string> {
  if (reach.nearby !== undefined && has.nearby !== undefined) {
    yield* poolDifferences(' from pods and this node', reach.nearby, has.nearby, because);
    return;
  }
  if (!isServed(reach) || !isServed(has) || reach.nearby === has.nearby) return;
  const policy = (nearby: unknown): string => (nearby === undefined ? 'Cluster' : 'Local');
  yield `policy differs: kube-proxy has ${policy(has.nearby)}, expected ${policy(reach.nearby)}`;
}

function* poolDifferences(
  whence: string,
  desired: ReadonlySet<string>,
  has: ReadonlySet<string>,
  because: (endpoint: string) => string,
): Generator<string> {
  for (const endpoint of has) {
    if (desired.has(endpoint)) continue;
    yield `kube-proxy sends${whence} to ${endpoint}, which ${because(endpoint)}`;
  }
  for (const endpoint of desired) {
    if (!has.has(endpoint))
      yield `endpoint missing: kube-proxy does not send${whence} to ${endpoint}`;
  }
}

function isServed({ endpoints, nearby }: Reach): boolean {
  return endpoints.size + (nearby?.size ?? 0) > 0;
}

const refusals = {
  reject: 'rejects',
  drop: 'drops',
} as const satisfies Record<NonNullable<Reach['refusal']>, string>;

function refusalText(expected: Reach['refusal'], has: Reach['refusal']): string {
  const does = has === undefined ? 'has no rule for it' : `${refusals[has]} it`;
  const should = expected === undefined ? 'none is expected' : `expected ${expected}`;
  return `refusal differs: kube-proxy ${does}, ${should}`;
}

function seconds({ affinitySeconds }: Reach): string {
  return affinitySeconds === 0 ? 'none' : `${affinitySeconds} s`;
}

function clientsText(clients: readonly string[] | undefined): string {
  return clients === undefined ? 'all clients' : clients.join(', ');
}

/** Why a Service port should not use an endpoint, in words that follow `which`. */
function whyNot(
  endpoint: string,
  { family, servicePort }: Pick<Forwarding, 'family' | 'servicePort'>,
  state: ClusterState,
): string {
  const key = serviceKey(servicePort);
  const bytes = parseEndpoint(endpoint)?.address.bytes;
  const address = bytes && String.fromCharCode(...bytes);
  for (const slice of state.slices(key)) {
    if (slice.family !== family) continue;
    for (let i = 0; i < slice.length; i += 1) {
      if (latin1At(slice, i) !== address) continue;
      return reasonOf(slice.conditions.charCodeAt(i));
    }
  }
  return `is in no EndpointSlice of ${key}`;
}

function reasonOf(conditions: number): string {
  if ((conditions & Condition.terminating) !== 0) return 'is terminating';
  if ((conditions & Condition.ready) === 0) return 'is not ready';
  if ((conditions & Condition.local) === 0) {
    return 'is on another node, or hints or the port keep it from this one';
  }
  return 'has another port, or is kept from this node by hints';
}
