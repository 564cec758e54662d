/** Source ranges: which clients load-balancer addresses accept (behaviour document 5.7). */
import type { Address } from '../net/address.ts';
import { type AddressRanges, rangesOf } from '../net/address-ranges.ts';
import type { Forwarding, Frontend } from '../state/types.ts';

/** The clients that may connect to a frontend, in addition to the node; undefined = all. */
export function allowedClients(
  { sourceRanges }: Pick<Forwarding, 'sourceRanges'>,
  { kind }: Frontend,
): AddressRanges | undefined {
  if (kind !== 'loadBalancerIP' || sourceRanges.length === 0) return undefined;
  return rangesOf(sourceRanges);
}

/** The most load-balancer addresses of a Service that may connect to each other: they are pairs. */
const selfClientsMax = 16;

/**
 * The addresses that may connect whatever the ranges are: the node connects to a VIP from one that
 * is bound on it, that VIP or another one of the Service. Of many only the VIP itself may.
 */
export function selfClients(
  { frontends, nodeInSourceRanges, sourceRanges }: Forwarding,
  { kind, address }: Frontend,
): readonly Address[] {
  if (kind !== 'loadBalancerIP' || sourceRanges.length === 0 || !nodeInSourceRanges) return [];
  const all: Address[] = [];
  for (const other of frontends) {
    if (other.kind !== 'loadBalancerIP') continue;
    all.push(other.address!);
    if (all.length > selfClientsMax) return [address!];
  }
  return all;
}
