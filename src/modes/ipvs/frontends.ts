/** The objects that this mode keeps for a Forwarding. Pure. */
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { drop, type Statement } from '../../kernel/nft/rule.ts';
import type { Address } from '../../net/address.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import { type Balance, slotsOfEach } from '../../state/deal.ts';
import type { PortEndings } from '../../state/endings.ts';
import { isRefusal, type Paths } from '../../state/paths.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import type { ModeFrontend } from '../changes.ts';
import { binary, bytesOf, destinationKey, hairpinKeys } from '../elements.ts';
import type { Environment } from '../mode.ts';
import { sharedContent, type TableObject } from '../nft-table/shared.ts';
import { type Firewall, firewallOf, selfClientKeys } from '../nft-table/source-ranges.ts';
import { boundAddresses, claimKindOf } from '../own-addresses.ts';
import type { SharedObject } from '../shared-objects.ts';
import { type SetName, type SharedSet, sharedElements } from './layout.ts';

/** Sets that hold keys of frontends. Only the frontend itself decides whether they hold its key. */
export const frontendSets = [
  'internal',
  'external',
  'rejected',
  'dropped',
  'dropped-outside',
  'resets',
  // This records that a virtual service is ours, so it is deleted last.
  'services',
] as const satisfies readonly SetName[];
export type FrontendSet = (typeof frontendSets)[number];

/** One address, protocol and port: a virtual service, its real servers, its elements. */
export interface IPVSFrontend extends ModeFrontend {
  /** Identifies the virtual service; usable as a Map key. */
  readonly id: string;
  /** Its key in sets: `address . protocol . port`, each part padded to 4 bytes. */
  readonly key: Uint8Array;
  readonly address: Address;
  readonly protocol: Protocol;
  /** Host order. */
  readonly port: number;
  /** 0 = no persistence. */
  readonly timeoutSeconds: number;
  /** Its real servers. */
  readonly pool: EndpointList;
  /** Their weights; undefined = each has 1. */
  readonly weights: readonly number[] | undefined;
  /** Undefined: the scheduler of the configuration, with or without weights. */
  readonly balance: Balance | undefined;
  readonly sets: readonly FrontendSet[];
  /** The key of its Forwarding. */
  readonly owner: string;
  /** What becomes of connections to real servers that have left the pool; undefined: see there. */
  readonly endings: PortEndings | undefined;
  /** With `keepsFlows`: the real servers that keep their flows. */
  readonly serving: EndpointList;
  /** Who may connect; undefined = all. */
  readonly firewall: Firewall | undefined;
}

/** Approximate bytes that a real server takes in a batch. */
const serverBytes = 64;

/** An address that must be local, so that virtual services at it get packets. */
interface BoundAddress extends SharedObject {
  readonly address: Uint8Array;
}

export type IPVSShared = TableObject<SharedSet> | BoundAddress;

const addressPrefix = 'address ';

export function addressId(bytes: Uint8Array): string {
  return `${addressPrefix}${binary(bytes)}`;
}

/** The address of this id; undefined = the id is of another object. */
export function addressOf(id: string): Uint8Array | undefined {
  return id.startsWith(addressPrefix) ? bytesOf(id.slice(addressPrefix.length)) : undefined;
}

function boundAddress(address: Uint8Array): BoundAddress {
  const bytes = address.length;
  return { id: addressId(address), isShared: true, address, isMadeLast: true, bytes };
}

/** Node ports are one frontend for each address that accepts them: IPVS knows no wildcard. */
export function ipvsFrontends(
  forwarding: Forwarding,
  environment: Environment,
  refuse: Statement = drop,
): IPVSFrontend[] {
  const found = new Map<string, IPVSFrontend>();
  for (const frontend of forwarding.frontends) {
    const addresses = frontend.address ? [frontend.address] : nodePortAddresses(environment);
    for (const address of addresses) {
      const made = frontendAt(forwarding, frontend, address, { environment, refuse });
      // A Service's own address and port comes before a node port.
      if (!found.has(made.id)) found.set(made.id, made);
    }
  }
  return [...found.values()];
}

interface IPVSSetting {
  readonly environment: Environment;
  /** What becomes of clients outside of source ranges. */
  readonly refuse: Statement;
}

function nodePortAddresses({ nodePortAddresses: addresses }: Environment): readonly Address[] {
  if (addresses === 'all') throw new Error('IPVS needs to know the addresses of this node');
  return addresses;
}

function frontendAt(
  forwarding: Forwarding,
  frontend: Frontend,
  address: Address,
  { environment, refuse }: IPVSSetting,
): IPVSFrontend {
  const { protocol } = forwarding.servicePort;
  const key = destinationKey(address, IPPROTO[protocol], frontend.port);
  const { pool, sets } = withResets(ledBy(forwarding, frontend.paths), forwarding);
  return {
    id: binary(key),
    key,
    address,
    protocol,
    port: frontend.port,
    timeoutSeconds: forwarding.affinityTimeoutSeconds,
    pool,
    sets,
    bytes: pool.length * serverBytes + sets.length * key.length,
    weights: weightsOf(forwarding, pool),
    balance: forwarding.deal?.balance === 'random' ? undefined : forwarding.deal?.balance,
    owner: forwarding.key,
    endings: forwarding.endings,
    serving: forwarding.serving,
    firewall: firewallOf(forwarding, frontend, refuse),
    claimKind: claimKindOf(frontend, environment),
  };
}

/** Undefined = all are equal. */
function weightsOf(forwarding: Forwarding, pool: EndpointList): IPVSFrontend['weights'] {
  const { cluster, deal, local } = forwarding;
  if (deal === undefined || pool.length === 0) return undefined;
  const slots = pool === cluster ? deal.cluster : pool === local ? deal.local : pool;
  const weights = slotsOfEach(pool, slots);
  return weights.every((weight) => weight === 1) ? undefined : weights;
}

/**
 * A virtual service has one list of real servers for all clients. With the policy Local these are
 * the local endpoints. Without local endpoints, they are those of the cluster, for pods and the
 * node itself only: a filter keeps other clients out.
 */
function ledBy(forwarding: Forwarding, { pod, outside }: Paths): Led {
  if (isRefusal(pod.to)) {
    const refusing = pod.to === 'reject' ? 'rejected' : 'dropped';
    return { pool: EndpointList.empty[forwarding.family], sets: ['services', refusing] };
  }
  if (isRefusal(outside.to)) {
    return { pool: forwarding[pod.to], sets: ['services', 'dropped-outside'] };
  }
  const pool = forwarding[outside.to];
  if (!outside.isMasqueraded) return { pool, sets: ['services'] };
  return { pool, sets: ['services', pod.isMasqueraded ? 'external' : 'internal'] };
}

type Led = Pick<IPVSFrontend, 'pool' | 'sets'>;

/** Where clients are refused, the connections that are ended are reset nevertheless. */
function withResets(led: Led, { endings }: Forwarding): Led {
  const refuses = led.sets.some((set) => refusing.has(set));
  if (!refuses || endings?.kept === undefined) return led;
  return { ...led, sets: [...led.sets, 'resets'] };
}

const refusing: ReadonlySet<FrontendSet> = new Set(['rejected', 'dropped', 'dropped-outside']);

/** The objects that other Forwardings may need too. */
export function sharedObjects(
  forwarding: Forwarding,
  frontends: readonly IPVSFrontend[],
  environment: Environment,
): IPVSShared[] {
  const shared: IPVSShared[] = [];
  for (const { firewall } of frontends)
    shared.push(...(firewall?.objects ?? []).map(sharedContent));
  for (const key of hairpinKeys(forwarding)) shared.push(sharedElements.of('hairpin', key));
  for (const key of selfClientKeys(forwarding)) shared.push(sharedElements.of('self-clients', key));
  for (const { bytes } of boundAddresses(forwarding, environment)) {
    shared.push(sharedElements.of('vips', bytes), boundAddress(bytes));
  }
  const { healthCheckNodePort: port } = forwarding;
  if (port > 0) {
    const key = Uint8Array.of(IPPROTO.TCP, 0, 0, 0, port >> 8, port & 0xff, 0, 0);
    shared.push(sharedElements.of('health-check-ports', key));
  }
  return shared;
}
