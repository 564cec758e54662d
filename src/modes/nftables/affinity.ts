/**
 * Clients that session affinity binds to an endpoint that is gone. Packets fill the maps of
 * clients: when a Service port loses an endpoint, its map must be read to find the clients that
 * have it.
 */

import { isKernelError } from '../../kernel/errors.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { entryShape, fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import type { Family } from '../../net/address.ts';
import { type EndpointList, endpointKey, endpointKeys } from '../../net/endpoint-list.ts';
import { poolNames } from '../../state/paths.ts';
import { alternating } from '../../state/steps.ts';
import type { Forwarding } from '../../state/types.ts';
import type { FrontendChange } from '../changes.ts';
import { type Memory, memoryName, memoryNameOf } from './affinity-objects.ts';
import type { FrontendElements } from './frontends.ts';

/** Elements that bind a client to an endpoint that its Service port no longer has. */
interface StaleAffinity {
  readonly set: SetDefinition;
  readonly keys: readonly Uint8Array[];
}

/** A map of clients that is in force. */
interface Kept {
  readonly set: SetDefinition;
  /** The endpoints that it may lead to. */
  pool: EndpointList;
  /** Ids of the frontends whose clients it holds. */
  readonly frontends: Set<string>;
}

/** Limits of what is read for one batch: the number of maps, and about how many bytes. */
const mapsMax = 512;
const bytesMax = 4 * 1024 * 1024;

const none: readonly Memory[] = [];

export class AffinityKeeper {
  readonly #family: Family;
  readonly #table: string;
  /** Maps in force, by name. */
  readonly #kept = new Map<string, Kept>();
  /** Names of maps that may bind clients to what is gone. */
  readonly #due = new Set<string>();
  /** Names of maps that frontends have left since `settle`: others may use them before it. */
  readonly #left = new Set<string>();
  /** Names of maps that were read, and of which the next batch deletes such clients. */
  readonly #read = new Set<string>();

  constructor(family: Family, table: string) {
    this.#family = family;
    this.#table = table;
  }

  /** Whether clients may be bound to an endpoint that is gone. */
  get due(): boolean {
    return this.#due.size > 0;
  }

  /** The same, until what was found is deleted: which Forwardings have such clients. */
  get unswept(): ((forwarding: Forwarding) => boolean) | undefined {
    const isAny = this.#due.size > 0 || this.#read.size > 0;
    return isAny ? (forwarding) => this.#isUnswept(forwarding) : undefined;
  }

  #isUnswept({ affinityTimeoutSeconds, servicePort }: Forwarding): boolean {
    if (affinityTimeoutSeconds === 0) return false;
    const names = poolNames.map((pool) => memoryName(servicePort, pool));
    return names.some((name) => this.#due.has(name) || this.#read.has(name));
  }

  /** What was found is deleted, and what was noted is in force. */
  settle(): void {
    this.#read.clear();
    // An unused map is deleted. When it is needed again, it is empty.
    for (const name of this.#left) {
      if (this.#kept.get(name)?.frontends.size === 0) this.#kept.delete(name);
    }
    this.#left.clear();
  }

  note({ before, after }: FrontendChange<FrontendElements>): void {
    const { id } = (after ?? before) as FrontendElements;
    const memories = after?.affinity?.memories ?? none;
    for (const memory of memories) this.#keep(id, memory);
    for (const { set } of before?.affinity?.memories ?? none) {
      const { name } = set.definition;
      if (memories.some((memory) => memory.set.definition.name === name)) continue;
      this.#kept.get(name)?.frontends.delete(id);
      this.#left.add(name);
    }
  }

  /** Forgets all; `resume` adds frontends again. Maps of an earlier process may hold anything. */
  reset(): void {
    this.#kept.clear();
    this.#left.clear();
    this.#due.clear();
    this.#read.clear();
  }

  /** Must be called when the table is created again: all maps are empty then. */
  startOver(): void {
    this.#due.clear();
  }

  /** Adds a frontend that is in force. */
  resume({ affinity, id }: FrontendElements): void {
    for (const memory of affinity?.memories ?? none) {
      this.#keep(id, memory);
      this.#due.add(memory.set.definition.name);
    }
  }

  #keep(id: string, { set: { definition }, pool }: Memory): void {
    const kept = this.#kept.get(definition.name);
    if (kept === undefined) {
      this.#kept.set(definition.name, { set: definition, pool, frontends: new Set([id]) });
    } else {
      if (losesEndpoint(kept.pool, pool)) this.#due.add(definition.name);
      kept.pool = pool;
      kept.frontends.add(id);
    }
  }

  /**
   * Reads some of the maps that are due, and returns what to delete from them. A map whose dump was
   * interrupted stays due.
   */
  async stale(kernel: KernelReader): Promise<StaleAffinity[]> {
    const found: StaleAffinity[] = [];
    if (this.#due.size > 1) await this.#passOverEmpty(kernel);
    let maps = 0;
    let bytes = 0;
    for (const name of eachNamespaceInTurn(this.#due)) {
      if (maps === mapsMax || bytes >= bytesMax) break;
      maps += 1;
      this.#due.delete(name);
      this.#read.add(name);
      const kept = this.#kept.get(name);
      if (kept !== undefined) bytes += await this.#staleIn(kernel, kept, found);
    }
    return found;
  }

  /** After a start all maps are due. Where the kernel counts elements, empty maps are not read. */
  async #passOverEmpty(kernel: KernelReader): Promise<void> {
    const request = {
      kind: 'setsDump',
      family: NFPROTO[this.#family],
      table: this.#table,
    } as const;
    const { records, consistent } = await kernel.dump(request);
    if (!consistent) return;
    for (const one of records) if (one.kind === 'set' && one.count === 0) this.#due.delete(one.set);
  }

  /** Returns the bytes that were read. */
  async #staleIn(
    kernel: KernelReader,
    { set, pool }: Kept,
    found: StaleAffinity[],
  ): Promise<number> {
    const { table, keyLength, dataLength } = fieldsOfSet(this.#family, this.#table, set);
    const family = NFPROTO[this.#family];
    const request = { family, table, set: set.name, shape: entryShape(set), keyLength, dataLength };
    const dump = await kernel
      .dump({ kind: 'elementsDump', ...request })
      .catch((error: Error) => ifGone(error));
    if (!dump.consistent) this.#due.add(set.name);
    const allowed = endpointKeys(pool);
    const keys: Uint8Array[] = [];
    let bytes = 0;
    for (const record of dump.records) {
      if (record.kind !== 'elements') continue;
      bytes += record.entries.length;
      const stride = keyLength + dataLength;
      for (let at = 0; at < record.entries.length; at += stride) {
        const endpoint = endpointKey(this.#family, record.entries, at + keyLength);
        if (!allowed.has(endpoint)) keys.push(record.entries.subarray(at, at + keyLength));
      }
    }
    if (keys.length > 0) found.push({ set, keys });
    return bytes;
  }
}

/** One map of each namespace after the other: those of no tenant keep others waiting. */
function eachNamespaceInTurn(names: Iterable<string>): Generator<string> {
  const of = (name: string) => memoryNameOf(name)?.servicePort.split('/', 1)[0];
  return alternating([...Map.groupBy(names, of).values()].map((some) => some.values()));
}

/** Returns no entries if another program has deleted the map; an audit will find that. */
function ifGone(error: Error): Awaited<ReturnType<KernelReader['dump']>> {
  if (!isKernelError(error, 'ENOENT')) throw error;
  return { records: [], consistent: true };
}

function losesEndpoint(before: EndpointList, after: EndpointList): boolean {
  if (before.length === 0 || before.equals(after)) return false;
  const kept = endpointKeys(after);
  return [...endpointKeys(before)].some((endpoint) => !kept.has(endpoint));
}
