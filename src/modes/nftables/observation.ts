/** What the kernel holds of our table, grouped by frontend. */
import type { Reply } from '../../kernel/ops.ts';
import type { Family } from '../../state/address.ts';
import { EndpointList, endpointBytes } from '../../state/endpoint-list.ts';
import type { Interval } from '../../state/interval.ts';
import { withOrderOf } from '../../state/pool.ts';
import type { Forwarding } from '../../state/types.ts';
import type { Observation } from '../mode.ts';
import type { ChainClasses } from './chain-classes.ts';
import { frontendElements, frontendId } from './frontends.ts';
import type { SetName } from './layout.ts';
import type { Place } from './places.ts';

export type SetReply = Extract<Reply, { kind: 'set' }>;
export type ChainReply = Extract<Reply, { kind: 'chain' }>;
export type RuleReply = Extract<Reply, { kind: 'rule' }>;

/** What one pool map holds for one frontend: index → packed endpoint, compact. */
export class ObservedPool {
  readonly #stride: number;
  #bytes = none;
  #present = none;
  #end = 0;
  /** Indexes that no pool of ours can have. */
  stray = noIndexes;

  constructor(family: Family) {
    this.#stride = endpointBytes[family];
  }

  /** One more than the greatest index seen. */
  get end(): number {
    return this.#end;
  }

  /** Makes room for `length` endpoints. */
  reserve(length: number): void {
    if (length <= this.#present.length) return;
    const present = new Uint8Array(length);
    present.set(this.#present);
    const bytes = new Uint8Array(length * this.#stride);
    bytes.set(this.#bytes);
    this.#present = present;
    this.#bytes = bytes;
  }

  /** The endpoint at `index` is the one that starts at byte `at` of `from`. */
  put(index: number, from: Uint8Array, at: number): void {
    if (index > poolIndexMax) {
      this.stray = [...this.stray, index];
      return;
    }
    if (index >= this.#present.length) this.reserve(2 * index + 1);
    this.#end = Math.max(this.#end, index + 1);
    this.#present[index] = 1;
    const stride = this.#stride;
    for (let i = 0; i < stride; i += 1) this.#bytes[index * stride + i] = from[at + i]!;
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
    const length = gap < 0 ? this.#end : gap;
    return new EndpointList(family, this.#bytes.slice(0, length * this.#stride));
  }
}

const none = new Uint8Array(0);
const noIndexes: readonly number[] = [];

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
  /** Ranges in `source-ranges`, by their text; undefined = none. */
  clients: Map<string, Interval> | undefined;
}

export class NFTablesObservation implements Observation {
  readonly family: Family;
  readonly besideBatches = true;
  /** As it was when reading began. */
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
  readonly #classes: ChainClasses;

  constructor(family: Family, classes: ChainClasses) {
    this.family = family;
    this.#classes = classes;
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
    if (this.frontends.size === 0) return next;
    const order = { cluster: next.cluster, local: next.local };
    const unknown = new Set(['cluster', 'local'] as const);
    const take = (pool: 'cluster' | 'local', found: ObservedPool): void => {
      if (found.end > 0 && unknown.delete(pool)) order[pool] = found.inOrder(this.family);
    };
    const elements = frontendElements(this.#classes, next);
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
        clients: undefined,
      };
      this.frontends.set(id, found);
    }
    return found;
  }
}
