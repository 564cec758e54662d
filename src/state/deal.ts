/**
 * The deal of a Service port: how its connections are shared out among the endpoints of a pool. An
 * endpoint has a number of slots, and every data path draws slots. Pure.
 */
import { addCount } from '../net/counts.ts';
import type { EndpointKey, EndpointList } from '../net/endpoint-list.ts';
import { mostEjected } from './detection.ts';
import { hashTableInSteps, sizeFor } from './hash-table.ts';
import { pickedInSteps } from './steps.ts';

/**
 * How a slot is drawn for a new connection:
 * - `random`, `round-robin`: each by itself, or in turn;
 * - `source-hash`, `flow-hash`: by the client's address, or by its address and port;
 * - `maglev`: by the client's address and port, from a table that is the same on all nodes;
 * - `least-connections`: where the fewest are open, as this node sees them.
 */
export const balances = [
  'random',
  'round-robin',
  'source-hash',
  'flow-hash',
  'maglev',
  'least-connections',
] as const;
export type Balance = (typeof balances)[number];

/** The two pools of a Service port. */
interface Pools {
  readonly cluster: EndpointList;
  readonly local: EndpointList;
}

/** What a Service asks for. */
export interface Balancing {
  /** Undefined: it asks for none. */
  readonly balance: Balance | undefined;
  /** How long the share of a new endpoint grows; undefined: it has its share from the beginning. */
  readonly slowStartMs?: number;
}

/** What the mode that runs can do. */
export interface DealingHere {
  /** What cannot do the others: `mode iptables`. */
  readonly name: string;
  readonly balances: ReadonlySet<Balance>;
  /**
   * Balances about which the kernel has not answered yet; `random` stands for weights. Default:
   * none.
   */
  readonly unknown?: ReadonlySet<Balance>;
  /** What the kernel lacks for some of `balances`: `scheduler mh of IPVS (ENOENT)`. Default: nothing. */
  readonly lacks?: ReadonlyMap<Balance, string>;
  /** Tables of `maglev` are used; otherwise endpoints have the slots of their weights. */
  readonly usesTables: boolean;
  /** It serves no ranges of ports. */
  readonly refusesRanges?: true;
}

/**
 * How slots are drawn, and the slots of both pools, each with its endpoint. Only Service ports that
 * ask for a balance, or whose endpoints have different weights, have a deal.
 */
export interface Deal extends Pools {
  /** Undefined: the Service asks for none. */
  readonly asked: Balance | undefined;
  /** What is done: `random` stands for what is done without being asked. */
  readonly balance: Balance;
  /**
   * Why another than `asked` is done: `mode iptables cannot do it`; undefined: it is done, or will
   * be once the kernel has answered that it can.
   */
  readonly because: string | undefined;
  /**
   * Endpoints of each pool without a slot because they do not answer; undefined: none. Deals with
   * the same slots are the same, whatever is here: who had no slot before loses none.
   */
  readonly leftOut?: Readonly<Record<keyof Pools, ReadonlySet<EndpointKey>>> | undefined;
}

/** A number for endpoints of a Forwarding. */
export type OfEndpoints = (
  family: EndpointList['family'],
  forwarding: string,
) => ReadonlyMap<EndpointKey, number> | undefined;

/** The weight of endpoints whose EndpointSlice gives none. It is Cilium's, too. */
const standardWeight = 100;
export const weightMax = 65_535;

interface DealInput {
  readonly asked: Balance | undefined;
  /** Undefined: all have the same. */
  readonly weights: ReadonlyMap<EndpointKey, number> | undefined;
  /** Endpoints whose share still grows, with the part that they have, from 0.1 to 1. */
  readonly starting?: ReadonlyMap<EndpointKey, number> | undefined;
  /** How many connections are open to them, where their slots follow that. */
  readonly open?: ReadonlyMap<EndpointKey, number> | undefined;
  /** Endpoints that did not answer, the longest silent first, with their part of their share. */
  readonly health?: ReadonlyMap<EndpointKey, number> | undefined;
  /** The most endpoints of a pool that get no connections for their health, in percent. */
  readonly maxEjected?: number;
  /** The most slots that a pool may have; at least one for each endpoint it always has. */
  readonly slotsMax: number;
  readonly here: DealingHere | undefined;
  /** False: the Service has too many ports that remember something. */
  readonly canRemember: boolean;
}

/** Whether pools may have more slots than endpoints although all endpoints answer. */
export function asksForSlots(balancing: Balancing | undefined, hasWeights: boolean): boolean {
  const isMany = balancing?.balance === 'maglev' || balancing?.balance === 'least-connections';
  return hasWeights || isMany || balancing?.slowStartMs !== undefined;
}

/** The most slots of a pool of a Service that asks for some. */
export function slotsAsked(balancing: Balancing | undefined, endpoints: number): number {
  if (endpoints < 2) return 0;
  if (balancing?.balance !== 'maglev') return slotsFor(endpoints, Number.POSITIVE_INFINITY);
  return sizeFor(endpoints, Number.POSITIVE_INFINITY);
}

/**
 * Undefined: every endpoint has one slot, and nothing is asked for. In steps, because a table of
 * `maglev` takes long.
 */
export function* dealInSteps(
  { asked, canRemember, here, maxEjected = 0, slotsMax, weights, ...parts }: DealInput,
  pools: Pools,
): Generator<undefined, Deal | undefined> {
  const { health, open, starting } = parts;
  const hasWeights = weights !== undefined || starting !== undefined || health !== undefined;
  if (asked === undefined && !hasWeights) return undefined;
  // An event reports it to the Service: it must not depend on which endpoints answer this node.
  const asksWeights = weights !== undefined || starting !== undefined;
  const because = whyNot(asked, { canRemember, here, hasWeights: asksWeights });
  const isDone = because === undefined && !here?.unknown?.has(asked ?? 'random');
  const balance = isDone ? (asked ?? 'random') : 'random';
  const areIgnored = hasWeights && balance === 'random' && !canWeigh(here);
  const isTable = balance === 'maglev' && (here?.usesTables ?? true);
  const slots = function* (
    list: EndpointList,
    leftOut: Set<EndpointKey>,
  ): Generator<undefined, EndpointList> {
    if (list.length < 2) return list;
    const healthy = areIgnored ? undefined : yield* healthInSteps(list, health, maxEjected);
    const own = areIgnored
      ? yield* weightsInSteps(list, undefined, [])
      : yield* weightsInSteps(list, weights, [starting, healthy]);
    yield* noteLeftOut(list, own, healthy, leftOut);
    if (isTable) return yield* hashTableInSteps(list, own, slotsMax);
    if (open !== undefined && balance === 'least-connections') {
      return yield* spreadInSteps(list, yield* slotsByLoad(list, own, open, slotsMax));
    }
    const isSteady = starting !== undefined || health !== undefined;
    const each = yield* slotCountsInSteps(own, slotsMax, isSteady);
    return yield* spreadInSteps(list, each);
  };
  const [out, localOut] = [new Set<EndpointKey>(), new Set<EndpointKey>()];
  const isOne = pools.local === pools.cluster;
  const cluster = yield* slots(pools.cluster, out);
  const local = isOne ? cluster : yield* slots(pools.local, localOut);
  const isPlain = cluster === pools.cluster && local === pools.local;
  if (asked === undefined && isPlain && !areIgnored) return undefined;
  const isAny = out.size > 0 || localOut.size > 0;
  const leftOut = isAny ? { cluster: out, local: isOne ? out : localOut } : undefined;
  return { asked, balance, because, cluster, local, leftOut };
}

function* noteLeftOut(
  list: EndpointList,
  weights: readonly number[],
  parts: ReadonlyMap<EndpointKey, number> | undefined,
  leftOut: Set<EndpointKey>,
): Generator<undefined, void> {
  if (parts === undefined) return;
  for (let i = 0; i < list.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    const key = list.key(i);
    if (weights[i] === 0 && parts.get(key) === 0) leftOut.add(key);
  }
}

/** Whether weights count without another balance. */
function canWeigh(here: DealingHere | undefined): boolean {
  return !here?.unknown?.has('random') && !here?.lacks?.has('random');
}

function whyNot(
  asked: Balance | undefined,
  {
    canRemember,
    here,
    hasWeights,
  }: Pick<DealInput, 'canRemember' | 'here'> & { readonly hasWeights: boolean },
): string | undefined {
  if (asked === undefined || asked === 'random') {
    const lack = hasWeights ? here?.lacks?.get('random') : undefined;
    return lack && `this kernel lacks ${lack}`;
  }
  if (here !== undefined && !here.balances.has(asked)) return `${here.name} cannot do it`;
  const lack = here?.lacks?.get(asked);
  if (lack !== undefined) return `this kernel lacks ${lack}`;
  if (asked !== 'round-robin' || canRemember) return undefined;
  return 'its Service has too many ports';
}

/** `balance maglev is not done: mode iptables cannot do it; …`; undefined: what is asked is done. */
export function formatFallback({ asked, because }: Deal): string | undefined {
  if (because === undefined) return undefined;
  if (asked === undefined || asked === 'random') {
    return `weights do not count: ${because}; all endpoints get as many connections`;
  }
  return `balance ${asked} is not done: ${because}; connections are shared out as without it`;
}

/** The slots of a pool: those of its deal, or one for each endpoint. */
export function slotsOf(
  port: Pools & { readonly deal?: Deal | undefined },
  pool: keyof Pools,
): EndpointList {
  return (port.deal ?? port)[pool];
}

/** The number of endpoints in one step. */
const endpointsAStep = 1024;

function* weightsInSteps(
  list: EndpointList,
  weights: ReadonlyMap<EndpointKey, number> | undefined,
  parts: readonly (ReadonlyMap<EndpointKey, number> | undefined)[],
): Generator<undefined, number[]> {
  const own: number[] = [];
  for (let i = 0; i < list.length; i += 1) {
    const key = list.key(i);
    let weight = weights?.get(key) ?? standardWeight;
    for (const part of parts) if (part !== undefined) weight *= part.get(key) ?? 1;
    own.push(weight);
    if (own.length % endpointsAStep === 0) yield;
  }
  // Where no endpoint is to get connections, all are.
  return own.some((weight) => weight > 0) ? own : own.fill(1);
}

/** `health`, with at most as many endpoints without connections as `maxEjected` permits. */
function* healthInSteps(
  list: EndpointList,
  health: ReadonlyMap<EndpointKey, number> | undefined,
  maxEjected: number,
): Generator<undefined, ReadonlyMap<EndpointKey, number> | undefined> {
  if (health === undefined) return undefined;
  const present = new Set<EndpointKey>();
  for (let i = 0; i < list.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    const key = list.key(i);
    if (health.has(key)) present.add(key);
  }
  let left = mostEjected(list.length, maxEjected);
  const parts = new Map<EndpointKey, number>();
  for (const [key, part] of health) {
    if (!present.has(key)) continue;
    if (part > 0) parts.set(key, part);
    else if (left > 0) {
      parts.set(key, 0);
      left -= 1;
    }
  }
  return parts;
}

/** The number of slots that a pool of any length may have. */
const slotsAlways = 256;

/**
 * The number of slots of each endpoint: proportional to its weight, and none without one. Weights
 * are exact if their sum, divided by their greatest common divisor, is at most 256, or two for each
 * endpoint if that is more. Otherwise they are rounded to that number of slots, and an endpoint has
 * one at least. `isSteady`: the weights change soon. Then the number of slots does not depend on
 * them, unless all are equal, so that a change moves slots from one endpoint to another, and does
 * nothing else.
 */
export function* slotCountsInSteps(
  weights: readonly number[],
  slotsMax: number,
  isSteady: boolean,
): Generator<undefined, number[]> {
  let [common, sum, sharers, first, areEqual] = [0, 0, 0, 0, true];
  for (let i = 0; i < weights.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    const weight = weights[i]!;
    if (weight === 0) continue;
    if (sharers === 0) first = weight;
    areEqual &&= weight === first;
    common = greatestCommonDivisor(weight, common);
    sum += weight;
    sharers += 1;
  }
  const most = slotsFor(sharers, slotsMax);
  if (sum / common > most || (isSteady && !areEqual)) return yield* apportion(weights, sum, most);
  return weights.map((weight) => weight / common);
}

/** The least part of its share that an endpoint with many connections gets of new ones. */
const partMin = 0.1;
/** How fast loads become even: after scaling from 3 to 6, three times as fast as with 1. */
const steepness = 3;
/** Each endpoint counts as if it had four more: one connection more or less of few means little. */
export const fewConnections = 4;

/** Their number does not depend on connections: fewer have endpoints with more for their weight. */
function* slotsByLoad(
  list: EndpointList,
  weights: readonly number[],
  open: ReadonlyMap<EndpointKey, number>,
  slotsMax: number,
): Generator<undefined, number[]> {
  const heaviest = weights.reduce((a, b) => Math.max(a, b));
  const loads: number[] = [];
  for (let i = 0; i < list.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    const count = (open.get(list.key(i)) ?? 0) * heaviest;
    // One with the weight 0 gets nothing, and is the least for no other.
    loads.push((weights[i] ? count / weights[i]! : Number.POSITIVE_INFINITY) + fewConnections);
  }
  const least = loads.reduce((a, b) => Math.min(a, b));
  const own = weights.map((one, i) => one * Math.max(partMin, (least / loads[i]!) ** steepness));
  const [sum, sharers] = [own.reduce((a, b) => a + b), own.filter((one) => one > 0).length];
  return yield* apportion(own, sum, slotsFor(sharers, slotsMax));
}

/** The most slots of a pool; `sharers`: the number of endpoints that get connections. */
function slotsFor(sharers: number, slotsMax: number): number {
  return Math.max(sharers, Math.min(slotsMax, Math.max(slotsAlways, 2 * sharers)));
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b);
}

/** Every endpoint with a weight has one slot; the largest remainders get the rest. */
function* apportion(
  weights: readonly number[],
  sum: number,
  slots: number,
): Generator<undefined, number[]> {
  const counts: number[] = [];
  let left = slots;
  for (const weight of weights) {
    if (counts.length % endpointsAStep === 0) yield;
    const count = weight === 0 ? 0 : Math.max(1, Math.floor((weight * slots) / sum));
    counts.push(count);
    left -= count;
  }
  const order = yield* largestFirst(weights, (i) => (weights[i]! * slots) / sum - counts[i]!);
  for (let at = 0; left > 0; at = (at + 1) % order.length, left -= 1) counts[order[at]!]! += 1;
  yield;
  // Small weights that were rounded up to one slot take it from those that have the most over.
  for (let at = order.length - 1; left < 0 && at >= 0; at -= 1) {
    const i = order[at]!;
    const given = Math.min(-left, counts[i]! - 1);
    counts[i]! -= given;
    left += given;
  }
  return counts;
}

/**
 * The indexes of those with a weight, by what they are owed, which is more than -1 slot and less
 * than one; the largest first. A sort of numbers needs no function.
 */
function* largestFirst(
  weights: readonly number[],
  owedTo: (index: number) => number,
): Generator<undefined, Uint32Array> {
  const scale = scaleFor(weights.length);
  const places = new Float64Array(weights.length);
  let count = 0;
  for (let i = 0; i < weights.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    if (weights[i]! === 0) continue;
    places[count] = Math.floor((2 - owedTo(i)) * 2 ** 32) * scale + i;
    count += 1;
  }
  const sorted = places.subarray(0, count).sort();
  yield;
  const order = new Uint32Array(count);
  for (let at = 0; at < count; at += 1) order[at] = sorted[at]! % scale;
  return order;
}

function scaleFor(length: number): number {
  return 2 ** Math.ceil(Math.log2(length));
}

/** The slots, those of each endpoint evenly apart. `list` itself when each has one. */
export function* spreadInSteps(
  list: EndpointList,
  counts: readonly number[],
): Generator<undefined, EndpointList> {
  if (counts.every((count) => count === 1)) return list;
  const total = counts.reduce((sum, count) => sum + count, 0);
  yield;
  // Two fractions k/c differ by more than 2^-34, and a sort of numbers needs no function.
  const scale = scaleFor(counts.length);
  const order = new Float64Array(total);
  let filled = 0;
  for (let index = 0; index < counts.length; index += 1) {
    if (index % endpointsAStep === 0) yield;
    const count = counts[index]!;
    for (let k = 0; k < count; k += 1) {
      order[filled] = Math.floor(((k + 0.5) / count) * 2 ** 34) * scale + index;
      filled += 1;
    }
  }
  yield;
  order.sort();
  return yield* pickedInSteps(list, total, (slot) => order[slot]! % scale);
}

/** How many slots each endpoint of `pool` has. */
export function slotsOfEach(pool: EndpointList, slots: EndpointList): number[] {
  if (pool === slots) return Array.from({ length: pool.length }, () => 1);
  const counts = slotCounts(slots);
  return Array.from({ length: pool.length }, (_, i) => counts.get(pool.key(i)) ?? 0);
}

/** How many of the slots each endpoint has. */
export function slotCounts(slots: EndpointList): Map<EndpointKey, number> {
  const counts = new Map<EndpointKey, number>();
  for (let i = 0; i < slots.length; i += 1) addCount(counts, slots.key(i));
  return counts;
}
