/** The hash of the kernel's `jhash` (linux/jhash.h; Bob Jenkins' lookup3), and what nft makes of it. */

const golden = 0xdeadbeef;

/** `jhash(key, length, seed)`, a number of 32 bits. */
export function jhash(key: Uint8Array, seed: number): number {
  const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
  const start = (golden + key.length + seed) >>> 0;
  let [a, b, c] = [start, start, start];
  let at = 0;
  while (key.length - at > 12) {
    a = (a + view.getUint32(at, true)) >>> 0;
    b = (b + view.getUint32(at + 4, true)) >>> 0;
    c = (c + view.getUint32(at + 8, true)) >>> 0;
    a = step(a, c, 4);
    c = (c + b) >>> 0;
    b = step(b, a, 6);
    a = (a + c) >>> 0;
    c = step(c, b, 8);
    b = (b + a) >>> 0;
    a = step(a, c, 16);
    c = (c + b) >>> 0;
    b = step(b, a, 19);
    a = (a + c) >>> 0;
    c = step(c, b, 4);
    b = (b + a) >>> 0;
    at += 12;
  }
  if (at === key.length) return c;
  const tail = new Uint8Array(12);
  tail.set(key.subarray(at));
  const rest = new DataView(tail.buffer);
  a = (a + rest.getUint32(0, true)) >>> 0;
  b = (b + rest.getUint32(4, true)) >>> 0;
  c = (c + rest.getUint32(8, true)) >>> 0;
  c = last(c, b, 14);
  a = last(a, c, 11);
  b = last(b, a, 25);
  c = last(c, b, 16);
  a = last(a, c, 4);
  b = last(b, a, 14);
  return last(c, b, 24);
}

/** As nft_jhash_eval: the hash, scaled to 0 … modulus - 1. */
export function hashed(key: Uint8Array, seed: number, modulus: number): number {
  return Number((BigInt(jhash(key, seed)) * BigInt(modulus)) >> 32n);
}

function rotated(value: number, bits: number): number {
  return ((value << bits) | (value >>> (32 - bits))) >>> 0;
}

/** `x -= y; x ^= rol32(y, bits)` */
function step(x: number, y: number, bits: number): number {
  return ((x - y) ^ rotated(y, bits)) >>> 0;
}

/** `x ^= y; x -= rol32(y, bits)` */
function last(x: number, y: number, bits: number): number {
  return ((x ^ y) - rotated(y, bits)) >>> 0;
}
