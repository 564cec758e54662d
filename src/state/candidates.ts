/**
 * The endpoints of one ServicePort in one family: gathered from all its EndpointSlices, ascending,
 * each once. Upstream sorts by the text of address and port (edge case E15); we sort by packed
 * bytes. The order means nothing but must be stable.
 */
import { addressBytes, type Family } from './address.ts';
import { EndpointList, endpointBytes } from './endpoint-list.ts';
import { Condition, type EndpointSlice, type ServicePort } from './types.ts';

/** What is known about a candidate: the `Condition` bits, and its zone hints seen from here. */
export const EndpointFlag = {
  ...Condition,
  /** hints.forZones is not empty. */
  zoneHinted: 64,
  /** hints.forZones names this node's zone. */
  zoneHintedHere: 128,
} as const;

export interface Candidates {
  /** Ascending by packed bytes, without duplicates. */
  readonly endpoints: EndpointList;
  /** `EndpointFlag` bits of each endpoint. */
  readonly flags: Uint8Array;
}

/** A slice's `number` is the number that it gives to the port asked for, in host order. */
interface Run {
  readonly slice: EndpointSlice;
  readonly number: number;
}

/** `zone` is this node's; empty = none, which no hint names. */
export function gatherCandidates(
  family: Family,
  port: ServicePort,
  slices: readonly EndpointSlice[],
  zone: string,
): Candidates {
  const runs: Run[] = [];
  let count = 0;
  for (const slice of slices) {
    if (slice.family !== family) continue;
    for (const { name, protocol, port: number } of slice.ports) {
      if (name !== port.name || protocol !== port.protocol) continue;
      runs.push({ slice, number });
      count += slice.length;
    }
  }
  const packed = new Uint8Array(count * endpointBytes[family]);
  const flags = new Uint8Array(count);
  let filled = 0;
  for (const run of runs) {
    packRun(run, packed, filled);
    for (let i = 0; i < run.slice.length; i += 1) {
      const zones = zoneFlags(run.slice.zoneHints?.[i], zone);
      flags[filled + i] = run.slice.conditions.charCodeAt(i) | zones;
    }
    filled += run.slice.length;
  }
  return sortUnique(family, packed, flags);
}

function packRun({ slice, number }: Run, packed: Uint8Array, first: number): void {
  const stride = endpointBytes[slice.family];
  const width = addressBytes[slice.family];
  for (let i = 0; i < slice.length; i += 1) {
    const to = (first + i) * stride;
    const from = i * width;
    for (let b = 0; b < width; b += 1) packed[to + b] = slice.addresses.charCodeAt(from + b);
    packed[to + width] = number >> 8;
    packed[to + width + 1] = number & 0xff;
  }
}

function zoneFlags(hints: readonly string[] | undefined, zone: string): number {
  if (hints === undefined || hints.length === 0) return 0;
  const here = zone !== '' && hints.includes(zone);
  return here ? EndpointFlag.zoneHinted | EndpointFlag.zoneHintedHere : EndpointFlag.zoneHinted;
}

function sortUnique(family: Family, packed: Uint8Array, flags: Uint8Array): Candidates {
  const stride = endpointBytes[family];
  if (isAscending(packed, stride)) return { endpoints: new EndpointList(family, packed), flags };

  const order = new Uint32Array(flags.length);
  for (let i = 0; i < order.length; i += 1) order[i] = i;
  order.sort(
    (a, b) => comparePacked(packed, a, b, stride) || preference(flags[b]!) - preference(flags[a]!),
  );
  const sorted = new Uint8Array(packed.length);
  const sortedFlags = new Uint8Array(flags.length);
  let count = 0;
  let last = -1;
  for (const index of order) {
    if (last >= 0 && comparePacked(packed, last, index, stride) === 0) continue;
    last = index;
    for (let b = 0; b < stride; b += 1) sorted[count * stride + b] = packed[index * stride + b]!;
    sortedFlags[count] = flags[index]!;
    count += 1;
  }
  return {
    endpoints: new EndpointList(family, sorted.slice(0, count * stride)),
    flags: sortedFlags.slice(0, count),
  };
}

function isAscending(packed: Uint8Array, stride: number): boolean {
  const count = packed.length / stride;
  for (let i = 1; i < count; i += 1) {
    if (comparePacked(packed, i - 1, i, stride) >= 0) return false;
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
 * Which of two slices' words about one address and port counts (edge cases E16, E17): not
 * terminating before terminating, then ready, then serving. What is left to the order of slices
 * upstream is left to the remaining bits here, so that the result never depends on that order.
 */
function preference(flags: number): number {
  const steady = (flags & EndpointFlag.terminating) === 0 ? 1 << 10 : 0;
  const ready = (flags & EndpointFlag.ready) !== 0 ? 1 << 9 : 0;
  const serving = (flags & EndpointFlag.serving) !== 0 ? 1 << 8 : 0;
  return steady | ready | serving | flags;
}
