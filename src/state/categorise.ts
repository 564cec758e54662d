/** Which endpoints traffic of each policy may reach (behaviour document 5.3). */
import { EndpointList, endpointBytes } from '../net/endpoint-list.ts';
import { type Candidates, EndpointFlag } from './candidates.ts';
import { type PortPolicy, usesCluster, usesLocal } from './policy.ts';
import { topologyFlag, topologyMode } from './topology.ts';
import type { Forwarding } from './types.ts';

export interface Pools extends Pick<Forwarding, 'cluster' | 'local' | 'hairpin' | 'serving'> {
  /** Some endpoint somewhere could take traffic, if only a policy allowed it. */
  readonly hasAny: boolean;
}

type Predicate = (flags: number) => boolean;

const none: Predicate = () => false;

/** Where nothing is ready, what terminates but still serves is better than nothing (KEP-1669). */
const servesTerminating: Predicate = (flags) => (flags & servingTerminating) === servingTerminating;
const servingTerminating = EndpointFlag.serving | EndpointFlag.terminating;
const readyLocal = EndpointFlag.ready | EndpointFlag.local;

export function categorise({ endpoints, flags }: Candidates, policy: PortPolicy): Pools {
  const inCluster = usesCluster(policy) ? clusterPredicate(flags) : none;
  const inLocal = usesLocal(policy) ? localPredicate(flags) : none;
  const isHairpin: Predicate = (flag) =>
    (flag & EndpointFlag.local) !== 0 && (inCluster(flag) || inLocal(flag));
  const local = select(endpoints, flags, inLocal);
  const hairpin = select(endpoints, flags, isHairpin);
  return {
    cluster: select(endpoints, flags, inCluster),
    local,
    // Local endpoints are all hairpin ones: the same number means the same list.
    hairpin: hairpin.length === local.length ? local : hairpin,
    serving: select(endpoints, flags, (flag) => (flag & EndpointFlag.serving) !== 0),
    hasAny: flags.some((flag) => (flag & EndpointFlag.ready) !== 0 || servesTerminating(flag)),
  };
}

function clusterPredicate(flags: Uint8Array): Predicate {
  const asked = EndpointFlag.ready | topologyFlag[topologyMode(flags)];
  // A topology mode is chosen only when a ready endpoint fits it, so this means: none is ready.
  return fallback(flags, (flag) => (flag & asked) === asked, servesTerminating);
}

/** Topology never applies to policy Local: a local endpoint hinted for another zone counts. */
function localPredicate(flags: Uint8Array): Predicate {
  return fallback(
    flags,
    (flag) => (flag & readyLocal) === readyLocal,
    (flag) => (flag & EndpointFlag.local) !== 0 && servesTerminating(flag),
  );
}

function fallback(flags: Uint8Array, first: Predicate, second: Predicate): Predicate {
  return flags.some(first) ? first : second;
}

/** Shares `endpoints` itself when all of it is chosen: the usual case, and half of the memory. */
function select(endpoints: EndpointList, flags: Uint8Array, chosen: Predicate): EndpointList {
  let count = 0;
  for (const flag of flags) if (chosen(flag)) count += 1;
  if (count === flags.length) return endpoints;
  if (count === 0) return EndpointList.empty[endpoints.family];
  const stride = endpointBytes[endpoints.family];
  const bytes = new Uint8Array(count * stride);
  let at = 0;
  for (let i = 0; i < flags.length; i += 1) {
    if (!chosen(flags[i]!)) continue;
    for (let b = i * stride; b < (i + 1) * stride; b += 1, at += 1) bytes[at] = endpoints.bytes[b]!;
  }
  return new EndpointList(endpoints.family, bytes);
}
