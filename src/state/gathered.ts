/**
 * The candidates of ports with many endpoints, as they were gathered last: when a slice changes,
 * only its endpoints are gathered again.
 */
import type { CIDR } from '../net/address.ts';
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { Condition, type EndpointSlice, latin1At, type Service } from './types.ts';

export interface Candidates {
  /** Ascending by packed bytes, without duplicates. */
  readonly endpoints: EndpointList;
  /** `EndpointFlag` bits of each endpoint. */
  readonly flags: Uint16Array;
}

export function sameCandidates(a: Candidates, b: Candidates): boolean {
  return a.endpoints.equals(b.endpoints) && a.flags.every((flags, i) => flags === b.flags[i]);
}

/** How many endpoints: on this node, and others. */
export interface Part {
  local: number;
  others: number;
}

/** Endpoints of one slice, with the number that the slice gives to the port, in host order. */
export interface Run {
  readonly slice: EndpointSlice;
  readonly number: number;
  /** The first ones that are taken; undefined: all are. */
  readonly part: Readonly<Part> | undefined;
}

/** Whether an endpoint with these `Condition` bits is among those `left`, which it then leaves. */
export function takes(left: Part, conditions: number): boolean {
  const where = (conditions & Condition.local) === 0 ? 'others' : 'local';
  left[where] -= 1;
  return left[where] >= 0;
}

/** What endpoints are compared with. */
export interface Here {
  /** This node's zone; empty = none. No hint contains the empty zone. */
  readonly zone: string;
  /** Where pods of this node are, as far as is known; default: nothing is. */
  readonly podCIDRs?: readonly CIDR[];
  /** This node shuts down, and others are to get its new connections; default: no. */
  readonly isLeaving?: boolean;
}

/** Ports with fewer endpoints are gathered again as a whole. */
export const rememberedMin = 256;
/**
 * Ports of a Service that are remembered, if each has the same endpoints: what that takes grows
 * with what the slices name, and not with the number of ports.
 */
const rememberedPorts = 4;
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
  const { length } = gathered.candidates.flags;
  let count = length;
  for (const { candidates } of ports.values()) count += candidates.flags.length;
  if (count <= rememberedPorts * length) ports.set(port, gathered);
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
  const [had, has] = [bySlice(last.runs), bySlice(runs)];
  // A slice may have two ports of one name.
  if (had.size < last.runs.length || has.size < runs.length) return undefined;
  const gone = without(last.runs, has);
  const come = without(runs, had);
  const length = lengthOf(come);
  if (lengthOf(gone) + length > changedMax) return undefined;
  const added = endpointsOf(come, flagsOf);
  return added.size < length
    ? undefined
    : changed(last.candidates, endpointsOf(gone, flagsOf), added);
}

function bySlice(runs: readonly Run[]): ReadonlyMap<EndpointSlice, Run> {
  return new Map(runs.map((run) => [run.slice, run]));
}

/** Those of which the same part is not among `others`. */
function without(runs: readonly Run[], others: ReturnType<typeof bySlice>): readonly Run[] {
  return runs.filter(({ part, slice }) => {
    const other = others.get(slice);
    if (other === undefined) return true;
    return part?.local !== other.part?.local || part?.others !== other.part?.others;
  });
}

function lengthOf(runs: readonly Run[]): number {
  return runs.reduce((sum, { part, slice }) => {
    return sum + (part === undefined ? slice.length : part.local + part.others);
  }, 0);
}

function endpointsOf(
  runs: readonly Run[],
  flagsOf: (slice: EndpointSlice, index: number) => number,
): FlagsByEndpoint {
  const found = new Map<string, number>();
  for (const { number, part, slice } of runs) {
    const port = String.fromCharCode(number >> 8, number & 0xff, 0, 0);
    const left = part && { ...part };
    for (let i = 0; i < slice.length; i += 1) {
      if (left !== undefined && !takes(left, slice.conditions.charCodeAt(i))) continue;
      found.set(latin1At(slice, i) + port, flagsOf(slice, i));
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
  return { endpoints: EndpointList.ofRuns(family, texts), flags: into };
}
