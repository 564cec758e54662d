/** What EndpointSlices say of endpoints that cannot work, each a sentence. */
import { counted } from '../../ask/words.ts';
import {
  type Address,
  addressBytes,
  type CIDR,
  cidrContains,
  type Family,
  formatAddress,
  formatCIDR,
} from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';
import type { ClusterState } from '../../state/store.ts';
import type { EndpointSlice, Service } from '../../state/types.ts';

/** The most endpoints that are named. */
const namedMax = 3;

/**
 * Endpoints in a ServiceCIDR. A packet is translated once, so it would have to be for a pod: what
 * is sent to the address of another Service is rejected or lost.
 */
export function serviceAddressProblems(
  state: ClusterState,
  slices: readonly EndpointSlice[],
): string[] {
  const found = new Map<string, { readonly address: Address; readonly block: CIDR }>();
  for (const address of addressesOf(slices)) {
    if (found.size === namedMax) break;
    const block = state.serviceCIDRs(address.family).find((one) => cidrContains(one, address));
    if (block !== undefined) found.set(formatAddress(address.bytes), { address, block });
  }
  return Array.from(found, ([text, { address, block }]) => {
    const owner = clusterIPOwner(state, address);
    const whose = owner === undefined ? 'in' : `the ClusterIP of ${owner}, in`;
    return (
      `Endpoint ${text} is not a pod: it is ${whose} ServiceCIDR ${formatCIDR(block)}. ` +
      'Connections to it fail, because a packet is translated only once.'
    );
  });
}

function* addressesOf(slices: readonly EndpointSlice[]): Generator<Address> {
  for (const { addresses, family, length } of slices) {
    const stride = addressBytes[family];
    for (let i = 0; i < length; i += 1) {
      const text = addresses.slice(i * stride, (i + 1) * stride);
      yield { family, bytes: Buffer.from(text, 'latin1') };
    }
  }
}

function clusterIPOwner(state: ClusterState, { bytes }: Address): string | undefined {
  for (const key of state.serviceKeys()) {
    const service = state.service(key)!;
    if (service.clusterIPs.some((one) => sameBytes(one.bytes, bytes))) return key;
  }
  return undefined;
}

/** Endpoints that no node counts as its own, although a policy asks for endpoints of the node. */
export function unknownNodeProblems(
  { externalTrafficPolicy, internalTrafficPolicy, type }: Service,
  slices: readonly EndpointSlice[],
): string[] {
  const policies = [
    ...(internalTrafficPolicy === 'Local' ? ['internalTrafficPolicy'] : []),
    ...(externalTrafficPolicy === 'Local' && type !== 'ClusterIP' ? ['externalTrafficPolicy'] : []),
  ];
  if (policies.length === 0) return [];
  let all = 0;
  let unknown = 0;
  for (const { length, places } of slices) {
    all += length;
    for (let i = 0; i < length; i += 1) if (!places?.[i]?.node) unknown += 1;
  }
  if (unknown === 0) return [];
  const [names, without] = unknown === 1 ? ['names', 'it'] : ['name', 'them'];
  return [
    `${unknown} of ${counted(all, 'endpoint')} ${names} no node (nodeName): no node counts ` +
      `${without} as its own, and ${policies.join(' and ')} is Local.`,
  ];
}

/** A family without endpoints whose Service has endpoints of the other family. */
export function otherFamilyProblems(
  { endpointCount, family }: { readonly endpointCount: number; readonly family: Family },
  slices: readonly EndpointSlice[],
): string[] {
  const withEndpoints = slices.filter(({ length }) => length > 0);
  if (endpointCount > 0 || withEndpoints.length === 0) return [];
  if (withEndpoints.some((slice) => slice.family === family)) return [];
  const other = family === 'IPv4' ? 'IPv6' : 'IPv4';
  return [`It has no endpoint of ${family}: all its EndpointSlices are of ${other}.`];
}
