/** The addresses of many blocks, as ranges. */
import { addressBytes, type CIDR } from './address.ts';
import { type Interval, increment } from './interval.ts';

/** The number of blocks that are looked at in one step. */
const blocksAStep = 4096;

/**
 * Ranges of addresses of one family, ascending, that neither overlap nor touch. They are packed: a
 * Service may have 20,000 of them, and two arrays for each would take longer than all else.
 */
export class AddressRanges implements Iterable<Interval> {
  /** The first and the last address of each range, network order. */
  readonly bytes: Uint8Array;
  /** Bytes of an address. */
  readonly width: number;

  constructor(bytes: Uint8Array, width: number) {
    this.bytes = bytes;
    this.width = width;
  }

  get length(): number {
    return this.bytes.length / (2 * this.width);
  }

  *[Symbol.iterator](): Generator<Interval> {
    const { bytes, width } = this;
    for (let at = 0; at < bytes.length; at += 2 * width) {
      const middle = at + width;
      yield { first: bytes.subarray(at, middle), last: bytes.subarray(middle, middle + width) };
    }
  }

  equals(other: AddressRanges): boolean {
    return this.width === other.width && Buffer.compare(this.bytes, other.bytes) === 0;
  }

  /** Whether one of the ranges holds the address. */
  holds(address: Uint8Array): boolean {
    const { bytes, width } = this;
    if (address.length !== width) return false;
    let [from, to] = [0, this.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (compareAt(bytes, (2 * middle + 1) * width, address, 0, width) < 0) from = middle + 1;
      else to = middle;
    }
    return from < this.length && compareAt(bytes, 2 * from * width, address, 0, width) <= 0;
  }
}

/** See `rangesInSteps`. The cost is linear. */
function* mergeInSteps(cidrs: readonly CIDR[]): Generator<undefined, AddressRanges> {
  const width = cidrs[0]?.address.bytes.length ?? 1;
  const blocks = new Uint8Array(2 * width * cidrs.length);
  for (let i = 0; i < cidrs.length; i += 1) {
    if (i % blocksAStep === blocksAStep - 1) yield;
    writeBlock(cidrs[i]!, blocks, 2 * i * width);
  }
  const order = yield* ascending(blocks, width);
  const merged = new Uint8Array(blocks.length);
  const end = new Uint8Array(width);
  let length = 0;
  for (let i = 0; i < order.length; i += 1) {
    if (i % blocksAStep === blocksAStep - 1) yield;
    const first = 2 * order[i]! * width;
    const last = first + width;
    const current = length - width;
    if (length === 0 || !touches(merged, current, blocks, first, end)) {
      merged.set(blocks.subarray(first, last + width), length);
      length += 2 * width;
    } else if (compareAt(blocks, last, merged, current, width) > 0) {
      merged.set(blocks.subarray(last, last + width), current);
    }
  }
  return new AddressRanges(merged.slice(0, length), width);
}

/** Writes the first and the last address of a block. */
function writeBlock({ address, prefixLength }: CIDR, to: Uint8Array, at: number): void {
  const width = addressBytes[address.family];
  address.copy(to, at);
  for (let i = 0; i < width; i += 1) {
    const bits = Math.min(8, Math.max(0, prefixLength - i * 8));
    to[at + width + i] = to[at + i]! | (0xff >> bits);
  }
}

/** The blocks by their first addresses: a radix sort, which compares none of them. */
function* ascending(blocks: Uint8Array, width: number): Generator<undefined, Uint32Array> {
  const stride = 2 * width;
  let order = Uint32Array.from({ length: blocks.length / stride }, (_, i) => i);
  let next = new Uint32Array(order.length);
  for (let byte = width - 1; byte >= 0; byte -= 1) {
    const places = new Uint32Array(257);
    for (let at = byte; at < blocks.length; at += stride) places[blocks[at]! + 1]! += 1;
    for (let value = 1; value < places.length; value += 1) places[value]! += places[value - 1]!;
    for (let i = 0; i < order.length; i += 1) {
      const value = blocks[order[i]! * stride + byte]!;
      next[places[value]!] = order[i]!;
      places[value]! += 1;
    }
    [order, next] = [next, order];
    if (order.length > blocksAStep) yield;
  }
  return order;
}

/** Whether a range that begins at `first` continues or overlaps one that ends at `last`. */
function touches(
  ranges: Uint8Array,
  last: number,
  blocks: Uint8Array,
  first: number,
  scratch: Uint8Array,
): boolean {
  const { length } = scratch;
  for (let i = 0; i < length; i += 1) scratch[i] = ranges[last + i]!;
  return !increment(scratch, 0, length) || compareAt(blocks, first, scratch, 0, length) <= 0;
}

/** Compares `length` bytes. */
function compareAt(a: Uint8Array, atA: number, b: Uint8Array, atB: number, length: number): number {
  for (let i = 0; i < length; i += 1) {
    const difference = a[atA + i]! - b[atB + i]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

/** By the list, which a Service keeps while its endpoints come and go, and its ports share. */
const known = new WeakMap<readonly CIDR[], AddressRanges>();

/** The addresses of the blocks, which are of one family. */
export function rangesOf(cidrs: readonly CIDR[]): AddressRanges {
  const steps = rangesInSteps(cidrs);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Like `rangesOf`, in steps, so that later calls for this list have little to do. */
export function* rangesInSteps(cidrs: readonly CIDR[]): Generator<undefined, AddressRanges> {
  let ranges = known.get(cidrs);
  if (ranges === undefined) {
    ranges = yield* mergeInSteps(cidrs);
    known.set(cidrs, ranges);
  }
  return ranges;
}
