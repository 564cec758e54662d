/** Which endpoints a client may reach, by its address. */
import { type Address, cidrContains, parseAddress } from '../../net/address.ts';
import { sameBytes } from '../../net/bytes.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { rangesHold } from '../../net/interval.ts';
import type { RefusalReason } from '../traffic-counts.ts';
import type { ClientKind, ServedFrontend } from './frontends.ts';

/** The endpoints that this client may reach, or why it reaches none; undefined = it has gone. */
export function poolFor(
  frontend: ServedFrontend,
  client: string,
): EndpointList | RefusalReason | undefined {
  // A link-local address may have a zone.
  const address = parseAddress(client.split('%')[0]!);
  if (address === undefined) return undefined;
  if (!isAllowed(frontend, address)) return 'source_ranges';
  const pool = frontend.pools[kindOf(frontend, address)];
  // Where there is no endpoint at all, no socket listens.
  return pool.length === 0 ? 'no_local_endpoints' : pool;
}

function isAllowed({ address, clients, selfClient }: ServedFrontend, { bytes }: Address): boolean {
  if (clients === undefined || rangesHold(clients, bytes)) return true;
  return selfClient && sameBytes(address.bytes, bytes);
}

function kindOf({ address, networks }: ServedFrontend, client: Address): ClientKind {
  if (networks === undefined) return 'outside';
  // The node connects to a bound address from that address itself.
  if (sameBytes(client.bytes, address.bytes)) return 'node';
  const { hostAddresses, podCIDR } = networks;
  if (hostAddresses.some(({ bytes }) => sameBytes(bytes, client.bytes))) return 'node';
  return podCIDR !== undefined && cidrContains(podCIDR, client) ? 'pod' : 'outside';
}
