/** Source ranges: which clients the frontends accept that they guard (behaviour document 5.7). */
import type { Address } from '../net/address.ts';
import { type AddressRanges, rangesOf } from '../net/address-ranges.ts';
import { isGuarded } from '../state/guards.ts';
import type { Forwarding, Frontend } from '../state/types.ts';

/** The clients that may connect to a frontend, in addition to the node; undefined = all. */
export function allowedClients(
  forwarding: Pick<Forwarding, 'guardsAll' | 'sourceRanges'>,
  frontend: Frontend,
): AddressRanges | undefined {
  return isGuarded(forwarding, frontend) ? rangesOf(forwarding.sourceRanges) : undefined;
}

/** The most guarded addresses of a Service that may connect to each other: they are pairs. */
const selfClientsMax = 16;

/**
 * The addresses that may connect whatever the ranges are: the node connects to a VIP from one that
 * is bound on it, that VIP or another one of the Service. Of many only the VIP itself may.
 */
export function selfClients(forwarding: Forwarding, frontend: Frontend): readonly Address[] {
  // A range of ports is at an address that another frontend of the Service has.
  const { address, lastPort } = frontend;
  const isJudged = forwarding.nodeInSourceRanges && isGuarded(forwarding, frontend);
  if (!isJudged || address === undefined || lastPort !== undefined) return [];
  const all: Address[] = [];
  for (const other of forwarding.frontends) {
    if (other.address === undefined || other.lastPort !== undefined) continue;
    if (!isGuarded(forwarding, other)) continue;
    all.push(other.address);
    if (all.length > selfClientsMax) return [address];
  }
  return all;
}
