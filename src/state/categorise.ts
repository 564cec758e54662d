/** Which endpoints traffic of each policy may reach (behaviour document 5.3). */
import { EndpointList } from '../net/endpoint-list.ts';
import { EndpointFlag } from './candidates.ts';
import type { Candidates } from './gathered.ts';
import type { PortPolicy } from './paths.ts';
import { usesCluster, usesLocal } from './policy.ts';
import { type TopologyMode, topologyFlag, topologyMode } from './topology.ts';
import type { Forwarding } from './types.ts';

export interface Pools
  extends Pick<Forwarding, 'cluster' | 'local' | 'hairpin' | 'maybeLocal' | 'serving'> {
  /** An endpoint could take traffic, whether or not a policy permits it. */
  readonly hasAny: boolean;
}

type Predicate = (flags: number) => boolean;
type Flags = Uint16Array | readonly number[];

/** Which endpoints are used. */
interface Choice {
  readonly takes: Predicate;
  /** `serving`: none is ready, so terminating endpoints that still serve are used (KEP-1669). */
  readonly standard: 'ready' | 'serving';
  readonly topology: TopologyMode;
}

/** The choice of each pool; undefined = no policy uses the pool. */
export interface Choices {
  readonly cluster: Choice | undefined;
  readonly local: Choice | undefined;
}

const none: Predicate = () => false;

const servesTerminating: Predicate = (flags) => (flags & servingTerminating) === servingTerminating;
const servingTerminating = EndpointFlag.serving | EndpointFlag.terminating;
const readyLocal = EndpointFlag.ready | EndpointFlag.local;
const isReady: Predicate = (flags) => (flags & EndpointFlag.ready) !== 0;
const leaves: Predicate = (flags) => (flags & EndpointFlag.leaving) !== 0;
const stays: Predicate = (flags) => !leaves(flags);

/** `flags`: those of all endpoints, or each value of these once. */
export function choose(flags: Flags, policy: PortPolicy): Choices {
  return {
    cluster: usesCluster(policy) ? clusterChoice(flags) : undefined,
    local: usesLocal(policy) ? localChoice(flags) : undefined,
  };
}

export function categorise({ endpoints, flags }: Candidates, policy: PortPolicy): Pools {
  const kinds = kindsOf(flags);
  const choices = choose(kinds, policy);
  const inCluster = choices.cluster?.takes ?? none;
  const inLocal = choices.local?.takes ?? none;
  const isHairpin: Predicate = (flag) =>
    (flag & EndpointFlag.local) !== 0 && (inCluster(flag) || inLocal(flag));
  const isMaybeLocal: Predicate = (flag) =>
    (flag & EndpointFlag.maybeLocal) !== 0 && inCluster(flag);
  let made: Map<string, EndpointList> | undefined;
  const select = (chosen: Predicate): EndpointList => {
    if (!isAny(kinds, chosen)) return EndpointList.empty[endpoints.family];
    const taken = kinds.filter(chosen);
    if (taken.length === kinds.length) return endpoints;
    made ??= new Map();
    const name = taken.join();
    const list = made.get(name) ?? selected(endpoints, flags, taken);
    made.set(name, list);
    return list;
  };
  return {
    cluster: select(inCluster),
    local: select(inLocal),
    hairpin: select(isHairpin),
    maybeLocal: isAny(kinds, isMaybeLocal) ? select(isMaybeLocal) : undefined,
    serving: select((flag) => (flag & EndpointFlag.serving) !== 0),
    hasAny: isAny(kinds, (flag) => isReady(flag) || servesTerminating(flag)),
  };
}

function clusterChoice(flags: Flags): Choice {
  const staying = isAny(flags, leaves) ? flags.filter(stays) : flags;
  if (staying !== flags && isAny(staying, isReady)) {
    const others = clusterChoice(staying);
    return { ...others, takes: (flag) => stays(flag) && others.takes(flag) };
  }
  const topology = topologyMode(flags);
  const asked = EndpointFlag.ready | topologyFlag[topology];
  // A topology mode is used only if a ready endpoint matches it: so none is ready here.
  return fallback(flags, topology, (flag) => (flag & asked) === asked, servesTerminating);
}

/** Topology never applies to policy Local: a local endpoint hinted for another zone counts. */
function localChoice(flags: Flags): Choice {
  return fallback(
    flags,
    'none',
    (flag) => (flag & readyLocal) === readyLocal,
    (flag) => (flag & EndpointFlag.local) !== 0 && servesTerminating(flag),
  );
}

/** If no endpoint is ready, terminating ones that still serve are used. */
function fallback(
  flags: Flags,
  topology: TopologyMode,
  first: Predicate,
  second: Predicate,
): Choice {
  return isAny(flags, first)
    ? { takes: first, standard: 'ready', topology }
    : { takes: second, standard: 'serving', topology };
}

/**
 * Why this pool does not use an endpoint with these flags; undefined = it does. `isNodeless`: its
 * EndpointSlice does not name a node.
 */
export function whyNot(
  flag: number,
  choice: Choice,
  pool: keyof Choices,
  isNodeless: boolean,
): string | undefined {
  if (choice.takes(flag)) return undefined;
  if (pool === 'cluster' && leaves(flag)) return 'is on this node, which shuts down';
  if (pool === 'local' && (flag & EndpointFlag.local) === 0) {
    return isNodeless ? 'is on an unknown node: it has no nodeName' : 'is on another node';
  }
  const isTerminating = (flag & EndpointFlag.terminating) !== 0;
  if ((flag & EndpointFlag.ready) === 0) {
    if (!isTerminating) return 'is not ready';
    return choice.standard === 'ready' ? 'terminates' : 'terminates and serves no more';
  }
  return choice.topology === 'SameNode' ? 'is hinted for other nodes' : 'is hinted for other zones';
}

/** Most lists are so short that `some` would take longer to begin. */
function isAny(flags: Flags, chosen: Predicate): boolean {
  for (let i = 0; i < flags.length; i += 1) if (chosen(flags[i]!)) return true;
  return false;
}

const kindsMax = 2 * EndpointFlag.leaving;
/** 1 for kinds of one list, while that is read. */
const marks = new Uint8Array(kindsMax);

/** Each value of the flags once: whatever they decide is decided for each value. */
function kindsOf(flags: Uint16Array): readonly number[] {
  const kinds: number[] = [];
  for (let i = 0; i < flags.length; i += 1) {
    const flag = flags[i]!;
    if (marks[flag] === 1) continue;
    marks[flag] = 1;
    kinds.push(flag);
  }
  for (const kind of kinds) marks[kind] = 0;
  return kinds;
}

/** Those of these kinds. Most follow one another, and are taken together. */
function selected(
  endpoints: EndpointList,
  flags: Uint16Array,
  kinds: readonly number[],
): EndpointList {
  const runs: string[] = [];
  for (const kind of kinds) marks[kind] = 1;
  for (let from = 0; from < flags.length; from += 1) {
    const first = from;
    while (from < flags.length && marks[flags[from]!] === 1) from += 1;
    if (from > first) runs.push(endpoints.run(first, from - first));
  }
  for (const kind of kinds) marks[kind] = 0;
  return EndpointList.ofRuns(endpoints.family, runs);
}
