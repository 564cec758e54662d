/** Source ranges: which clients load-balancer addresses accept (behaviour document 5.7). */
import type { CIDR } from '../net/address.ts';
import { type Interval, mergeCIDRs } from '../net/interval.ts';
import type { Forwarding, Frontend } from '../state/types.ts';

/** A Service keeps its list while its endpoints come and go, and all its frontends share it. */
const known = new WeakMap<readonly CIDR[], readonly Interval[]>();

/** The clients that may connect to a frontend, in addition to the node; undefined = all. */
export function allowedClients(
  { sourceRanges }: Pick<Forwarding, 'sourceRanges'>,
  { kind }: Frontend,
): readonly Interval[] | undefined {
  if (kind !== 'loadBalancerIP' || sourceRanges.length === 0) return undefined;
  let merged = known.get(sourceRanges);
  if (merged === undefined) {
    merged = mergeCIDRs(sourceRanges);
    known.set(sourceRanges, merged);
  }
  return merged;
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
