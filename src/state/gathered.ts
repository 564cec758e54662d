/**
 * The candidates of ports with many endpoints, as they were gathered last: when a slice changes,
 * only its endpoints are gathered again.
 */
import type { CIDR } from '../net/address.ts';
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import type { EndpointSlice, Service } from './types.ts';

export interface Candidates {
  /** Ascending by packed bytes, without duplicates. */
  readonly endpoints: EndpointList;
  /** `EndpointFlag` bits of each endpoint. */
  readonly flags: Uint16Array;
}

/** Endpoints of one slice, with the number that the slice gives to the port, in host order. */
export interface Run {
  readonly slice: EndpointSlice;
  readonly number: number;
}

/** What endpoints are compared with. */
export interface Here {
  /** This node's zone; empty = none. No hint contains the empty zone. */
  readonly zone: string;
  /** Where pods of this node are, as far as is known; default: nothing is. */
  readonly podCIDRs?: readonly CIDR[];
}

/** Ports with fewer endpoints are gathered again as a whole. */
export const rememberedMin = 256;
/**
 * The most endpoints of all ports of a Service that are remembered. Each takes two bytes more, and
 * `endpointBytes` where its pool is in another order.
 */
const rememberedMax = 1 << 18;
/** If more endpoints have changed, all are gathered again, in steps. */
const changedMax = 1024;

interface Gathered {
  readonly here: Here;
  readonly runs: readonly Run[];
  readonly candidates: Candidates;
}

/** The flags of endpoints, by their packed bytes. */
type FlagsByEndpoint = ReadonlyMap<string, number>;

/** By Service, then by family and port. */
const known = new WeakMap<Service, Map<string, Gathered>>();

/** Remembers candidates, of which one run has each endpoint. */
export function remember(service: Service, port: string, gathered: Gathered): void {
  const ports = known.get(service) ?? new Map<string, Gathered>();
  known.set(service, ports);
  ports.delete(port);
  let count = gathered.candidates.flags.length;
  for (const { candidates } of ports.values()) count += candidates.flags.length;
  if (count <= rememberedMax) ports.set(port, gathered);
}

/**
 * The candidates of a port that has these runs now; undefined: they must be gathered. `flagsOf`
 * gives the flags of an endpoint of a slice.
 */
export function gatherAgain(
  service: Service,
  port: string,
  { here, runs }: Omit<Gathered, 'candidates'>,
  flagsOf: (slice: EndpointSlice, index: number) => number,
): Candidates | undefined {
  const last = known.get(service)?.get(port);
  if (last?.here !== here) return undefined;
  const [had, has] = [last.runs, runs].map((some) => new Set(some.map(({ slice }) => slice)));
  const gone = last.runs.filter(({ slice }) => !has!.has(slice));
  const come = runs.filter(({ slice }) => !had!.has(slice));
  const length = lengthOf(come);
  if (lengthOf(gone) + length > changedMax) return undefined;
  const added = endpointsOf(come, flagsOf);
  return added.size < length
    ? undefined
    : changed(last.candidates, endpointsOf(gone, flagsOf), added);
}

function lengthOf(runs: readonly Run[]): number {
  return runs.reduce((sum, { slice }) => sum + slice.length, 0);
}

function endpointsOf(
  runs: readonly Run[],
  flagsOf: (slice: EndpointSlice, index: number) => number,
): FlagsByEndpoint {
  const found = new Map<string, number>();
  for (const { number, slice } of runs) {
    const port = String.fromCharCode(number >> 8, number & 0xff, 0, 0);
    const width = endpointBytes[slice.family] - port.length;
    for (let i = 0; i < slice.length; i += 1) {
      const address = slice.addresses.slice(i * width, (i + 1) * width);
      found.set(address + port, flagsOf(slice, i));
    }
  }
  return found;
}

/** Undefined: another slice has an endpoint that is added, too. */
function changed(
  { endpoints, flags }: Candidates,
  gone: FlagsByEndpoint,
  come: FlagsByEndpoint,
): Candidates | undefined {
  const stride = endpointBytes[endpoints.family];
  const into = new Uint16Array(flags.length - gone.size + come.size);
  const texts: string[] = [];
  let [read, written] = [0, 0];
  const copyTo = (end: number): void => {
    texts.push(endpoints.latin1.slice(read * stride, end * stride));
    into.set(flags.subarray(read, end), written);
    written += end - read;
    read = end;
  };
  const all = [...new Set([...gone.keys(), ...come.keys()])];
  for (const one of all.filter((text) => gone.get(text) !== come.get(text)).sort()) {
    copyTo(endpoints.lowerBound(one));
    const isThere = endpoints.latin1.startsWith(one, read * stride);
    if (isThere !== gone.has(one)) return undefined;
    if (isThere) read += 1;
    const flag = come.get(one);
    if (flag === undefined) continue;
    texts.push(one);
    into[written] = flag;
    written += 1;
  }
  copyTo(flags.length);
  const { family } = endpoints;
  return { endpoints: EndpointList.ofLatin1(family, texts.join('')), flags: into };
}
