/** Mistakes in EndpointSlices that do not depend on ports. */
import { counted, firstNames } from '../../ask/words.ts';
import {
  Address,
  type CIDR,
  cidrContains,
  type Family,
  formatAddress,
  formatCIDR,
} from '../../net/address.ts';
import { isNear } from '../../net/near.ts';
import { formatPortName } from '../../net/protocol.ts';
import type { Seen } from '../../state/resolve.ts';
import type { ClusterState } from '../../state/store.ts';
import { addressAt, type EndpointSlice, latin1At, type Service } from '../../state/types.ts';
import type { AgentState, RunningEngine } from './agent-state.ts';
import type { Problem } from './problem.ts';

/** The most endpoints or slices that a message names. */
const namedMax = 3;

/** The Service is served from endpoints that it has no longer. */
export function keptProblem(state: ClusterState, { key }: Service): Problem | undefined {
  if (!state.isKept(key)) return undefined;
  const text = () =>
    'No endpoint of it serves: the last ones are kept, through which this node may reach the API server.';
  return { reason: 'no_endpoints', text };
}

/** The Service has no slice, or no slice has an endpoint. */
export function emptyProblem(
  state: ClusterState,
  { key, name, namespace }: Pick<Service, 'key' | 'name' | 'namespace'>,
): Problem | undefined {
  const slices = state.slices(key);
  const hasSelector = state.service(key)?.hasSelector;
  if (slices.some(({ length }) => length > 0)) return undefined;
  if (slices.length > 0) {
    const selected = 'Its EndpointSlices name no endpoint: its selector matches no pod.';
    const made =
      'Its EndpointSlices name no endpoint: it has no selector, and another program makes them.';
    return { reason: 'no_endpoints', text: () => (hasSelector ? selected : made) };
  }
  const unused = state.unusedSlices(key);
  if (unused.length > 0) {
    const text = () => {
      const named = unused.slice(0, namedMax).map((one) => `${one.key} (${one.because})`);
      return `None of its EndpointSlices can be used: ${firstNames(named, unused.length)}.`;
    };
    return { reason: 'unused_slices', text };
  }
  const text = () => {
    const near = slicesOfNearName(state, namespace, name);
    const meant =
      near === undefined
        ? ''
        : ` EndpointSlice ${near.slice} is of ${near.service}, which is no Service here: its ` +
          'label kubernetes.io/service-name may be mistyped.';
    const why = hasSelector
      ? 'although it has a selector: kube-controller-manager has made'
      : 'and it has no selector: another program has made';
    return `No EndpointSlice belongs to it, ${why} none with the label kubernetes.io/service-name: ${name}.${meant}`;
  };
  return { reason: 'no_slices', text };
}

/** A slice of a Service that does not exist and whose name is similar to this one's. */
function slicesOfNearName(state: ClusterState, namespace: string, name: string) {
  const prefix = `${namespace}/`;
  for (const key of state.keysWithSlicesAlone()) {
    if (!key.startsWith(prefix)) continue;
    const at = (index: number) => key.charCodeAt(prefix.length + index);
    if (!isNear(key.length - prefix.length, at, name, 2)) continue;
    return { service: key, slice: state.slices(key)[0]!.key };
  }
  return undefined;
}

/** An endpoint whose address is an address of a Service. */
interface ServiceAddress {
  readonly endpoint: string;
  readonly text: () => string;
}

export function serviceAddressProblems(...of: Parameters<typeof serviceAddresses>): Problem[] {
  return serviceAddresses(...of).map(({ text }) => ({ reason: 'service_address', text }));
}

/**
 * The first few endpoints that are addresses of Services. A packet is translated once, so its new
 * destination must be a pod: a packet to the address of another Service is rejected or lost.
 */
export function serviceAddresses(
  { owners }: Pick<RunningEngine, 'owners'>,
  state: ClusterState,
  service: string,
  seen: readonly Seen[],
): ServiceAddress[] {
  const found: Found = new Map();
  for (const slice of state.slices(service)) addInBlocks(state, slice, found);
  for (const one of seen) {
    const { family } = one.forwarding;
    if (state.serviceCIDRs(family).length > 0) continue;
    const most = Math.min(claimedMax, Math.ceil(claimedOfAllMax / seen.length));
    addClaimed(owners, service, one, most, found);
  }
  return Array.from(found, ([endpoint, text]) => ({ endpoint, text }));
}

type Found = Map<string, () => string>;

function addInBlocks(state: ClusterState, slice: EndpointSlice, found: Found): void {
  const { family, length } = slice;
  const blocks = state.serviceCIDRs(family);
  if (blocks.length === 0) return;
  for (let i = 0; i < length && found.size < namedMax; i += 1) {
    const address = addressAt(slice, i);
    for (const block of blocks) {
      if (!cidrContains(block, address)) continue;
      found.set(formatAddress(address.bytes), () => inBlockText(state, address, block));
    }
  }
}

function inBlockText(state: ClusterState, address: Address, block: CIDR): string {
  const owner = clusterIPOwner(state, address);
  const whose = owner === undefined ? 'in' : `the ClusterIP of ${owner}, in`;
  const what = `${whose} ServiceCIDR ${formatCIDR(block)}`;
  return notAPod(formatAddress(address.bytes), what);
}

function notAPod(endpoint: string, what: string): string {
  return (
    `Endpoint ${endpoint} is not a pod: it is ${what}. ` +
    'Connections to it fail, because a packet is translated only once.'
  );
}

/** How many endpoints of a port, and about how many of all, are looked up without ServiceCIDRs. */
const claimedMax = 100;
const claimedOfAllMax = 5000;

function addClaimed(
  owners: RunningEngine['owners'],
  service: string,
  { candidates: { endpoints }, port: { protocol } }: Seen,
  most: number,
  found: Found,
): void {
  const { family, length } = endpoints;
  for (let i = 0; i < Math.min(length, most) && found.size < namedMax; i += 1) {
    const bytes = endpoints.address(i);
    const port = endpoints.port(i);
    const owner = owners.ownerOf(family, protocol, { address: Address.from(bytes), port });
    if (owner === undefined || owner === service) continue;
    const text = formatAddress(bytes);
    found.set(text, () => notAPod(text, `an address of ${owner} (port ${port})`));
  }
}

function clusterIPOwner(state: ClusterState, address: Address): string | undefined {
  for (const key of state.serviceKeys()) {
    const service = state.service(key)!;
    if (service.clusterIPs.some((one) => one.key === address.key)) return key;
  }
  return undefined;
}

/**
 * Endpoints of which none is assigned to a node, although a policy requires endpoints of the node.
 */
export function unknownNodeProblems(
  { externalTrafficPolicy, internalTrafficPolicy, type }: Service,
  slices: readonly EndpointSlice[],
): Problem[] {
  const policies = [
    ...(internalTrafficPolicy === 'Local' ? ['internalTrafficPolicy'] : []),
    ...(externalTrafficPolicy === 'Local' && type !== 'ClusterIP' ? ['externalTrafficPolicy'] : []),
  ];
  if (policies.length === 0) return [];
  let all = 0;
  let unknown = 0;
  for (const slice of slices) {
    all += slice.length;
    for (let i = 0; i < slice.length; i += 1) if (!hasNode(slice, i)) unknown += 1;
  }
  if (unknown === 0) return [];
  const text = () => {
    const [names, without] = unknown === 1 ? ['names', 'it'] : ['name', 'them'];
    return (
      `${unknown} of ${counted(all, 'endpoint')} ${names} no node (nodeName): no node counts ` +
      `${without} as its own, and ${policies.join(' and ')} is Local.`
    );
  };
  return [{ reason: 'unknown_node', text }];
}

/** Whether no endpoint with this address names a node. */
export function nodeless(slices: readonly EndpointSlice[]): (address: Uint8Array) => boolean {
  const known = new Set<string>();
  for (const slice of slices) {
    for (let i = 0; i < slice.length; i += 1) {
      if (!hasNode(slice, i)) known.add(latin1At(slice, i));
    }
  }
  if (known.size === 0) return () => false;
  return (address) => known.has(Buffer.from(address).toString('latin1'));
}

function hasNode({ places }: EndpointSlice, index: number): boolean {
  return (places?.[index]?.node ?? '') !== '';
}

/** A family without endpoints, of a Service that has endpoints of the other family. */
export function otherFamilyProblem(
  family: Family,
  slices: readonly EndpointSlice[],
): Problem | undefined {
  const withEndpoints = slices.filter(({ length }) => length > 0);
  if (withEndpoints.length === 0) return undefined;
  if (withEndpoints.some((slice) => slice.family === family)) return undefined;
  const other = family === 'IPv4' ? 'IPv6' : 'IPv4';
  const isEmpty = slices.some((slice) => slice.family === family);
  const all = isEmpty ? 'endpoints' : 'EndpointSlices';
  const text = () => `It has no endpoint of ${family}: all its ${all} are of ${other}.`;
  return { reason: 'other_family', text };
}

/** Within this time an endpoint is not expected to come and go as often. */
const flappingMs = 10 * 60_000;
/** In and out twice, and in or out again. Of a Service the last ten changes are known. */
const flapsLeast = 5;

/** Endpoints that come and go, as their readiness does: each time connections end or fail. */
export function flappingProblems(
  { clock, eventHistory }: Pick<AgentState, 'clock' | 'eventHistory'>,
  service: string,
): Problem[] {
  if (eventHistory.recent.countOf(service) < flapsLeast) return [];
  const times = new Map<string, string[]>();
  const nowMs = clock.wallMs();
  for (const { added, port, protocol, removed, time } of eventHistory.recent.of(service)) {
    if (nowMs - Date.parse(time) > flappingMs) break;
    for (const endpoint of [...added, ...removed]) {
      const name = `${endpoint} of port ${formatPortName(port, protocol)}`;
      times.set(name, [...(times.get(name) ?? []), time]);
    }
  }
  return Array.from(times)
    .filter(([, own]) => own.length >= flapsLeast)
    .slice(0, namedMax)
    .map(([name, own]) => {
      const text = () =>
        `Endpoint ${name} came and went ${own.length} times since ${own.at(-1)}: see the readiness probe of its pod.`;
      return { reason: 'flapping', text };
    });
}
