/**
 * Tables for consistent hashing, by the algorithm of Maglev ("Maglev: A Fast and Reliable Software
 * Network Load Balancer", section 3.4): each endpoint has a permutation of all slots, which its
 * address and port decide, and in turn takes the first of them that is free. All nodes make the
 * same table of the same endpoints, and few slots change hands when an endpoint comes or goes.
 */
import { type EndpointList, endpointBytes } from '../net/endpoint-list.ts';

/**
 * Sizes of tables: primes, so that every step leads through all slots. The size does not depend on
 * the number of endpoints as long as that is small: another size moves nearly all flows.
 */
const sizes = [7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 16_381, 65_521] as const;
export const standardSize = 4093;
/** The least number of slots for each endpoint, unless a limit does not allow that size. */
const slotsEach = 10;

/** The number of slots for a number of endpoints; 0 if not even one for each is allowed. */
function sizeFor(endpoints: number, most: number): number {
  const enough = Math.max(standardSize, slotsEach * endpoints);
  const allowed = sizes.filter((size) => size <= most && size >= endpoints);
  return allowed.find((size) => size >= enough) ?? allowed.at(-1) ?? 0;
}

/**
 * `list` is in ascending order, so that all nodes have the same. Endpoints with a smaller weight
 * take turns less often. `list` itself when `slotsMax` allows no table.
 */
export function hashTable(
  list: EndpointList,
  weights: readonly number[],
  slotsMax: number,
): EndpointList {
  const size = sizeFor(list.length, slotsMax);
  return size === 0 ? list : list.picked(fill(list, weights, size));
}

function fill(list: EndpointList, weights: readonly number[], size: number): Uint32Array {
  const stride = endpointBytes[list.family];
  const next = new Uint32Array(list.length);
  const step = new Uint32Array(list.length);
  for (let i = 0; i < list.length; i += 1) {
    next[i] = hash(list.latin1, i * stride, stride, 0x811c9dc5) % size;
    step[i] = 1 + (hash(list.latin1, i * stride, stride, 0x9747b28c) % (size - 1));
  }
  const taken = new Uint8Array(size);
  const slots = new Uint32Array(size);
  for (const i of turns(weights, size)) {
    while (taken[next[i]!] === 1) next[i] = (next[i]! + step[i]!) % size;
    taken[next[i]!] = 1;
    slots[next[i]!] = i;
  }
  return slots;
}

/**
 * Who takes the next slot, `size` times. There are rounds, and an endpoint has a turn in each round
 * in which the sum of its weights comes to another multiple of the greatest weight. That is not
 * played round by round: with one great weight among thousands, few have a turn in a round.
 */
function turns(weights: readonly number[], size: number): Uint32Array {
  const most = weights.reduce((a, b) => Math.max(a, b));
  const turnsUntil = (round: number): number =>
    weights.reduce((all, weight) => all + Math.floor((round * weight) / most), 0);
  let [few, rounds] = [0, size];
  while (rounds - few > 1) {
    const middle = (few + rounds) >> 1;
    if (turnsUntil(middle) < size) few = middle;
    else rounds = middle;
  }
  /** Round and endpoint in one number, so that sorting it is fast. */
  const order = new Float64Array(turnsUntil(rounds));
  let at = 0;
  weights.forEach((weight, i) => {
    for (let turn = 1; turn * most <= rounds * weight; turn += 1) {
      order[at] = Math.ceil((turn * most) / weight) * weights.length + i;
      at += 1;
    }
  });
  return Uint32Array.from(order.sort().subarray(0, size), (one) => one % weights.length);
}

/** FNV-1a, and then the end of MurmurHash3, so that adjacent addresses have nothing in common. */
function hash(latin1: string, from: number, length: number, seed: number): number {
  let value = seed;
  for (let i = from; i < from + length; i += 1) {
    value = Math.imul(value ^ latin1.charCodeAt(i), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 0;
}
