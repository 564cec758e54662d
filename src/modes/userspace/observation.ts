/** What the kernel holds of ours for one family, besides sockets. */
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { Family } from '../../net/address.ts';
import type { Forwarding } from '../../state/types.ts';
import { binary } from '../elements.ts';
import type { Observation } from '../mode.ts';
import { linkName } from './layout.ts';
import { hasLink } from './link.ts';

/** RT_SCOPE_LINK (linux/rtnetlink.h) */
const RT_SCOPE_LINK = 253;

export class UserspaceObservation implements Observation {
  /** There need not be a ruleset, and its generation tells nothing of links. */
  readonly generation = undefined;
  readonly intact: boolean;
  /** Those on our link. */
  readonly addresses: ReadonlyMap<string, Uint8Array>;
  /** Addresses that batches have written since. */
  readonly touched = new Set<string>();

  constructor(intact: boolean, addresses: readonly Uint8Array[]) {
    this.intact = intact;
    this.addresses = new Map(addresses.map((bytes) => [binary(bytes), bytes]));
  }

  /** Clients are served in turn, whatever the order. */
  adopt(next: Forwarding): Forwarding {
    return next;
  }
}

export async function observe(kernel: Kernel, family: Family): Promise<UserspaceObservation> {
  return new UserspaceObservation(await hasLink(kernel), await addressesOf(kernel, family));
}

/** IPv6 gives every link that is up an address of its own, which is none of a Service. */
export async function addressesOf(kernel: Kernel, family: Family): Promise<Uint8Array[]> {
  const request = { kind: 'addressesDump', family: NFPROTO[family], link: linkName } as const;
  const { records } = await kernel.dump(request);
  return records.flatMap((one) =>
    one.kind === 'address' && one.scope !== RT_SCOPE_LINK ? [one.address] : [],
  );
}
