/** Our objects in the kernel for one family, except sockets. */
import type { KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { RT_SCOPE_LINK } from '../../kernel/route-ops.ts';
import type { Family } from '../../net/address.ts';
import type { Found } from '../backend.ts';
import { binary } from '../elements.ts';
import type { SharedObject } from '../shared-objects.ts';
import type { ServedFrontend } from '../sockets/frontends.ts';
import { linkName } from './link.ts';

/** An address of Services, which must be local. */
export interface BoundAddress extends SharedObject {
  readonly key: Uint8Array;
}

export function boundAddress(key: Uint8Array): BoundAddress {
  return { id: binary(key), isShared: true, key, bytes: 0 };
}

export interface UserspaceObjects {
  readonly frontend: ServedFrontend;
  readonly observed: ServedFrontend;
  readonly shared: BoundAddress;
}

/** The addresses on our link, as read, and the sockets of this process, which it knows. */
export class UserspaceObservation implements Found<UserspaceObjects> {
  readonly hasLink: boolean;
  readonly #sockets: ReadonlyMap<string, ServedFrontend>;
  readonly #taken = new Set<string>();
  /** Those on our link. */
  readonly #addresses: ReadonlyMap<string, BoundAddress>;
  readonly #isLingering: (id: string) => boolean;

  constructor(found: {
    readonly hasLink: boolean;
    readonly sockets: Iterable<ServedFrontend>;
    readonly addresses: readonly Uint8Array[];
    /** Whether the address is kept only for its connections. */
    readonly isLingering: (id: string) => boolean;
  }) {
    this.hasLink = found.hasLink;
    this.#sockets = new Map([...found.sockets].map((one) => [one.id, one]));
    this.#addresses = new Map(found.addresses.map((key) => [binary(key), boundAddress(key)]));
    this.#isLingering = found.isLingering;
  }

  take({ id }: ServedFrontend): ServedFrontend | undefined {
    this.#taken.add(id);
    return this.#sockets.get(id);
  }

  *rest(): Generator<readonly [string, ServedFrontend]> {
    for (const one of this.#sockets) if (!this.#taken.has(one[0])) yield one;
  }

  faultOf({ id }: BoundAddress): 'missing' | undefined {
    return this.#addresses.has(id) ? undefined : 'missing';
  }

  *shared(): Generator<BoundAddress> {
    for (const one of this.#addresses.values()) if (!this.#isLingering(one.id)) yield one;
  }
}

/** The addresses on our link, without the link-local one that every link with IPv6 has. */
export async function addressesOf(kernel: KernelReader, family: Family): Promise<Uint8Array[]> {
  const request = { kind: 'addressesDump', family: NFPROTO[family], link: linkName } as const;
  const { records } = await kernel.dump(request);
  return records.flatMap((one) =>
    one.kind === 'address' && one.scope !== RT_SCOPE_LINK ? [one.address] : [],
  );
}
