/**
 * Session affinity that points nowhere: packets fill the map `affinity`, so when an endpoint or
 * the affinity of a frontend goes, the map must be read to find what it left behind.
 */

import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import type { Family } from '../../state/address.ts';
import { addressBytes } from '../../state/address.ts';
import type { EndpointList } from '../../state/endpoint-list.ts';
import { places } from './chains.ts';
import type { FrontendChange } from './frontend-writer.ts';
import { binary, type FrontendElements, frontendId } from './frontends.ts';
import { entryShape, type SetDefinition, setFields } from './layout.ts';

export class AffinityKeeper {
  readonly #family: Family;
  readonly #definition: SetDefinition;
  /** Frontends with session affinity, by id. */
  readonly #sticky = new Map<string, FrontendElements>();
  #due = false;

  constructor(family: Family, definition: SetDefinition) {
    this.#family = family;
    this.#definition = definition;
  }

  /** Something was taken away that clients may still be bound to. */
  get due(): boolean {
    return this.#due;
  }

  note({ before, after }: FrontendChange): void {
    const { id } = (after ?? before) as FrontendElements;
    if (after?.learn === undefined) this.#sticky.delete(id);
    else this.#sticky.set(id, after);
    if (before?.learn === undefined) return;
    this.#due ||= after?.learn === undefined || losesEndpoint(before, after);
  }

  /** Starts anew: what earlier processes left is not known. */
  reset(frontends: Iterable<FrontendElements>): void {
    this.#sticky.clear();
    for (const frontend of frontends) {
      if (frontend.learn !== undefined) this.#sticky.set(frontend.id, frontend);
    }
    this.#due = true;
  }

  /** Keys of the elements that bind a client to an endpoint that its frontend no longer has. */
  async stale(kernel: Kernel): Promise<Uint8Array[]> {
    const { table, set, keyLength, dataLength } = setFields(this.#family, this.#definition);
    const shape = entryShape(this.#definition);
    const family = NFPROTO[this.#family];
    const request = { family, table, set, shape, keyLength, dataLength };
    const { records, consistent } = await kernel.dump({ kind: 'elementsDump', ...request });
    const allowed = new Map<string, ReadonlySet<string>>();
    const keys: Uint8Array[] = [];
    for (const record of records) {
      if (record.kind !== 'elements') continue;
      const stride = keyLength + dataLength;
      for (let at = 0; at < record.entries.length; at += stride) {
        const key = record.entries.subarray(at, at + keyLength);
        const endpoint = binary(record.entries.subarray(at + keyLength, at + stride));
        if (!this.#allowedFor(key, allowed).has(endpoint)) keys.push(key);
      }
    }
    this.#due = !consistent;
    return keys;
  }

  /** Packed endpoints that the frontend in an element's key may send its clients to. */
  #allowedFor(key: Uint8Array, known: Map<string, ReadonlySet<string>>): ReadonlySet<string> {
    const client = addressBytes[this.#family];
    const frontend =
      this.#sticky.get(frontendId(places.service, key.subarray(client))) ??
      this.#sticky.get(frontendId(places.nodePort, key.subarray(2 * client)));
    if (frontend === undefined) return nothing;
    let allowed = known.get(frontend.id);
    if (allowed === undefined) {
      allowed = new Set([...packed(frontend.endpoints), ...packed(frontend.local)]);
      known.set(frontend.id, allowed);
    }
    return allowed;
  }
}

const nothing: ReadonlySet<string> = new Set();

function packed(list: EndpointList): string[] {
  return Array.from({ length: list.length }, (_, i) => binary(list.packed(i)));
}

function losesEndpoint(before: FrontendElements, after: FrontendElements): boolean {
  const kept = new Set([...packed(after.endpoints), ...packed(after.local)]);
  return [...packed(before.endpoints), ...packed(before.local)].some((one) => !kept.has(one));
}
