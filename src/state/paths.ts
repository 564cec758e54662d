/**
 * What becomes of new connections to a frontend, by the kind of client: the meaning of the traffic
 * policies (behaviour document 5.4, 5.5), from which all modes make their rules.
 */

export type TrafficPolicy = 'Cluster' | 'Local';

/** The traffic policies of a port. */
export interface PortPolicy {
  readonly internal: TrafficPolicy;
  /** Undefined = the port can't be reached from outside the cluster, so no policy is used. */
  readonly external: TrafficPolicy | undefined;
}

/** The kinds of clients, by the local detector or the address. */
export const clientKinds = ['pod', 'node', 'outside'] as const;
export type ClientKind = (typeof clientKinds)[number];

export const poolNames = ['cluster', 'local'] as const;
export type PoolName = (typeof poolNames)[number];

/** `reject`: no endpoint anywhere. `drop`: endpoints exist, but none that the policy allows. */
export type Refusal = 'reject' | 'drop';

/** What becomes of connections of one kind of client. */
export interface Path {
  /** The pool that has the endpoint, or how the client is refused. */
  readonly to: PoolName | Refusal;
  /**
   * Where pods are not masqueraded and clients outside with the same pool are, settings change
   * that: `masqueradeAll` masquerades pods, too; without a local detector no client is masqueraded.
   */
  readonly isMasqueraded: boolean;
}

/** Equal ones are one object. */
export type Paths = Readonly<Record<ClientKind, Path>>;

function path(to: Path['to'], isMasqueraded = false): Path {
  return Object.freeze({ to, isMasqueraded });
}

/** One maker, so that all have one shape: they are read for each frontend of each change. */
function byClient(pod: Path, node: Path, outside: Path): Paths {
  return Object.freeze({ pod, node, outside });
}

function forAll(one: Path): Paths {
  return byClient(one, one, one);
}

function inside(to: PoolName): Paths {
  return byClient(path(to), path(to, true), path(to, true));
}

function localOutside(outside: Path): Paths {
  return byClient(path('cluster'), path('cluster', true), outside);
}

/** All that there are. */
export const allPaths = {
  /** A ClusterIP. */
  inside: inside('cluster'),
  /** A ClusterIP with internalTrafficPolicy Local. */
  insideLocal: inside('local'),
  /** Any other frontend: answers have to come back by this node. */
  outside: forAll(path('cluster', true)),
  /** Any other frontend with externalTrafficPolicy Local. */
  outsideLocal: localOutside(path('local')),
  /** The same without an endpoint of this node: the node and its pods are still served. */
  outsideElsewhere: localOutside(path('drop')),
  reject: forAll(path('reject')),
  drop: forAll(path('drop')),
} as const satisfies Readonly<Record<string, Paths>>;

/** The paths of a port's frontends: its ClusterIPs, `inside`, and all others. */
export interface PortPaths {
  readonly inside: Paths;
  readonly outside: Paths;
}

const refused: PortPaths = { inside: allPaths.reject, outside: allPaths.reject };

/** `hasAny`: the port has an endpoint in a pool. Then only the local one may be empty. */
export function pathsOf(policy: PortPolicy, hasAny: boolean, hasLocal: boolean): PortPaths {
  if (!hasAny) return refused;
  const { drop, inside, insideLocal, outside, outsideElsewhere, outsideLocal } = allPaths;
  return {
    inside: policy.internal === 'Cluster' ? inside : hasLocal ? insideLocal : drop,
    outside: policy.external !== 'Local' ? outside : hasLocal ? outsideLocal : outsideElsewhere,
  };
}

export function isRefusal(to: Path['to']): to is Refusal {
  return to === 'reject' || to === 'drop';
}

/** Whether clients outside have another pool than pods and the node, or none. */
export function isByClient({ pod, outside }: Paths): boolean {
  return pod.to !== outside.to;
}

/** Paths that lead pods to endpoints, in one word. */
export function wayOf(paths: Paths): 'internal' | 'external' | 'external-local' {
  if (isByClient(paths)) return 'external-local';
  return paths.pod.isMasqueraded ? 'external' : 'internal';
}

/** Whether only clients outside get nothing, because no endpoint is on this node. */
export function isElsewhere({ pod, outside }: Paths): boolean {
  return !isRefusal(pod.to) && isRefusal(outside.to);
}

/** Whether clients of any kind get endpoints of the pool. The node has that of pods. */
export function leadsTo({ pod, outside }: Paths, pool: PoolName): boolean {
  return pod.to === pool || outside.to === pool;
}
