import { getRandomValues } from 'node:crypto';
import { addressBytes } from './address.ts';
import { type EndpointKey, type EndpointList, endpointBytes } from './endpoint-list.ts';

/** With this many comparisons for each endpoint, a list costs about as much as an index. */
const comparisonsEach = 4;

/** The parts of 16 bits that an address and a port have at most. */
const partsMax = addressBytes.IPv6 / 2 + 1;

/**
 * A sum of products with random factors: who chooses the endpoints of a Service does not know
 * which of them collide (Dietzfelbinger et al., "A reliable randomized algorithm for the
 * closest-pair problem", 1997).
 */
const factors = getRandomValues(new Int32Array(partsMax));

/**
 * Finds endpoints in a list, which has each of them once. Lists that are compared mostly have the
 * same endpoints in the same order, so it looks from behind the last one that was found. Only when
 * that takes long does it make an index.
 */
export class EndpointFinder {
  readonly #list: EndpointList;
  #from = 0;
  #comparisonsLeft: number;
  #index: Index | undefined;

  constructor(list: EndpointList) {
    this.#list = list;
    this.#comparisonsLeft = comparisonsEach * list.length;
  }

  /** The index in this list of the endpoint at `index` of `other`, of one family; -1 = none. */
  indexOf(other: EndpointList, index: number): number {
    if (this.#index === undefined && this.#comparisonsLeft >= 0) return this.#look(other, index);
    this.#index ??= new Index(this.#list);
    return this.#index.indexOf(other, index);
  }

  /** The indexes of the endpoints of `other`, of one family, that this list does not have. */
  missing(other: EndpointList): number[] {
    return other.changedAt(this.#list).filter((i) => this.indexOf(other, i) < 0);
  }

  /** Whether the list has the endpoint with this key, of its family. */
  has(key: EndpointKey): boolean {
    return this.find(key) >= 0;
  }

  /** The index of the endpoint with this key, of the list's family; -1 = none. */
  find(key: EndpointKey): number {
    this.#index ??= new Index(this.#list);
    return this.#index.find(key);
  }

  #look(other: EndpointList, index: number): number {
    const { length } = this.#list;
    let at = this.#from;
    if (at >= length || !this.#list.sameAt(at, other, index)) {
      at = this.#list.find(other, index, this.#from);
      if (at < 0 && this.#from > 0) at = this.#list.find(other, index);
      this.#comparisonsLeft -= at < 0 ? length : (at - this.#from + length) % length;
    }
    if (at >= 0) this.#from = at + 1;
    return at;
  }
}

/** A hash table of a list in two arrays, without a key in memory for each endpoint. */
class Index {
  readonly #list: EndpointList;
  readonly #shift: number;
  /** By hash: the index of an endpoint, plus one. */
  readonly #heads: Int32Array;
  /** By index: the next endpoint with the same hash, likewise. */
  readonly #next: Int32Array;

  constructor(list: EndpointList) {
    const bits = Math.max(1, 32 - Math.clz32(list.length));
    this.#list = list;
    this.#shift = 32 - bits;
    this.#heads = new Int32Array(2 ** bits);
    this.#next = new Int32Array(list.length);
    for (let i = list.length - 1; i >= 0; i -= 1) {
      const hash = this.#hashOf(list, i);
      this.#next[i] = this.#heads[hash]!;
      this.#heads[hash] = i + 1;
    }
  }

  indexOf(other: EndpointList, index: number): number {
    let at = this.#heads[this.#hashOf(other, index)]!;
    while (at > 0 && !this.#list.sameAt(at - 1, other, index)) at = this.#next[at - 1]!;
    return at - 1;
  }

  find(key: EndpointKey): number {
    let at = this.#heads[typeof key === 'number' ? this.#hash48(key) : this.#hashText(key, 0)]!;
    while (at > 0 && this.#list.key(at - 1) !== key) at = this.#next[at - 1]!;
    return at - 1;
  }

  #hashOf(list: EndpointList, index: number): number {
    return this.#hashText(list.latin1, index * endpointBytes[list.family]);
  }

  /** Of the bytes of an endpoint, which start at this character. */
  #hashText(text: string, start: number): number {
    const bytes = addressBytes[this.#list.family] + 2;
    let sum = 0;
    for (let at = 0; at < bytes; at += 2) {
      const part = (text.charCodeAt(start + at) << 8) | text.charCodeAt(start + at + 1);
      sum = (sum + Math.imul(part, factors[at / 2]!)) | 0;
    }
    return mixed(sum) >>> this.#shift;
  }

  /** The same of a key of IPv4. */
  #hash48(key: number): number {
    const low = key >>> 0;
    const high = (key - low) / 0x1_0000_0000;
    const sum =
      Math.imul(high, factors[0]!) +
      Math.imul(low >>> 16, factors[1]!) +
      Math.imul(low & 0xffff, factors[2]!);
    return mixed(sum | 0) >>> this.#shift;
  }
}

/**
 * Spreads the sums of addresses that follow one another (the last step of MurmurHash3): those are
 * multiples of one factor, of which an unlucky choice leaves hundreds in one place.
 */
function mixed(sum: number): number {
  let value = Math.imul(sum ^ (sum >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return value ^ (value >>> 16);
}
