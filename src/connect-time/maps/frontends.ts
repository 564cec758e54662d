/** The elements of a Forwarding in the maps, and what is left to the rules. Pure. */

import type { ModeFrontend } from '../../modes/changes.ts';
import { binary } from '../../modes/elements.ts';
import type { ModeConfig } from '../../modes/mode.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { slotsOf } from '../../state/deal.ts';
import { isGuarded } from '../../state/guards.ts';
import { isByClient, isRefusal } from '../../state/paths.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import {
  addressKey,
  frontendKey,
  groupCount,
  groupSize,
  keyBytes,
  poolValue,
  valueBytes,
} from './layout.ts';
import type { Reach, Room } from './placement.ts';
import { type PoolId, poolIdBytes } from './pool-ids.ts';

/** Why a frontend is left to the rules. */
export type Reason =
  | 'protocol'
  | 'port range'
  | 'annotation'
  | 'address of the node'
  | 'balance'
  | 'masquerade all'
  | 'session affinity'
  | 'source ranges'
  | 'no endpoint'
  | 'unknown pods';

/** Settings that apply to all frontends of a family. */
export interface Setting {
  readonly config: Pick<ModeConfig, 'localDetector' | 'masqueradeAll'>;
  readonly reach: Reach;
}

/** Settings from which elements are made. */
export interface ElementSetting extends Setting {
  readonly poolId: PoolId;
}

/** The pool for connections from inside the cluster, or why the rules must choose. */
export function poolOf(
  forwarding: Forwarding,
  frontend: Frontend,
  { config, reach }: Setting,
): 'cluster' | 'local' | Reason {
  if (forwarding.servicePort.protocol !== 'TCP') return 'protocol';
  // At other addresses Services may have ports of the range that the maps do not have.
  if (frontend.lastPort !== undefined && frontend.kind !== 'clusterIP') return 'port range';
  const { endings, rulesOnly } = forwarding;
  // Connections are ended by way of the rules.
  const isEnding = endings?.kept !== undefined || endings?.maxAgeMs !== undefined;
  if (rulesOnly === 'annotation' || isEnding) return 'annotation';
  if (rulesOnly !== false && frontend.kind === 'clusterIP') return rulesOnly;
  // The programs draw slots at random, and know neither a client's port nor the other connections.
  if ((forwarding.deal?.balance ?? 'random') !== 'random') return 'balance';
  if (config.masqueradeAll) return 'masquerade all';
  if (forwarding.affinityTimeoutSeconds > 0) return 'session affinity';
  if (isGuarded(forwarding, frontend)) return 'source ranges';
  const { pod } = frontend.paths;
  if (isRefusal(pod.to)) return 'no endpoint';
  // Without a detector, rules treat all clients as external ones, pods included.
  const isUnknown = reach === 'all' && config.localDetector.kind === 'none';
  return isUnknown && isByClient(frontend.paths) ? 'unknown pods' : pod.to;
}

/** An element of the map of frontends. */
interface FrontendElement extends ModeFrontend {
  readonly kind: 'frontend';
  readonly key: Uint8Array;
  readonly value: Uint8Array;
}

/** The elements of the map of endpoints that belong to one pool. */
export interface PoolElements extends ModeFrontend {
  readonly kind: 'pool';
  readonly pool: Uint8Array;
  readonly endpoints: EndpointList;
}

/** What belongs to one Forwarding alone. */
export type ConnectTimeObject = FrontendElement | PoolElements;

export function frontendId(key: Uint8Array): string {
  return `frontend ${binary(key)}`;
}

export function poolObjectId(pool: string): string {
  return `pool ${pool}`;
}

const groupCost = keyBytes.endpoints + valueBytes.endpoints;
const frontendCost = keyBytes.frontends + valueBytes.frontends;

const noPool = new Uint8Array(poolIdBytes);

/** Frontends come after their pools. */
export function objectsOf(forwarding: Forwarding, setting: ElementSetting): ConnectTimeObject[] {
  const pools = new Map<'cluster' | 'local', PoolElements>();
  const frontends: FrontendElement[] = [];
  for (const frontend of forwarding.frontends) {
    const found = poolOf(forwarding, frontend, setting);
    const { address, lastPort, port } = frontend;
    const key = lastPort === undefined ? frontendKey(address, port) : addressKey(address!);
    if (found === 'cluster' || found === 'local') {
      const pool = pools.get(found) ?? poolElements(forwarding, found, setting.poolId);
      pools.set(found, pool);
      frontends.push(frontendElement(key, poolValue(pool.pool, pool.endpoints.length, frontend)));
    } else if (shadowsOthers(forwarding, frontend)) {
      frontends.push(frontendElement(key, poolValue(noPool, 0)));
    }
  }
  return [...pools.values(), ...frontends];
}

/** The pools that its frontends in the maps lead to. */
function poolsOf(forwarding: Forwarding, setting: Setting): Set<'cluster' | 'local'> {
  const pools = new Set<'cluster' | 'local'>();
  for (const frontend of forwarding.frontends) {
    const found = poolOf(forwarding, frontend, setting);
    if (found === 'cluster' || found === 'local') pools.add(found);
  }
  return pools;
}

/** How much room the maps need for it. */
export function sizeOf(forwarding: Forwarding, setting: Setting): Room {
  const pools = poolsOf(forwarding, setting);
  let frontends = 0;
  for (const frontend of forwarding.frontends) {
    const found = poolOf(forwarding, frontend, setting);
    if (found === 'cluster' || found === 'local') frontends += 1;
    else if (shadowsOthers(forwarding, frontend)) frontends += 1;
  }
  let endpoints = 0;
  for (const pool of pools) endpoints += groupSize * groupCount(slotsOf(forwarding, pool).length);
  return { frontends, endpoints };
}

/**
 * Whether the frontend may have an address of this node and the number of a node port, or is in a
 * range of ports. Then connections belong to the frontend, so programs must not find the node port
 * or the range in its place.
 */
export function shadowsOthers(
  { rulesOnly, servicePort }: Forwarding,
  { isInRange, kind, lastPort }: Frontend,
): boolean {
  if (servicePort.protocol !== 'TCP' || lastPort !== undefined) return false;
  if (kind === 'clusterIP') return rulesOnly === 'address of the node' || isInRange === true;
  return kind === 'externalIP' || kind === 'loadBalancerIP';
}

function frontendElement(key: Uint8Array, value: Uint8Array): FrontendElement {
  return { kind: 'frontend', id: frontendId(key), key, value, bytes: frontendCost };
}

function poolElements(
  forwarding: Forwarding,
  pool: 'cluster' | 'local',
  poolId: PoolId,
): PoolElements {
  const id = poolId(forwarding, pool);
  const endpoints = slotsOf(forwarding, pool);
  return {
    kind: 'pool',
    id: poolObjectId(binary(id)),
    pool: id,
    endpoints,
    bytes: groupCount(endpoints.length) * groupCost,
  };
}
