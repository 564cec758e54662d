/** Frontends as the kernel holds them. */
import type { Family } from '../../net/address.ts';
import { EndpointList, endpointBytes } from '../../net/endpoint-list.ts';
import type { TableObject } from '../nft-table/shared.ts';
import { type FrontendElements, type Location, locationOf, type VerdictPart } from './frontends.ts';
import type { SharedSet } from './layout.ts';

const noBytes = new Uint8Array(0);
const noIndexes: readonly number[] = [];

/** Kubernetes has no Service with more endpoints than this. */
const poolIndexMax = 0xffff;

/**
 * What one pool map holds for one frontend: index → packed endpoint. While entries come in order,
 * which is the usual case, it is a view of the bytes that were read.
 */
export class ObservedPool {
  /** Shared by all frontends that a map holds nothing for. */
  static readonly none = new ObservedPool('IPv4', 0);

  readonly #width: number;
  /** From one endpoint in `#bytes` to the next. */
  #stride: number;
  #bytes: Uint8Array = noBytes;
  /** Offset of the endpoint at index 0. */
  #start = 0;
  #end = 0;
  /** 1 for each index with an endpoint; undefined = all below `end` have one, and it is a view. */
  #present: Uint8Array | undefined;
  /** Indexes that no pool of ours can have. */
  #beyond = noIndexes;

  /** `stride`: the bytes from one endpoint to the next in what `put` gets. */
  constructor(family: Family, stride: number) {
    this.#width = endpointBytes[family];
    this.#stride = stride;
  }

  get isEmpty(): boolean {
    return this.#end === 0;
  }

  /** The number of endpoints at indexes 0, 1, 2, … up to the first gap. */
  get length(): number {
    if (this.#present === undefined) return this.#end;
    let length = 0;
    while (this.has(length)) length += 1;
    return length;
  }

  /** Indexes behind a gap, or that no pool of ours can have. */
  get stray(): readonly number[] {
    const stray = [...this.#beyond];
    for (let i = this.length; i < this.#end; i += 1) if (this.has(i)) stray.push(i);
    return stray;
  }

  /** The endpoint at `index` is the one that starts at byte `at` of `from`. */
  put(index: number, from: Uint8Array, at: number): void {
    if (index > poolIndexMax) this.#beyond = [...this.#beyond, index];
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

  /** Copies the bytes of the view, with room for `length` endpoints. */
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

  /** A copy of the first `length` endpoints, with room for `room`. */
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
      if (this.#bytes[start + i] !== list.latin1.charCodeAt(index * this.#width + i)) return false;
    }
    return true;
  }

  /** Whether both have the same endpoints up to the end of the shorter one. */
  isInOrderOf(list: EndpointList): boolean {
    for (let i = 0; i < list.length && this.has(i); i += 1) {
      if (!this.agrees(i, list)) return false;
    }
    return true;
  }

  /** The endpoints at indexes 0, 1, 2, … up to the first gap. */
  inOrder(family: Family): EndpointList {
    const { length } = this;
    return EndpointList.from(family, this.#packed(length, length));
  }
}

export class ObservedFrontend {
  /** In nft's words, with the comments of their elements: `goto pick-3 comment "ns/web:http"`. */
  readonly verdicts: Partial<Record<VerdictPart, string | undefined>> = {};
  endpoints = ObservedPool.none;
  local = ObservedPool.none;
  /** See FrontendElements. */
  isCounted = false;
  /** Whether a repair has compared the frontend. */
  isTaken = false;
  readonly #id: string;

  constructor(id: string) {
    this.#id = id;
  }

  get location(): Location {
    return locationOf(this.#id);
  }
}

export interface NFTablesObjects {
  readonly frontend: FrontendElements;
  readonly observed: ObservedFrontend;
  readonly shared: TableObject<SharedSet>;
}
