/** What the kernel holds of our table, grouped by frontend. */

import { KernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { NFPROTO } from '../../kernel/nft/constants.ts';
import { printVerdict } from '../../kernel/nft/print-rule.ts';
import { entryShape } from '../../kernel/nft/sets.ts';
import { ElementShape, type Reply, type Request } from '../../kernel/ops.ts';
import type { Family } from '../../state/address.ts';
import { EndpointList, endpointBytes } from '../../state/endpoint-list.ts';
import type { Interval } from '../../state/interval.ts';
import { withOrderOf } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Observation } from '../mode.ts';
import { type Place, places } from './chains.ts';
import { binary, type ChainsOf, frontendElements, frontendId } from './frontends.ts';
import {
  isAffinitySet,
  type SetDefinitions,
  type SetName,
  setFields,
  setNames,
  tableName,
} from './layout.ts';

type ElementsReply = Extract<Reply, { kind: 'elements' }>;
export type SetReply = Extract<Reply, { kind: 'set' }>;
export type ChainReply = Extract<Reply, { kind: 'chain' }>;
export type RuleReply = Extract<Reply, { kind: 'rule' }>;

/** What one pool map holds for one frontend: index → packed endpoint, compact. */
export class ObservedPool {
  readonly #stride: number;
  #bytes = new Uint8Array(0);
  #present = new Uint8Array(0);
  /** Indexes that no pool of ours can have. */
  readonly stray: number[] = [];

  constructor(family: Family) {
    this.#stride = endpointBytes[family];
  }

  /** One more than the greatest index seen. */
  get end(): number {
    return this.#present.length;
  }

  put(index: number, endpoint: Uint8Array): void {
    if (index > poolIndexMax) {
      this.stray.push(index);
      return;
    }
    if (index >= this.end) this.#grow(index + 1);
    this.#present[index] = 1;
    this.#bytes.set(endpoint, index * this.#stride);
  }

  has(index: number): boolean {
    return this.#present[index] === 1;
  }

  /** Whether the endpoint at `index` is the one at the same index of `list`. */
  agrees(index: number, list: EndpointList): boolean {
    const start = index * this.#stride;
    for (let i = start; i < start + this.#stride; i += 1) {
      if (this.#bytes[i] !== list.bytes[i]) return false;
    }
    return true;
  }

  /** The endpoints at indexes 0, 1, 2, … up to the first gap. */
  inOrder(family: Family): EndpointList {
    const gap = this.#present.indexOf(0);
    const length = gap < 0 ? this.end : gap;
    return new EndpointList(family, this.#bytes.slice(0, length * this.#stride));
  }

  #grow(length: number): void {
    // Indexes arrive in hash order: grow in steps so that most pools grow once or twice.
    const present = new Uint8Array(length);
    present.set(this.#present);
    this.#present = present;
    if (length * this.#stride <= this.#bytes.length) return;
    const bytes = new Uint8Array(Math.max(4, length * 2) * this.#stride);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
  }
}

/** Kubernetes has no Service with more endpoints than this. */
const poolIndexMax = 0xffff;

export interface ObservedFrontend {
  readonly place: Place;
  readonly key: Uint8Array;
  /** Verdicts in nft's words, e.g. `goto pick-3`; undefined = none. */
  verdict: string | undefined;
  learn: string | undefined;
  refusal: string | undefined;
  readonly endpoints: ObservedPool;
  readonly local: ObservedPool;
  /** `firewall-ips` has it. */
  firewalled: boolean;
  /** Ranges in `source-ranges`, by their text. */
  readonly clients: Map<string, Interval>;
}

const dumpAttempts = 5;

export class NFTablesObservation implements Observation {
  readonly family: Family;
  generation = 0;
  table = false;
  /** NFT_TABLE_F_* */
  tableFlags = 0;
  intact = false;
  readonly sets = new Map<string, SetReply>();
  readonly chains = new Map<string, ChainReply>();
  /** Expressions of each chain's rules, in order. */
  readonly rules = new Map<string, Uint8Array[]>();
  readonly frontends = new Map<string, ObservedFrontend>();
  /** Elements of the sets that belong to no single frontend: binary key → key. */
  readonly keys = new Map<SetName, Map<string, Uint8Array>>();
  /** Frontend ids and binary keys that batches have written since. */
  readonly touched = new Set<string>();
  /** Frontend ids that the repair has compared. */
  readonly repaired = new Set<string>();
  readonly #chainsOf: ChainsOf;

  constructor(family: Family, chainsOf: ChainsOf) {
    this.family = family;
    this.#chainsOf = chainsOf;
  }

  /** Forgets what was read: nothing of it will survive (the table is written anew). */
  clear(): void {
    this.table = false;
    this.sets.clear();
    this.chains.clear();
    this.rules.clear();
    this.frontends.clear();
    this.keys.clear();
    this.touched.clear();
    this.repaired.clear();
  }

  adopt(next: Forwarding): Forwarding {
    const order = { cluster: next.cluster, local: next.local };
    const unknown = new Set(['cluster', 'local'] as const);
    const take = (pool: 'cluster' | 'local', found: ObservedPool): void => {
      if (found.end > 0 && unknown.delete(pool)) order[pool] = found.inOrder(this.family);
    };
    const elements = frontendElements(this.#chainsOf, next);
    for (const [i, { treatment, pool }] of next.frontends.entries()) {
      const { id, chains } = elements[i]!;
      const found = this.frontends.get(id);
      if (found === undefined || chains.length === 0) continue;
      take(treatment === 'external-local' ? 'cluster' : pool, found.endpoints);
      if (treatment === 'external-local') take('local', found.local);
      if (unknown.size === 0) break;
    }
    return withOrderOf({ ...next, ...order, hairpin: order.local, serving: order.cluster }, next);
  }

  frontend(place: Place, key: Uint8Array): ObservedFrontend {
    const id = frontendId(place, key);
    let found = this.frontends.get(id);
    if (found === undefined) {
      found = {
        place,
        key: key.slice(),
        verdict: undefined,
        learn: undefined,
        refusal: undefined,
        endpoints: new ObservedPool(this.family),
        local: new ObservedPool(this.family),
        firewalled: false,
        clients: new Map(),
      };
      this.frontends.set(id, found);
    }
    return found;
  }
}

/** Reads our table of one family. A dump that the ruleset's change interrupts is read again. */
export async function observe(
  kernel: Kernel,
  family: Family,
  sets: SetDefinitions,
  chainsOf: ChainsOf,
): Promise<NFTablesObservation> {
  for (let attempt = 1; attempt <= dumpAttempts; attempt += 1) {
    const found = new NFTablesObservation(family, chainsOf);
    found.generation = await kernel.generation();
    const consistent = await readAll(kernel, found, sets);
    if (consistent && (await kernel.generation()) === found.generation) return found;
  }
  throw new KernelError({
    operation: 'nft.dump',
    subject: `table ${family === 'IPv4' ? 'ip' : 'ip6'} ${tableName}`,
    code: 'EINTR',
    words: `the ruleset changed during each of ${dumpAttempts} reads`,
  });
}

async function readAll(
  kernel: Kernel,
  found: NFTablesObservation,
  sets: SetDefinitions,
): Promise<boolean> {
  const family = NFPROTO[found.family];
  const ours = { family, table: tableName };
  const requests: Request[] = [
    { kind: 'tablesDump', family },
    { kind: 'chainsDump', ...ours },
    { kind: 'rulesDump', ...ours, chain: '' },
    { kind: 'setsDump', ...ours },
  ];
  for (const request of requests) {
    const { records, consistent } = await kernel.dump(request);
    if (!consistent) return false;
    for (const record of records) readObject(found, record);
    if (request.kind === 'tablesDump' && !found.table) return true;
  }
  for (const name of setNames) {
    // Its content belongs to the packets that fill it.
    if (isAffinitySet(name)) continue;
    const known = found.sets.get(name);
    const fields = setFields(found.family, sets[name]);
    if (known === undefined || known.keyLength !== fields.keyLength) continue;
    const shape = entryShape(sets[name]);
    const { keyLength, dataLength } = fields;
    const request = { ...ours, set: name, shape, keyLength, dataLength };
    const { records, consistent } = await kernel.dump({ kind: 'elementsDump', ...request });
    if (!consistent) return false;
    for (const record of records) {
      if (record.kind === 'elements') readElements(found, name, record);
    }
  }
  return true;
}

function readObject(found: NFTablesObservation, record: Reply): void {
  const family = NFPROTO[found.family];
  switch (record.kind) {
    case 'table':
      if (record.family !== family || record.table !== tableName) return;
      found.table = true;
      found.tableFlags = record.flags;
      return;
    case 'chain':
      if (record.table === tableName) found.chains.set(record.chain, record);
      return;
    case 'rule': {
      if (record.table !== tableName) return;
      const rules = found.rules.get(record.chain);
      if (rules === undefined) found.rules.set(record.chain, [record.expressions]);
      else rules.push(record.expressions);
      return;
    }
    case 'set':
      if (record.table === tableName) found.sets.set(record.set, record);
      return;
    default:
      return;
  }
}

/** Which place and part of a frontend each map holds. */
const frontendMaps = new Map<
  SetName,
  { place: Place; part: 'verdict' | 'learn' | 'refusal' | 'endpoints' | 'local' }
>(
  Object.values(places).flatMap((place) => [
    [place.verdicts, { place, part: 'verdict' }] as const,
    [place.learn, { place, part: 'learn' }] as const,
    [place.noEndpoints, { place, part: 'refusal' }] as const,
    [place.endpoints, { place, part: 'endpoints' }] as const,
    [place.localEndpoints, { place, part: 'local' }] as const,
  ]),
);

function readElements(found: NFTablesObservation, name: SetName, record: ElementsReply): void {
  const { entries, keyLength, dataLength, shape, count } = record;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const target = frontendMaps.get(name);
  let at = 0;
  for (let i = 0; i < count; i += 1) {
    const key = entries.subarray(at, at + keyLength);
    at += keyLength;
    if ((shape & ElementShape.data) !== 0) {
      const data = entries.subarray(at, at + dataLength);
      at += dataLength;
      const { place, part } = target as { place: Place; part: 'endpoints' | 'local' };
      const index = view.getUint32(at - dataLength - 4, true);
      found.frontend(place, key.subarray(0, keyLength - 4))[part].put(index, data);
    } else if ((shape & ElementShape.verdict) !== 0) {
      const code = view.getInt32(at, true);
      const length = view.getUint32(at + 4, true);
      const chain = binary(entries.subarray(at + 8, at + 8 + length));
      at += 8 + ((length + 3) & ~3);
      const { place, part } = target as { place: Place; part: 'verdict' | 'learn' | 'refusal' };
      found.frontend(place, key)[part] = printVerdict(code, chain);
    } else {
      const extra =
        (shape & ElementShape.keyEnd) !== 0
          ? keyLength
          : (shape & ElementShape.flags) !== 0
            ? 4
            : 0;
      readKey(found, name, key, entries.subarray(at, at + extra));
      at += extra;
    }
  }
}

function readKey(
  found: NFTablesObservation,
  name: SetName,
  key: Uint8Array,
  extra: Uint8Array,
): void {
  const frontendLength = key.length - (found.family === 'IPv4' ? 4 : 16);
  if (name === 'firewall-ips') {
    found.frontend(places.service, key).firewalled = true;
  } else if (name === 'source-ranges') {
    const { clients } = found.frontend(places.service, key.subarray(0, frontendLength));
    const range = { first: key.subarray(frontendLength), last: extra.subarray(frontendLength) };
    clients.set(rangeText(range.first, range.last), range);
  } else {
    let keys = found.keys.get(name);
    if (keys === undefined) {
      keys = new Map();
      found.keys.set(name, keys);
    }
    // The end of an interval is an element of its own, told apart by its flag.
    keys.set(binary(key) + binary(extra), key);
  }
}

/** A range as a Map key. */
export function rangeText(first: Uint8Array, last: Uint8Array): string {
  return `${binary(first)} ${binary(last)}`;
}
