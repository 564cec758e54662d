/** What the kernel holds of our table, grouped by frontend. */
import type { Reply } from '../../kernel/ops.ts';
import type { Family } from '../../net/address.ts';
import { EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import { withOrderOf } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Observation } from '../mode.ts';
import type { Fault, FoundTable } from '../named-objects.ts';
import { locate, partOf } from './frontends.ts';
import type { SetName } from './layout.ts';

export type SetReply = Extract<Reply, { kind: 'set' }>;
export type ChainReply = Extract<Reply, { kind: 'chain' }>;
type ObjectReply = Extract<Reply, { kind: 'object' }>;
export type RuleReply = Extract<Reply, { kind: 'rule' }>;

const noBytes = new Uint8Array(0);
const noIndexes: readonly number[] = [];

/** Kubernetes has no Service with more endpoints than this. */
const poolIndexMax = 0xffff;

/**
 * What one pool map holds for one frontend: index → packed endpoint. As long as they come in order,
 * which is the usual case, it is a view on the entries that were read.
 */
export class ObservedPool {
  /** Shared by all frontends that a map holds nothing for. */
  static readonly none = new ObservedPool('IPv4', 0);

  readonly #width: number;
  /** From one endpoint in `#bytes` to the next. */
  #stride: number;
  #bytes: Uint8Array = noBytes;
  /** Of the endpoint at index 0. */
  #start = 0;
  #end = 0;
  /** 1 for each index that there is; undefined = all below `end`, and `#bytes` are not ours. */
  #present: Uint8Array | undefined;
  /** Indexes that no pool of ours can have. */
  stray = noIndexes;

  /** `stride`: from one endpoint to the next in what `put` is given. */
  constructor(family: Family, stride: number) {
    this.#width = endpointBytes[family];
    this.#stride = stride;
  }

  /** One more than the greatest index seen. */
  get end(): number {
    return this.#end;
  }

  /** The endpoint at `index` is the one that starts at byte `at` of `from`. */
  put(index: number, from: Uint8Array, at: number): void {
    if (index > poolIndexMax) this.stray = [...this.stray, index];
    else if (this.#isNext(index, from, at)) this.#end += 1;
    else this.#insert(index, from, at);
  }

  #isNext(index: number, from: Uint8Array, at: number): boolean {
    if (index !== this.#end) return false;
    if (index === 0) {
      this.#bytes = from;
      this.#start = at;
    }
    return from === this.#bytes && at === this.#start + index * this.#stride;
  }

  #insert(index: number, from: Uint8Array, at: number): void {
    const present = this.#own(index + 1);
    present[index] = 1;
    for (let i = 0; i < this.#width; i += 1) this.#bytes[index * this.#width + i] = from[at + i]!;
    this.#end = Math.max(this.#end, index + 1);
  }

  /** Ends the view: the bytes become ours, with room for `length` endpoints. */
  #own(length: number): Uint8Array {
    if (this.#present !== undefined && length <= this.#present.length) return this.#present;
    const room = 2 * Math.max(length, this.#end);
    const present = new Uint8Array(room);
    for (let i = 0; i < this.#end; i += 1) present[i] = this.has(i) ? 1 : 0;
    this.#bytes = this.#packed(room, this.#end);
    this.#start = 0;
    this.#stride = this.#width;
    this.#present = present;
    return present;
  }

  /** The first `length` endpoints, with room for `room`. */
  #packed(room: number, length: number): Uint8Array {
    const width = this.#width;
    const packed = new Uint8Array(room * width);
    for (let i = 0; i < length; i += 1) {
      const start = this.#start + i * this.#stride;
      for (let b = 0; b < width; b += 1) packed[i * width + b] = this.#bytes[start + b]!;
    }
    return packed;
  }

  has(index: number): boolean {
    return index < this.#end && (this.#present === undefined || this.#present[index] === 1);
  }

  /** Whether the endpoint at `index` is the one at the same index of `list`. */
  agrees(index: number, list: EndpointList): boolean {
    const start = this.#start + index * this.#stride;
    for (let i = 0; i < this.#width; i += 1) {
      if (this.#bytes[start + i] !== list.bytes[index * this.#width + i]) return false;
    }
    return true;
  }

  /** Whether both have the same at each index, up to the first that one of them lacks. */
  isInOrderOf(list: EndpointList): boolean {
    for (let i = 0; i < list.length && this.has(i); i += 1) {
      if (!this.agrees(i, list)) return false;
    }
    return true;
  }

  /** The endpoints at indexes 0, 1, 2, … up to the first gap. */
  inOrder(family: Family): EndpointList {
    let length = 0;
    while (this.has(length)) length += 1;
    return new EndpointList(family, this.#packed(length, length));
  }
}

/** What the kernel holds for one frontend; its id tells which. */
export class ObservedFrontend {
  /** Verdicts in nft's words, e.g. `goto pick-3`; undefined = none. */
  verdict: string | undefined;
  sticky: string | undefined;
  learn: string | undefined;
  refusal: string | undefined;
  endpoints = ObservedPool.none;
  local = ObservedPool.none;
  firewall: string | undefined;
  /** The repair has compared it. */
  repaired = false;
}

export class NFTablesObservation implements Observation, FoundTable {
  readonly family: Family;
  readonly besideBatches = true;
  /** As it was when reading began. */
  generation = 0;
  table = false;
  /** NFT_TABLE_F_* */
  tableFlags = 0;
  intact = false;
  /** A set of the layout has elements that no record can hold. */
  strange = false;
  readonly sets = new Map<string, SetReply>();
  readonly chains = new Map<string, ChainReply>();
  /** Expressions of each chain's rules, in order. */
  readonly rules = new Map<string, Uint8Array[]>();
  readonly contents = new Map<string, Uint8Array>();
  readonly others: ObjectReply[] = [];
  /** What is wrong with named objects, by id, until they are put right. */
  readonly faults = new Map<string, Fault>();
  readonly frontends = new Map<string, ObservedFrontend>();
  /** Elements of the sets that belong to no single frontend, by `elementId`. */
  readonly elements = new Map<SetName, Set<string>>();
  /** Frontend ids and binary keys that batches have written since. */
  readonly touched = new Set<string>();

  constructor(family: Family) {
    this.family = family;
  }

  /** Forgets what was read: nothing of it will survive (the table is written anew). */
  clear(): void {
    this.table = false;
    this.strange = false;
    this.sets.clear();
    this.chains.clear();
    this.rules.clear();
    this.contents.clear();
    this.others.length = 0;
    this.faults.clear();
    this.frontends.clear();
    this.elements.clear();
    this.touched.clear();
  }

  adopt(next: Forwarding): Forwarding {
    const cluster = this.#orderOf('cluster', next);
    const local = this.#orderOf('local', next);
    if (cluster === next.cluster && local === next.local) return next;
    return withOrderOf({ ...next, cluster, local, hairpin: local, serving: cluster }, next);
  }

  /** A pool in the order of the first frontend that has some of it; itself, if it is in order. */
  #orderOf(pool: 'cluster' | 'local', next: Forwarding): EndpointList {
    const list = next[pool];
    if (list.length < 2) return list;
    for (const frontend of next.frontends) {
      const part = partOf(pool, frontend);
      const found = part && this.frontends.get(locate(next, frontend).id)?.[part];
      if (found === undefined || found.end === 0) continue;
      return found.isInOrderOf(list) ? list : found.inOrder(this.family);
    }
    return list;
  }

  /** The frontend whose id this is. */
  frontend(id: string): ObservedFrontend {
    let found = this.frontends.get(id);
    if (found === undefined) {
      found = new ObservedFrontend();
      this.frontends.set(id, found);
    }
    return found;
  }
}
