/** Which endpoints traffic of each policy may reach (behaviour document 5.3). */
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { type Candidates, EndpointFlag } from './candidates.ts';
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

export function choose(flags: Uint16Array, policy: PortPolicy): Choices {
  return {
    cluster: usesCluster(policy) ? clusterChoice(flags) : undefined,
    local: usesLocal(policy) ? localChoice(flags) : undefined,
  };
}

export function categorise({ endpoints, flags }: Candidates, policy: PortPolicy): Pools {
  const choices = choose(flags, policy);
  const inCluster = choices.cluster?.takes ?? none;
  const inLocal = choices.local?.takes ?? none;
  const isHairpin: Predicate = (flag) =>
    (flag & EndpointFlag.local) !== 0 && (inCluster(flag) || inLocal(flag));
  const isMaybeLocal: Predicate = (flag) =>
    (flag & EndpointFlag.maybeLocal) !== 0 && inCluster(flag);
  const local = select(endpoints, flags, inLocal);
  const hairpin = select(endpoints, flags, isHairpin);
  return {
    cluster: select(endpoints, flags, inCluster),
    local,
    // Hairpin endpoints include the local ones, so equal lengths mean equal lists.
    hairpin: hairpin.length === local.length ? local : hairpin,
    maybeLocal: isAny(flags, isMaybeLocal) ? select(endpoints, flags, isMaybeLocal) : undefined,
    serving: select(endpoints, flags, (flag) => (flag & EndpointFlag.serving) !== 0),
    hasAny: isAny(flags, (flag) => (flag & EndpointFlag.ready) !== 0 || servesTerminating(flag)),
  };
}

function clusterChoice(flags: Uint16Array): Choice {
  const topology = topologyMode(flags);
  const asked = EndpointFlag.ready | topologyFlag[topology];
  // A topology mode is used only if a ready endpoint matches it: so none is ready here.
  return fallback(flags, topology, (flag) => (flag & asked) === asked, servesTerminating);
}

/** Topology never applies to policy Local: a local endpoint hinted for another zone counts. */
function localChoice(flags: Uint16Array): Choice {
  return fallback(
    flags,
    'none',
    (flag) => (flag & readyLocal) === readyLocal,
    (flag) => (flag & EndpointFlag.local) !== 0 && servesTerminating(flag),
  );
}

/** If no endpoint is ready, terminating ones that still serve are used. */
function fallback(
  flags: Uint16Array,
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
function isAny(flags: Uint16Array, chosen: Predicate): boolean {
  for (let i = 0; i < flags.length; i += 1) if (chosen(flags[i]!)) return true;
  return false;
}

/** Returns `endpoints` itself if all are chosen, which is the usual case and saves memory. */
function select(endpoints: EndpointList, flags: Uint16Array, chosen: Predicate): EndpointList {
  let count = 0;
  for (let i = 0; i < flags.length; i += 1) if (chosen(flags[i]!)) count += 1;
  if (count === flags.length) return endpoints;
  if (count === 0) return EndpointList.empty[endpoints.family];
  const stride = endpointBytes[endpoints.family];
  const bytes = new Uint8Array(count * stride);
  let at = 0;
  for (let i = 0; i < flags.length; i += 1) {
    if (!chosen(flags[i]!)) continue;
    endpoints.copy(i, bytes, at);
    at += stride;
  }
  return EndpointList.from(endpoints.family, bytes);
}
