/**
 * Session affinity that points nowhere: packets fill the affinity maps, so when an endpoint or
 * the affinity of a frontend goes, the maps must be read to find what it left behind.
 */

import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { entryShape } from '../../kernel/nft/sets.ts';
import type { Family } from '../../state/address.ts';
import { addressBytes } from '../../state/address.ts';
import { type EndpointKey, type EndpointList, endpointKey } from '../../state/endpoint-list.ts';
import type { FrontendChange } from '../changes.ts';
import { type FrontendElements, frontendId } from './frontends.ts';
import { type AffinitySet, affinitySets, type SetDefinitions, setFields } from './layout.ts';
import { type FrontendKind, placeOf } from './places.ts';

/** Which pool of a frontend each map may hold endpoints of. */
const poolOf = { affinity: 'endpoints', 'local-affinity': 'local' } as const satisfies Record<
  AffinitySet,
  keyof StickyPools
>;

/** The pools of a frontend with session affinity. */
type StickyPools = Pick<FrontendElements, 'endpoints' | 'local'>;

/** An element that binds a client to an endpoint that its frontend no longer has. */
export interface StaleAffinity {
  readonly set: AffinitySet;
  readonly key: Uint8Array;
}

export class AffinityKeeper {
  readonly #family: Family;
  readonly #sets: SetDefinitions;
  /** Frontends with session affinity, by id. */
  readonly #sticky = new Map<string, StickyPools>();
  #due = false;

  constructor(family: Family, sets: SetDefinitions) {
    this.#family = family;
    this.#sets = sets;
  }

  /** Something was taken away that clients may still be bound to. */
  get due(): boolean {
    return this.#due;
  }

  note({ before, after }: FrontendChange<FrontendElements>): void {
    const { id } = (after ?? before) as FrontendElements;
    if (after?.learn === undefined) this.#sticky.delete(id);
    else this.resume(after);
    if (before?.learn === undefined) return;
    this.#due ||= after?.learn === undefined || losesEndpoint(before, after);
  }

  /** Starts anew, with frontends that `resume` tells: what earlier processes left is not known. */
  reset(): void {
    this.#sticky.clear();
    this.#due = true;
  }

  /** This frontend is in force. */
  resume({ id, endpoints, local, learn }: FrontendElements): void {
    if (learn !== undefined) this.#sticky.set(id, { endpoints, local });
  }

  /** Reads the maps. Unless a read was disturbed, only the deletion of what is found is left. */
  async stale(kernel: Kernel): Promise<StaleAffinity[]> {
    this.#due = false;
    const found: StaleAffinity[] = [];
    for (const set of affinitySets) {
      const consistent = await this.#staleIn(kernel, set, found);
      this.#due ||= !consistent;
    }
    return found;
  }

  /** Whether the dump was consistent. */
  async #staleIn(kernel: Kernel, set: AffinitySet, found: StaleAffinity[]): Promise<boolean> {
    const { table, keyLength, dataLength } = setFields(this.#family, this.#sets[set]);
    const shape = entryShape(this.#sets[set]);
    const family = NFPROTO[this.#family];
    const request = { family, table, set, shape, keyLength, dataLength };
    const { records, consistent } = await kernel.dump({ kind: 'elementsDump', ...request });
    const allowed = new Map<StickyPools, ReadonlySet<EndpointKey>>();
    for (const record of records) {
      if (record.kind !== 'elements') continue;
      const stride = keyLength + dataLength;
      for (let at = 0; at < record.entries.length; at += stride) {
        const key = record.entries.subarray(at, at + keyLength);
        const endpoint = endpointKey(this.#family, record.entries, at + keyLength);
        if (!this.#allowedFor(key, set, allowed).has(endpoint)) found.push({ set, key });
      }
    }
    return consistent;
  }

  /** Endpoints that the frontend in an element's key may send such clients to. */
  #allowedFor(
    key: Uint8Array,
    set: AffinitySet,
    known: Map<StickyPools, ReadonlySet<EndpointKey>>,
  ): ReadonlySet<EndpointKey> {
    const client = addressBytes[this.#family];
    const frontend =
      this.#sticky.get(frontendIdOf('service', key, client)) ??
      this.#sticky.get(frontendIdOf('nodePort', key, 2 * client));
    if (frontend === undefined) return nothing;
    let allowed = known.get(frontend);
    if (allowed === undefined) {
      allowed = keysOf(frontend[poolOf[set]]);
      known.set(frontend, allowed);
    }
    return allowed;
  }
}

/** Of the frontend whose key begins at byte `from` of an element's. */
function frontendIdOf(kind: FrontendKind, key: Uint8Array, from: number): string {
  return frontendId(placeOf(kind, key, from), key, from);
}

const nothing: ReadonlySet<EndpointKey> = new Set();

function keysOf(list: EndpointList): Set<EndpointKey> {
  const keys = new Set<EndpointKey>();
  for (let i = 0; i < list.length; i += 1) keys.add(list.key(i));
  return keys;
}

function losesEndpoint(before: FrontendElements, after: FrontendElements): boolean {
  return Object.values(poolOf).some((pool) => {
    if (before[pool].length === 0 || before[pool].equals(after[pool])) return false;
    const kept = keysOf(after[pool]);
    return [...keysOf(before[pool])].some((endpoint) => !kept.has(endpoint));
  });
}
