import { type CIDR, cidrLast, type Family } from './address.ts';

/** A range of addresses of one family, both ends included, network order. */
export interface Interval {
  readonly first: Uint8Array;
  readonly last: Uint8Array;
}

/** The addresses of `cidrs` (of one family) as ascending ranges that neither overlap nor touch. */
export function mergeCIDRs(cidrs: readonly CIDR[]): Interval[] {
  const sorted = cidrs
    .map((cidr) => ({ first: cidr.address.bytes, last: cidrLast(cidr) }))
    .sort((a, b) => Buffer.compare(a.first, b.first));
  const merged: Interval[] = [];
  for (const next of sorted) {
    const current = merged.at(-1);
    if (current === undefined || !touches(current.last, next.first)) {
      merged.push(next);
    } else if (Buffer.compare(next.last, current.last) > 0) {
      merged[merged.length - 1] = { first: current.first, last: next.last };
    }
  }
  return merged;
}

/** The fewest blocks that together make up the range, ascending. */
export function cidrsOf(family: Family, { first, last }: Interval): CIDR[] {
  const blocks: CIDR[] = [];
  let next: Uint8Array | undefined = first;
  while (next !== undefined && Buffer.compare(next, last) <= 0) {
    const block = widestBlock({ family, bytes: next }, last);
    blocks.push(block);
    next = successor(cidrLast(block));
  }
  return blocks;
}

/** The largest block that begins at the address and does not go beyond `last`. */
function widestBlock(address: CIDR['address'], last: Uint8Array): CIDR {
  let block: CIDR = { address, prefixLength: address.bytes.length * 8 };
  while (block.prefixLength > 0 && !bitAt(address.bytes, block.prefixLength - 1)) {
    const wider: CIDR = { address, prefixLength: block.prefixLength - 1 };
    if (Buffer.compare(cidrLast(wider), last) > 0) break;
    block = wider;
  }
  return block;
}

function bitAt(bytes: Uint8Array, index: number): boolean {
  return (bytes[index >> 3]! & (0x80 >> (index & 7))) !== 0;
}

/** Whether one of the ranges holds the address. They are ascending and do not overlap. */
export function rangesHold(ranges: readonly Interval[], address: Uint8Array): boolean {
  let [from, to] = [0, ranges.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (Buffer.compare(ranges[middle]!.last, address) < 0) from = middle + 1;
    else to = middle;
  }
  const range = ranges[from];
  return range !== undefined && Buffer.compare(range.first, address) <= 0;
}

/** Whether a range that begins at `first` continues or overlaps one that ends at `last`. */
function touches(last: Uint8Array, first: Uint8Array): boolean {
  const after = successor(last);
  return after === undefined || Buffer.compare(first, after) <= 0;
}

/** The address after `address`; undefined after the last one. */
export function successor(address: Uint8Array): Uint8Array | undefined {
  const next = address.slice();
  for (let i = next.length - 1; i >= 0; i -= 1) {
    if (next[i] === 0xff) {
      next[i] = 0;
      continue;
    }
    next[i]! += 1;
    return next;
  }
  return undefined;
}

/** The address before `address`, which is not the first one. */
export function predecessor(address: Uint8Array): Uint8Array {
  const previous = address.slice();
  for (let i = previous.length - 1; i >= 0; i -= 1) {
    previous[i]! -= 1;
    if (previous[i] !== 0xff) break;
  }
  return previous;
}
