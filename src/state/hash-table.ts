/**
 * Tables for consistent hashing, by the algorithm of Maglev ("Maglev: A Fast and Reliable Software
 * Network Load Balancer", section 3.4): each endpoint has a permutation of all slots, which its
 * address and port decide, and in turn takes the first of them that is free. All nodes make the
 * same table of the same endpoints, and few slots change hands when an endpoint comes or goes.
 */
import { type EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { pickedInSteps } from './steps.ts';

/**
 * Sizes of tables: primes, so that every step leads through all slots. The size does not depend on
 * the number of endpoints as long as that is small: another size moves nearly all flows.
 */
const sizes = [7, 13, 31, 61, 127, 251, 509, 1021, 2039, 4093, 16_381, 65_521] as const;
export const standardSize = 4093;
/** The least number of slots for each endpoint, unless a limit does not allow that size. */
const slotsEach = 10;

/** The number of slots for a number of endpoints; 0 if not even one for each is allowed. */
export function sizeFor(endpoints: number, most: number): number {
  const enough = Math.max(standardSize, slotsEach * endpoints);
  const allowed = sizes.filter((size) => size <= most && size >= endpoints);
  return allowed.find((size) => size >= enough) ?? allowed.at(-1) ?? 0;
}

/** The endpoints, or slots, of one step: a few hundredths of a millisecond. */
const itemsAStep = 128;

/**
 * `list` is in ascending order, so that all nodes have the same. Endpoints with a smaller weight
 * take turns less often. `list` itself when `slotsMax` allows no table. In steps: a table of 65,521
 * slots takes tens of milliseconds.
 */
export function* hashTableInSteps(
  list: EndpointList,
  weights: readonly number[],
  slotsMax: number,
): Generator<undefined, EndpointList> {
  const size = sizeFor(list.length, slotsMax);
  if (size === 0) return list;
  const stride = endpointBytes[list.family];
  const next = new Uint32Array(list.length);
  const step = new Uint32Array(list.length);
  for (let i = 0; i < list.length; i += 1) {
    next[i] = hash(list.latin1, i * stride, stride, 0x811c9dc5) % size;
    step[i] = 1 + (hash(list.latin1, i * stride, stride, 0x9747b28c) % (size - 1));
    if (i % itemsAStep === 0) yield;
  }
  const order = yield* turns(weights, size);
  const taken = new Uint8Array(size);
  const slots = new Uint32Array(size);
  for (let turn = 0; turn < size; turn += 1) {
    const i = order[turn]!;
    while (taken[next[i]!] === 1) next[i] = (next[i]! + step[i]!) % size;
    const slot = next[i]!;
    taken[slot] = 1;
    slots[slot] = i;
    if (turn % itemsAStep === 0) yield;
  }
  return yield* pickedInSteps(list, size, (slot) => slots[slot]!);
}

/**
 * The endpoints in the order in which they take slots, at least `size`. There are rounds, and an
 * endpoint has a turn in each round in which the sum of its weights comes to another multiple of
 * the greatest weight. That is not played round by round: with one great weight among thousands,
 * few have a turn in a round.
 */
function* turns(weights: readonly number[], size: number): Generator<undefined, Uint32Array> {
  const most = weights.reduce((a, b) => Math.max(a, b));
  const turnsUntil = (round: number): number =>
    weights.reduce((all, weight) => all + Math.floor((round * weight) / most), 0);
  let [few, rounds] = [0, size];
  while (rounds - few > 1) {
    const middle = (few + rounds) >> 1;
    if (turnsUntil(middle) < size) few = middle;
    else rounds = middle;
    yield;
  }
  /** First the number of turns of each round, then where the next one of the round stands. */
  const at = new Uint32Array(rounds + 2);
  yield* eachTurn(weights, most, rounds, (round) => {
    at[round]! += 1;
  });
  let sum = 0;
  for (let round = 0; round < at.length; round += 1) {
    const count = at[round]!;
    at[round] = sum;
    sum += count;
  }
  const order = new Uint32Array(sum);
  yield* eachTurn(weights, most, rounds, (round, i) => {
    order[at[round]!] = i;
    at[round]! += 1;
  });
  return order;
}

/** Calls `turn` with the round of each turn of endpoint `i`, one endpoint after another. */
function* eachTurn(
  weights: readonly number[],
  most: number,
  rounds: number,
  turn: (round: number, i: number) => void,
): Generator<undefined> {
  for (let i = 0, done = 0; i < weights.length; i += 1) {
    const weight = weights[i]!;
    for (let k = 1; k * most <= rounds * weight; k += 1, done += 1) {
      // The quotient of rounded products may be a little more than `rounds`.
      turn(Math.min(rounds + 1, Math.ceil((k * most) / weight)), i);
      if (done % itemsAStep === 0) yield;
    }
  }
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
