/**
 * Session affinity of a Service port: maps that packets fill, and the chains that write and read
 * them. All frontends of the Service port share them, so that a client keeps its endpoint whichever
 * frontend it uses.
 *
 * Each pool has a separate map, which records the last endpoint of the pool for each client: a
 * policy may forbid an endpoint to one frontend and allow it to another.
 */
import type { ChainDefinition } from '../../kernel/nft/chain.ts';
import { NFT_SET } from '../../kernel/nft/constants.ts';
import {
  daddr,
  dnatTo,
  dport,
  goto,
  inSet,
  l4proto,
  matchLocalAddress,
  matchProtocol,
  returnToCaller,
  type Statement,
  saddr,
  setMark,
  updateMap,
} from '../../kernel/nft/rule.ts';
import type { Family } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import {
  isByClient,
  isRefusal,
  type Paths,
  type PoolName,
  poolNames,
  wayOf,
} from '../../state/paths.ts';
import type { Forwarding, Frontend, ServicePortName } from '../../state/types.ts';
import type { ModeConfig } from '../mode.ts';
import type { NamedObject, NamedSet } from '../nft-table/objects.ts';
import { addressType, chain, detectLocal, map } from '../nft-table/parts.ts';
import { markMasqueraded } from './chains.ts';
import { pathOf } from './owner-comment.ts';

/** A map of clients, and the endpoints that it may lead them to. */
export interface Memory {
  readonly set: NamedSet;
  readonly pool: EndpointList;
}

/** Session affinity of one frontend. */
export interface FrontendAffinity {
  /** The maps of the Service port, the same for all its frontends. */
  readonly memories: readonly Memory[];
  /** Marks the packets of clients that are remembered, translates these, and returns others. */
  readonly recall: ChainDefinition;
  /** Remembers which endpoint the client got; preceded by the chains that it needs. */
  readonly learn: readonly ChainDefinition[];
}

/** The objects of a frontend's affinity, in an order in which they can be made. */
export function objectsOfAffinity({ memories, recall, learn }: FrontendAffinity): NamedObject[] {
  return [...memories.map(({ set }) => set), recall, ...learn];
}

const prefixes = { cluster: 'affinity-', local: 'local-affinity-' } as const;

/** The types of a map of clients; undefined = no such map has this name. */
export function affinityTypes(family: Family, name: string) {
  if (memoryNameOf(name) === undefined) return undefined;
  return { key: [addressType(family)], data: endpointTypes(family) } as const;
}

function endpointTypes(family: Family) {
  return [addressType(family), 'inet_service'] as const;
}

/**
 * The Service port and the pool of the map of clients with this name; undefined = it is another
 * map.
 */
export function memoryNameOf(set: string): { servicePort: string; pool: PoolName } | undefined {
  for (const pool of poolNames) {
    const prefix = prefixes[pool];
    if (set.startsWith(prefix)) return { servicePort: set.slice(prefix.length), pool };
  }
  return undefined;
}

/** The most clients that a map holds. It is the kernel's default for size 0. */
export const clientsMax = 0xffff;

/** The map of clients for a pool of the Service port. */
export function memoryName(servicePort: ServicePortName, pool: PoolName): string {
  return `${prefixes[pool]}${pathOf(servicePort)}`;
}

function memoryOf({ family, servicePort, ...pools }: Forwarding, pool: PoolName): Memory {
  const name = memoryName(servicePort, pool);
  const comment = pool === 'local' ? 'client : endpoint of this node' : 'client : endpoint';
  const definition = {
    ...map(name, [addressType(family)], endpointTypes(family), comment),
    flags: NFT_SET.MAP | NFT_SET.EVAL | NFT_SET.TIMEOUT,
  };
  return { set: { definition, elements: undefined }, pool: pools[pool] };
}

/** The session affinity of one Service port. */
export interface PortAffinity {
  readonly memories: Readonly<Partial<Record<PoolName, Memory>>>;
  /** All endpoints of the local pool are in the cluster pool too. */
  readonly localIsCluster: boolean;
}

/** What the frontends of a Forwarding share; undefined = it has no session affinity. */
export function portAffinity(forwarding: Forwarding): PortAffinity | undefined {
  if (forwarding.affinityTimeoutSeconds === 0) return undefined;
  const used = new Set(forwarding.frontends.flatMap(poolsOf));
  const { cluster, local } = forwarding;
  return {
    memories: {
      ...(used.has('cluster') ? { cluster: memoryOf(forwarding, 'cluster') } : {}),
      ...(used.has('local') ? { local: memoryOf(forwarding, 'local') } : {}),
    },
    localIsCluster: used.size === 2 && isWithin(local, cluster),
  };
}

/**
 * Where clients outside have a pool of their own, its map stays while the pool is empty: chains of
 * the same name have the same content.
 */
function poolsOf({ paths }: Frontend): readonly PoolName[] {
  const { to } = paths.pod;
  if (isRefusal(to)) return [];
  return isByClient(paths) ? poolNames : [to];
}

function isWithin(some: EndpointList, all: EndpointList): boolean {
  if (some === all) return true;
  const keys = new Set(Array.from({ length: all.length }, (_, i) => all.key(i)));
  for (let i = 0; i < some.length; i += 1) if (!keys.has(some.key(i))) return false;
  return true;
}

export function frontendAffinity(
  config: ModeConfig,
  forwarding: Forwarding,
  paths: Paths,
  port: PortAffinity,
): FrontendAffinity | undefined {
  const { to } = paths.pod;
  if (isRefusal(to)) return undefined;
  const memories = Object.values(port.memories);
  if (isByClient(paths)) {
    const recall = recallByClient(config, forwarding);
    return { memories, recall, learn: learnByClient(config, forwarding, port) };
  }
  const recall = recallChain(config, forwarding, paths, to);
  return { memories, recall, learn: [learnChain(forwarding, port, to)] };
}

/** `dnat` to the endpoint that the map has for the client. */
function toRemembered({ family, servicePort }: Forwarding, pool: PoolName): Statement[] {
  const name = memoryName(servicePort, pool);
  // nft takes a key without a port only where a rule names the protocol.
  return [matchProtocol(servicePort.protocol), dnatTo(family, [saddr(family)], name)];
}

function recallChain(
  config: ModeConfig,
  forwarding: Forwarding,
  paths: Paths,
  pool: PoolName,
): ChainDefinition {
  const way = pool === 'local' ? `${wayOf(paths)}-local-pool` : wayOf(paths);
  const rules = [...markMasqueraded(config, paths), toRemembered(forwarding, pool)];
  return chain(`recall-${way}-${pathOf(forwarding.servicePort)}`, rules);
}

/** Pods and the node itself have the cluster's endpoints, all others those of this node. */
function recallByClient(config: ModeConfig, forwarding: Forwarding): ChainDefinition {
  const inCluster = toRemembered(forwarding, 'cluster');
  const fromNode = matchLocalAddress('saddr');
  const rules = [
    ...detectLocal(config.localDetector, '==').flatMap((match) => [
      [match, ...inCluster],
      [match, returnToCaller],
    ]),
    [fromNode, setMark(config.masqueradeMark)],
    [fromNode, ...inCluster],
    [fromNode, returnToCaller],
    toRemembered(forwarding, 'local'),
  ];
  return chain(`recall-external-local-${pathOf(forwarding.servicePort)}`, rules);
}

/**
 * The chain for clients that got an endpoint of the pool `from`. It adds the client to the map of
 * each pool that has this endpoint: one of the cluster pool may be in the local pool too.
 */
function learnChain(
  { family, servicePort, affinityTimeoutSeconds }: Forwarding,
  { memories, localIsCluster }: PortAffinity,
  from: PoolName,
): ChainDefinition {
  const remember = ({ set }: Memory): Statement =>
    updateMap(set.definition.name, [saddr(family)], [daddr(family), dport], affinityTimeoutSeconds);
  const { cluster, local } = memories;
  const onThisNode = inSet([daddr(family), daddr(family), l4proto, dport], 'hairpin');
  const path = `${affinityTimeoutSeconds}-${pathOf(servicePort)}`;
  if (from === 'cluster') {
    if (local === undefined) return chain(`learn-${path}`, [[remember(cluster!)]]);
    return chain(`learn-cluster-${path}`, [[remember(cluster!)], [onThisNode, remember(local)]]);
  }
  if (cluster === undefined || !localIsCluster) {
    return chain(`learn-local-${path}`, [[remember(local!)]]);
  }
  return chain(`learn-both-${path}`, [[remember(local!)], [remember(cluster)]]);
}

/** Finds the client's pool by the same rules that picked its endpoint. */
function learnByClient(
  config: ModeConfig,
  forwarding: Forwarding,
  port: PortAffinity,
): ChainDefinition[] {
  const cluster = learnChain(forwarding, port, 'cluster');
  const local = learnChain(forwarding, port, 'local');
  const rules = [
    ...detectLocal(config.localDetector, '==').map((match) => [match, goto(cluster.name)]),
    [matchLocalAddress('saddr'), goto(cluster.name)],
    [goto(local.name)],
  ];
  return [cluster, local, chain(local.name.replace('learn-', 'learn-client-'), rules)];
}
