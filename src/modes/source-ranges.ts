/** Source ranges: which clients load-balancer addresses accept (behaviour document 5.7). */
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

/**
 * The address that may connect whatever the ranges are: the node connects from the VIP itself to a
 * VIP that is bound on it. Undefined = there is none.
 */
export function selfClient(
  { nodeInSourceRanges, sourceRanges }: Forwarding,
  { kind, address }: Frontend,
): Uint8Array | undefined {
  if (kind !== 'loadBalancerIP' || sourceRanges.length === 0) return undefined;
  return nodeInSourceRanges ? address!.bytes : undefined;
}
