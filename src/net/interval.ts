import { Address, type CIDR, cidrLast } from './address.ts';

/** A range of addresses of one family, both ends included, network order. */
export interface Interval {
  readonly first: Uint8Array;
  readonly last: Uint8Array;
}

/** The fewest blocks that together make up the range, ascending. */
export function cidrsOf({ first, last }: Interval): CIDR[] {
  const blocks: CIDR[] = [];
  let next: Uint8Array | undefined = first;
  while (next !== undefined && Buffer.compare(next, last) <= 0) {
    const block = widestBlock(Address.from(next), last);
    blocks.push(block);
    next = successor(cidrLast(block));
  }
  return blocks;
}

/** The largest block that begins at the address and does not go beyond `last`. */
function widestBlock(address: Address, last: Uint8Array): CIDR {
  const { bytes } = address;
  let block: CIDR = { address, prefixLength: bytes.length * 8 };
  while (block.prefixLength > 0 && !bitAt(bytes, block.prefixLength - 1)) {
    const wider: CIDR = { address, prefixLength: block.prefixLength - 1 };
    if (Buffer.compare(cidrLast(wider), last) > 0) break;
    block = wider;
  }
  return block;
}

function bitAt(bytes: Uint8Array, index: number): boolean {
  return (bytes[index >> 3]! & (0x80 >> (index & 7))) !== 0;
}

/** The address after `address`; undefined after the last one. */
function successor(address: Uint8Array): Uint8Array | undefined {
  const next = address.slice();
  return increment(next, 0, next.length) ? next : undefined;
}

/** Makes the address in `bytes`, from `start` to `end`, the one after it; false = it was the last. */
export function increment(bytes: Uint8Array, start: number, end: number): boolean {
  for (let i = end - 1; i >= start; i -= 1) {
    bytes[i]! += 1;
    if (bytes[i] !== 0) return true;
  }
  return false;
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
