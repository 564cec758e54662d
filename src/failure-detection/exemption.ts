/** Which endpoints are not probed, and therefore never left out. */
import { type Address, type CIDR, cidrContains } from '../net/address.ts';
import { sameBytes } from '../net/bytes.ts';
import { specialUse } from '../net/special-address.ts';

/**
 * Why no connection is opened to an endpoint; undefined: one may be. Who writes EndpointSlices must
 * not make the node connect to itself, nor to other Services.
 */
export function exemption(
  address: Address,
  own: readonly Address[],
  serviceCIDRs: readonly CIDR[],
): string | undefined {
  const special = specialUse(address);
  if (special !== undefined) return `it is ${special}`;
  if (own.some(({ bytes }) => sameBytes(bytes, address.bytes))) {
    return 'it is an address of this node';
  }
  if (serviceCIDRs.some((cidr) => cidrContains(cidr, address))) return 'it is in a ServiceCIDR';
  return undefined;
}
