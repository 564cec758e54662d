/**
 * The endpoints of one ServicePort in one family, collected from all its EndpointSlices, sorted and
 * without duplicates. Upstream sorts by the text of address and port (edge case E15), this code by
 * packed bytes: any stable order will do.
 */
import { addressBytes, type CIDR, cidrContains, type Family } from '../net/address.ts';
import {
  type EndpointKey,
  EndpointList,
  endpointBytes,
  endpointKey,
} from '../net/endpoint-list.ts';
import type { List } from '../net/list.ts';
import {
  type Candidates,
  gatherAgain,
  type Here,
  type Part,
  type Run,
  remember,
  rememberedMin,
  takes,
} from './gathered.ts';
import {
  addressAt,
  Condition,
  type EndpointSlice,
  type Service,
  type ServicePort,
} from './types.ts';

/**
 * Facts about a candidate: the `Condition` bits, and the meaning of its zone hints on this node.
 */
export const EndpointFlag = {
  ...Condition,
  /** hints.forZones is not empty. */
  zoneHinted: 64,
  /** hints.forZones names this node's zone. */
  zoneHintedHere: 128,
  /** It names no node, and its address is one of those of this node's pods. */
  maybeLocal: 256,
  /** It is on this node, which shuts down. */
  leaving: 512,
} as const;

const noRuns: readonly Run[] = [];

/** The number of ports handled in one step. */
export const portsAStep = 256;

/** The number of endpoints handled in one step. Most Services have fewer, and take one step. */
const endpointsAStep = 2048;

/** A port, and the slices that have endpoints of it; undefined: none. */
interface Expected {
  readonly port: ServicePort;
  runs: Run[] | undefined;
}

/** Most Services have one port, which is found faster without a Map. */
const searchedMax = 4;

/** Which slices have endpoints of each port of a Service in one family. */
export class CandidateIndex {
  readonly #family: Family;
  readonly #here: Here;
  readonly #service: Service | undefined;
  #expected: readonly Expected[] = [];
  /** The expected ports by `portKey`, and the runs of each, if there are many. */
  #byKey: Map<string, Expected> | undefined;
  #byPort: Map<ServicePort, Expected> | undefined;

  /** With the Service, what was gathered of it last is used again. */
  constructor(family: Family, here: Here, service?: Service) {
    this.#family = family;
    this.#here = here;
    this.#service = service;
  }

  /**
   * Indexes ports of the slices that are added later: `portsAStep` of them, starting at this one.
   * No two of them have the same name and protocol.
   */
  expect(ports: List<ServicePort>, from: number): void {
    if (ports.length <= searchedMax) {
      this.#expected = ports.map((port) => ({ port, runs: undefined }));
      return;
    }
    this.#byKey ??= new Map();
    this.#byPort ??= new Map();
    const to = Math.min(ports.length, from + portsAStep);
    for (let i = from; i < to; i += 1) {
      const port = ports.at(i)!;
      const expected: Expected = { port, runs: undefined };
      this.#byKey.set(portKey(port), expected);
      this.#byPort.set(port, expected);
    }
  }

  /** Adds `portsAStep` ports of a slice, starting at this one. */
  add(slice: EndpointSlice, from: number): void {
    if (slice.family !== this.#family) return;
    const to = Math.min(slice.ports.length, from + portsAStep);
    for (let i = from; i < to; i += 1) {
      const port = slice.ports.at(i)!;
      const expected = this.#named(port);
      if (expected === undefined) continue;
      const run = { slice, number: port.port, part: undefined };
      // V8 makes room for 17 where a list grows from none, and most have one.
      if (expected.runs === undefined) expected.runs = [run];
      else expected.runs.push(run);
    }
  }

  #named(port: Pick<ServicePort, 'name' | 'protocol'>): Expected | undefined {
    if (this.#byKey !== undefined) return this.#byKey.get(portKey(port));
    for (const expected of this.#expected) {
      const { name, protocol } = expected.port;
      if (name === port.name && protocol === port.protocol) return expected;
    }
    return undefined;
  }

  #runsOf(port: ServicePort): readonly Run[] {
    if (this.#byPort !== undefined) return this.#byPort.get(port)?.runs ?? noRuns;
    for (const { port: one, runs } of this.#expected) if (one === port) return runs ?? noRuns;
    return noRuns;
  }

  /** The number of endpoints in the slices for an expected port, duplicates included. */
  count(port: ServicePort): number {
    return lengthOf(this.#runsOf(port));
  }

  /** Whether a slice of an expected port gives a weight. */
  hasWeights(port: ServicePort): boolean {
    return this.#runsOf(port).some(({ slice }) => slice.weight !== undefined);
  }

  /**
   * The weights of endpoints of an expected port, for those whose slices give one; undefined when
   * none does. An endpoint that several slices name has the greatest weight that one of them gives.
   */
  *weights(port: ServicePort): Generator<undefined, ReadonlyMap<EndpointKey, number> | undefined> {
    if (!this.hasWeights(port)) return undefined;
    const weights = new Map<EndpointKey, number>();
    const packed = new Uint8Array(endpointBytes[this.#family]);
    let taken = 0;
    for (const { slice, number } of this.#runsOf(port)) {
      const { weight } = slice;
      if (weight === undefined) continue;
      taken += slice.length;
      if (taken > endpointsAStep) {
        taken = slice.length;
        yield;
      }
      for (let i = 0; i < slice.length; i += 1) {
        pack(slice, i, number, packed, 0);
        const key = endpointKey(this.#family, packed, 0);
        weights.set(key, Math.max(weight, weights.get(key) ?? 0));
      }
    }
    return weights;
  }

  /**
   * At most `limit` endpoints of an expected port. Those on this node come first, so that policy
   * Local is served where traffic arrives; then the others, in the order of the slices. Default:
   * all, which are remembered by themselves.
   */
  *gather(port: ServicePort, limit?: number): Generator<undefined, Candidates> {
    const all = this.#runsOf(port);
    const count = this.count(port);
    const most = Math.min(count, limit ?? count);
    const runs = most < count ? yield* firstOf(all, most) : all;
    const service = this.#service;
    if (service === undefined || most < rememberedMin) return yield* this.#gatherAll(runs, most);
    const name = `${this.#family} ${portKey(port)} ${limit === undefined ? 'all' : ''}`;
    const from = { here: this.#here, runs };
    const candidates =
      gatherAgain(service, name, from, (...of) => this.#flagsOf(...of)) ??
      (yield* this.#gatherAll(runs, most));
    if (candidates.flags.length === most) remember(service, name, { ...from, candidates });
    return candidates;
  }

  /** `count`: how many endpoints the runs have. */
  *#gatherAll(runs: readonly Run[], count: number): Generator<undefined, Candidates> {
    const isOneStep = 2 * lengthOf(runs) <= endpointsAStep;
    const length = count * endpointBytes[this.#family];
    // Between two steps other Services are resolved: what these share can only serve one step.
    const bytes = isOneStep ? spare(length) : new Uint8Array(length);
    const flags = count === 1 && isOneStep ? flagOfOne : new Uint16Array(count);
    const into: Gathering = { bytes, flags, filled: 0 };
    let taken = 0;
    for (const run of runs) {
      taken += run.slice.length;
      if (taken > endpointsAStep) {
        taken = run.slice.length;
        yield;
      }
      this.#take(run, into);
    }
    if (flags === flagOfOne) return listOf({ bytes, flags: flagsOfOne(flags[0]!) }, this.#family);
    if (isOneStep && isAscending(into, this.#family)) return listOf(into, this.#family);
    return yield* sortUnique(into, this.#family);
  }

  #take({ part, slice, number }: Run, into: Gathering): void {
    const { bytes, flags } = into;
    const left = part && { ...part };
    for (let i = 0; i < slice.length; i += 1) {
      if (left !== undefined && !takes(left, slice.conditions.charCodeAt(i))) continue;
      pack(slice, i, number, bytes, into.filled);
      flags[into.filled] = this.#flagsOf(slice, i);
      into.filled += 1;
    }
  }

  #flagsOf(slice: EndpointSlice, i: number): number {
    const conditions = slice.conditions.charCodeAt(i);
    const isLeaving = this.#here.isLeaving && (conditions & Condition.local) !== 0;
    const ofNode = this.#isMaybeLocal(slice, i) ? EndpointFlag.maybeLocal : 0;
    const ofZone = zoneFlags(slice.zoneHints?.at(i), this.#here.zone);
    return conditions | ofZone | (isLeaving ? EndpointFlag.leaving : ofNode);
  }

  #isMaybeLocal(slice: EndpointSlice, i: number): boolean {
    const { podCIDRs = noCIDRs } = this.#here;
    if (podCIDRs.length === 0 || (slice.places?.[i]?.node ?? '') !== '') return false;
    const address = addressAt(slice, i);
    return podCIDRs.some((cidr) => cidrContains(cidr, address));
  }
}

const noCIDRs: readonly CIDR[] = [];

/** Name and protocol identify a port within a Service and within a slice. */
export function portKey({ name, protocol }: Pick<ServicePort, 'name' | 'protocol'>): string {
  return `${protocol}/${name}`;
}

/** How many endpoints their slices have. */
function lengthOf(runs: readonly Run[]): number {
  let length = 0;
  for (const { slice } of runs) length += slice.length;
  return length;
}

/** The first endpoints of the runs: those on this node, then the others. */
function* firstOf(runs: readonly Run[], limit: number): Generator<undefined, Run[]> {
  const sizes: Part[] = [];
  let walked = 0;
  for (const { slice } of runs) {
    walked += slice.length;
    if (walked > endpointsAStep) {
      walked = slice.length;
      yield;
    }
    sizes.push(wholeOf(slice));
  }
  let left = limit;
  const take = (asked: number): number => {
    const got = Math.min(asked, left);
    left -= got;
    return got;
  };
  const local = sizes.map((size) => take(size.local));
  const others = sizes.map((size) => take(size.others));
  return runs.flatMap((run, i) => {
    const [part, size] = [{ local: local[i]!, others: others[i]! }, sizes[i]!];
    if (part.local + part.others === 0) return [];
    return part.local === size.local && part.others === size.others ? run : { ...run, part };
  });
}

/** By slice: all of its endpoints. */
const wholes = new WeakMap<EndpointSlice, Part>();

function wholeOf(slice: EndpointSlice): Part {
  const known = wholes.get(slice);
  if (known !== undefined) return known;
  const { conditions, length } = slice;
  let local = 0;
  for (let i = 0; i < length; i += 1) {
    if ((conditions.charCodeAt(i) & Condition.local) !== 0) local += 1;
  }
  const whole = { local, others: length - local };
  wholes.set(slice, whole);
  return whole;
}

/** Writes endpoint `index` of a slice to position `at` of a list. */
function pack(
  slice: EndpointSlice,
  index: number,
  number: number,
  packed: Uint8Array,
  at: number,
): void {
  const width = addressBytes[slice.family];
  const to = at * endpointBytes[slice.family];
  const from = index * width;
  for (let b = 0; b < width; b += 1) packed[to + b] = slice.addresses.charCodeAt(from + b);
  packed[to + width] = number >> 8;
  packed[to + width + 1] = number & 0xff;
  // The bytes may have been used before.
  packed[to + width + 2] = 0;
  packed[to + width + 3] = 0;
}

function zoneFlags(hints: readonly string[] | undefined, zone: string): number {
  if (hints === undefined || hints.length === 0) return 0;
  const here = zone !== '' && hints.includes(zone);
  return here ? EndpointFlag.zoneHinted | EndpointFlag.zoneHintedHere : EndpointFlag.zoneHinted;
}

/** Bytes for what is gathered, until a list is made of it. */
const gathered = Buffer.alloc(4096);

/** A buffer of at least this many bytes, until the next call. A large one is not kept. */
function spare(length: number): Uint8Array {
  return length <= gathered.length ? gathered : new Uint8Array(length);
}

/** The flags of the only endpoint of a port, until they are known. */
const flagOfOne = new Uint16Array(1);

/** The flags of one endpoint, by their value: a typed array takes 200 bytes. */
const flagsKnown: Uint16Array[] = [];

function flagsOfOne(flags: number): Uint16Array {
  flagsKnown[flags] ??= Uint16Array.of(flags);
  return flagsKnown[flags];
}

/** Packed endpoints with their flags; more bytes may follow. */
interface Packed {
  readonly bytes: Uint8Array;
  readonly flags: Uint16Array;
}

/** Room for endpoints, of which the first `filled` are valid. */
interface Gathering extends Packed {
  filled: number;
}

/** Lists up to this length are sorted by insertion, which makes no garbage: most are short. */
const insertedMax = 64;

function listOf({ bytes, flags }: Packed, family: Family): Candidates {
  const length = flags.length * endpointBytes[family];
  return { endpoints: EndpointList.from(family, bytes, length), flags };
}

function* sortUnique(packed: Packed, family: Family): Generator<undefined, Candidates> {
  const stride = endpointBytes[family];
  const sorted =
    packed.flags.length <= insertedMax
      ? sortByInsertion(packed, stride)
      : yield* sortByOrder(packed, stride);
  return listOf(yield* withoutRepeats(sorted, stride), family);
}

/** Sorts ascending; of equal endpoints, the one to use first. */
function compare({ bytes, flags }: Packed, a: number, b: number, stride: number): number {
  return comparePacked(bytes, a, b, stride) || preference(flags[b]!) - preference(flags[a]!);
}

const moved = new Uint8Array(Math.max(...Object.values(endpointBytes)));

/** Sorts in place. */
function sortByInsertion(packed: Packed, stride: number): Packed {
  const { bytes, flags } = packed;
  for (let i = 1; i < flags.length; i += 1) {
    let to = i;
    while (to > 0 && compare(packed, to - 1, i, stride) > 0) to -= 1;
    if (to === i) continue;
    const flag = flags[i]!;
    for (let b = 0; b < stride; b += 1) moved[b] = bytes[i * stride + b]!;
    bytes.copyWithin((to + 1) * stride, to * stride, i * stride);
    flags.copyWithin(to + 1, to, i);
    for (let b = 0; b < stride; b += 1) bytes[to * stride + b] = moved[b]!;
    flags[to] = flag;
  }
  return packed;
}

function* sortByOrder(packed: Packed, stride: number): Generator<undefined, Packed> {
  const order = yield* orderOf(packed.flags.length, (a, b) => compare(packed, a, b, stride));
  const bytes = new Uint8Array(order.length * stride);
  const flags = new Uint16Array(order.length);
  for (let to = 0; to < order.length; to += 1) {
    if (to > 0 && to % endpointsAStep === 0) yield;
    const from = order[to]!;
    for (let b = 0; b < stride; b += 1) bytes[to * stride + b] = packed.bytes[from * stride + b]!;
    flags[to] = packed.flags[from]!;
  }
  return { bytes, flags };
}

/** The numbers below `length`, sorted: runs of the length of a step, which are merged. */
function* orderOf(
  length: number,
  comparison: (a: number, b: number) => number,
): Generator<undefined, Uint32Array> {
  let order = new Uint32Array(length);
  for (let i = 0; i < length; i += 1) order[i] = i;
  for (let from = 0; from < length; from += endpointsAStep) {
    if (from > 0) yield;
    order.subarray(from, from + endpointsAStep).sort(comparison);
  }
  for (let width = endpointsAStep; width < length; width *= 2) {
    const merged = new Uint32Array(length);
    for (let to = 0; to < length; ) {
      const [middle, end] = [Math.min(to + width, length), Math.min(to + 2 * width, length)];
      let [a, b] = [to, middle];
      for (; to < end; to += 1) {
        if (to % endpointsAStep === 0) yield;
        const isFirst = b >= end || (a < middle && comparison(order[a]!, order[b]!) <= 0);
        merged[to] = isFirst ? order[a]! : order[b]!;
        if (isFirst) a += 1;
        else b += 1;
      }
    }
    order = merged;
  }
  return order;
}

/** The first of each group of equal endpoints. */
function* withoutRepeats({ bytes, flags }: Packed, stride: number): Generator<undefined, Packed> {
  let count = 1;
  for (let i = 1; i < flags.length; i += 1) {
    if (i % endpointsAStep === 0) yield;
    if (comparePacked(bytes, count - 1, i, stride) === 0) continue;
    bytes.copyWithin(count * stride, i * stride, (i + 1) * stride);
    flags[count] = flags[i]!;
    count += 1;
  }
  return { bytes, flags: count === flags.length ? flags : flags.slice(0, count) };
}

/** Whether they are sorted, and no two are equal, as most are that come in one slice. */
function isAscending({ bytes, flags }: Packed, family: Family): boolean {
  const stride = endpointBytes[family];
  for (let i = 1; i < flags.length; i += 1) {
    if (comparePacked(bytes, i - 1, i, stride) >= 0) return false;
  }
  return true;
}

function comparePacked(packed: Uint8Array, a: number, b: number, stride: number): number {
  const from = a * stride;
  const to = b * stride;
  for (let i = 0; i < stride; i += 1) {
    const difference = packed[from + i]! - packed[to + i]!;
    if (difference !== 0) return difference;
  }
  return 0;
}

/**
 * Which of two endpoints with the same address and port to use (edge cases E16, E17): not
 * terminating before terminating, then ready, then serving. Between equal ones upstream uses the
 * order of slices. Here the remaining bits decide, so that the result does not depend on that
 * order.
 */
function preference(flags: number): number {
  const steady = (flags & EndpointFlag.terminating) === 0 ? 1 << 11 : 0;
  const ready = (flags & EndpointFlag.ready) !== 0 ? 1 << 10 : 0;
  const serving = (flags & EndpointFlag.serving) !== 0 ? 1 << 9 : 0;
  const maybeLocal = (flags & EndpointFlag.maybeLocal) !== 0 ? 1 : 0;
  return steady | ready | serving | ((flags & 0xff) << 1) | maybeLocal;
}
