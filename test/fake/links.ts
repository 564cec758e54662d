/** Links and their addresses in memory. */
import type { RecordOf } from '../../src/kernel/records.ts';
import {
  IFA_F,
  type routeOps,
  type routeReplies,
  type routeRequests,
} from '../../src/kernel/route-ops.ts';
import { formatAddress } from '../../src/net/address.ts';
import { Refusal } from './refusal.ts';

export type RouteOp = RecordOf<typeof routeOps>;
export type RouteRequest = RecordOf<typeof routeRequests>;
export type RouteReply = RecordOf<typeof routeReplies>;

type AddressesOp = Extract<RouteOp, { kind: 'addressesAdd' | 'addressesDelete' }>;
type AddressReply = Extract<RouteReply, { kind: 'address' }>;

interface Link {
  readonly index: number;
  readonly type: string;
  flags: number;
  readonly master: number;
  readonly leaves: 0 | 1;
  /** By address and prefix length. */
  readonly addresses: Map<string, AddressReply>;
}

export class FakeLinks {
  readonly #links = new Map<string, Link>();
  #lastIndex = 0;
  /** Machines that do not answer. */
  readonly dead: Extract<RouteReply, { kind: 'deadNeighbour' }>[] = [];
  /** The types of links that the kernel has. */
  readonly types: Set<string> = new Set(['dummy', 'bridge']);

  constructor() {
    this.#add('lo', '');
  }

  readonly #watchers = new Set<() => void>();

  /** Calls `changed` when the watch has begun, and after `came` and `went`. */
  watch(changed: () => void): () => void {
    this.#watchers.add(changed);
    queueMicrotask(() => this.#watchers.has(changed) && changed());
    return () => this.#watchers.delete(changed);
  }

  /** Another program makes a link that is up. */
  came(name: string, type: string, { master = 0, leaves = 0 as 0 | 1 } = {}): number {
    this.#lastIndex += 1;
    const shape = { index: this.#lastIndex, type, flags: 1, master, leaves };
    this.#links.set(name, { ...shape, addresses: new Map() });
    for (const changed of this.#watchers) changed();
    return this.#lastIndex;
  }

  /** Another program deletes a link. */
  went(name: string): void {
    this.#links.delete(name);
    for (const changed of this.#watchers) changed();
  }

  /** The machine at the address does not answer on a link. */
  died(address: Uint8Array, link: string): void {
    const index = this.#links.get(link)?.index ?? this.came(link, '');
    this.dead.push({ kind: 'deadNeighbour', index, address });
  }

  /** Applies the parts of the op that are allowed, and returns the refusals. */
  run(op: RouteOp): Refusal[] {
    try {
      switch (op.kind) {
        case 'linkAdd':
          if (this.#links.has(op.link)) return [];
          if (!this.types.has(op.type)) throw new Refusal('EOPNOTSUPP');
          this.#add(op.link, op.type);
          return [];
        case 'linkDelete':
          this.#named(op.link);
          if (op.link === 'lo') throw new Refusal('EOPNOTSUPP');
          this.#links.delete(op.link);
          return [];
        default:
          return this.#addresses(op);
      }
    } catch (error) {
      if (error instanceof Refusal) return [error];
      throw error;
    }
  }

  answer(request: RouteRequest): RouteReply[] {
    if (request.kind === 'deadNeighboursDump') return this.dead;
    const named = request.kind === 'linksDump' ? '' : request.link;
    const links = [...this.#links].filter(([name]) => named === '' || named === name);
    if (request.kind !== 'addressesDump') {
      return links.map(([link, { index, type, flags, master, leaves }]) => ({
        kind: 'link',
        link,
        index,
        type,
        flags,
        master,
        leaves,
      }));
    }
    const all = links.flatMap(([, { addresses }]) => [...addresses.values()]);
    return all.filter(({ family }) => request.family === 0 || request.family === family);
  }

  /** The addresses of a link, `10.96.0.10/32`, sorted; undefined when there is no such link. */
  texts(link: string): string[] | undefined {
    const found = this.#links.get(link);
    return found && [...found.addresses.keys()].sort();
  }

  /** Whether a link has this address alone. */
  isBound(address: string): boolean {
    const key = `${address}/${address.includes(':') ? 128 : 32}`;
    return [...this.#links.values()].some(({ addresses }) => addresses.has(key));
  }

  #add(name: string, type: string): void {
    this.#lastIndex += 1;
    const shape = { index: this.#lastIndex, type, flags: 0, master: 0, leaves: 0 } as const;
    this.#links.set(name, { ...shape, addresses: new Map() });
  }

  #named(name: string): Link {
    const link = this.#links.get(name);
    if (link === undefined) throw new Refusal('ENODEV');
    return link;
  }

  #addresses(op: AddressesOp): Refusal[] {
    const link = op.link === '' ? this.#indexed(op.index) : this.#named(op.link);
    const refusals: Refusal[] = [];
    const length = op.family === 2 ? 4 : 16;
    for (let entry = 0; entry * length < op.addresses.length; entry += 1) {
      const address = op.addresses.slice(entry * length, (entry + 1) * length);
      const key = `${formatAddress(address)}/${op.prefixLength}`;
      if (op.kind === 'addressesDelete') {
        if (!link.addresses.delete(key)) refusals.push(new Refusal('EADDRNOTAVAIL', entry));
      } else if (link.addresses.has(key)) refusals.push(new Refusal('EEXIST', entry));
      else link.addresses.set(key, addressRecord(op, link.index, address));
    }
    return refusals;
  }

  #indexed(index: number): Link {
    const link = [...this.#links.values()].find((each) => each.index === index);
    if (link === undefined) throw new Refusal('ENODEV');
    return link;
  }
}

function addressRecord(
  { family, prefixLength, flags }: Extract<RouteOp, { kind: 'addressesAdd' }>,
  index: number,
  address: Uint8Array,
): AddressReply {
  const permanent = flags | IFA_F.PERMANENT;
  return { kind: 'address', family, index, address, prefixLength, flags: permanent, scope: 0 };
}
