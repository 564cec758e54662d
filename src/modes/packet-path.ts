/**
 * The path of the first packet of a connection to a frontend, for explanations: what the frontend's
 * paths say of one kind of client, why, and the kernel object that does each step.
 */
import type { TypesOf } from '../kernel/describe-ops.ts';
import type { KernelReader } from '../kernel/kernel.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { familyWord } from '../kernel/nft/words.ts';
import { type Address, type Family, formatAddress, formatCIDR } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { type ClientKind, isByClient, isRefusal, type PoolName } from '../state/paths.ts';
import type { Forwarding, Frontend } from '../state/types.ts';
import type { Environment, LocalDetector, ModeConfig } from './mode.ts';

/** A frontend that a packet is for. */
export interface Destination {
  readonly forwarding: Forwarding;
  readonly frontend: Frontend;
  /** Where the packet is sent: of a node port, an address of the node. */
  readonly address: Address;
  /** The node has the address, so that packets of its own come in through loopback. */
  readonly isOwn: boolean;
}

/** The steps of a mode, in the order in which a packet takes them. */
type PathStep =
  | 'sourceRanges'
  | 'frontend'
  | 'refusal'
  | 'affinity'
  | 'endpoints'
  | 'mark'
  | 'hairpin';

/** The kernel object that does each step, in the words of the tool that lists it. */
export type PathObjects = { readonly [D in PathStep]?: string | undefined };

/** Where a packet ends, and how it is translated. */
export interface PacketPath {
  /** `routed`: without endpoints, no rule refuses it. */
  readonly end: 'endpoint' | 'rejected' | 'dropped' | 'routed';
  /** The pool from which the endpoint is taken, if one is. */
  readonly pool: PoolName;
  readonly isMasqueraded: boolean;
  /** Why it is masqueraded, or is not: follows a colon. */
  readonly because: string;
}

/** A path with the objects of its steps. */
export interface DescribedPath extends PacketPath {
  readonly objects: PathObjects;
}

/** The end of a packet that no frontend takes; undefined: Services do not concern it. */
type UnclaimedPacket =
  | { readonly end: 'rejected' | 'dropped'; readonly object: string }
  | undefined;

/** Describes what a mode does with packets. Asks the kernel nothing, except in `remembered`. */
export interface PathDescriber {
  /**
   * The netfilter hook (NF_INET) at which packets of other clients than the node leave for
   * endpoints. LOCAL_OUT: sockets of this process connect to endpoints, and nothing is translated.
   */
  readonly endpointHook: number;
  describe(config: ModeConfig, to: Destination, client: ClientKind): DescribedPath;
  /** `taken`: the kinds of frontends that Services have at this address, at other ports. */
  unclaimed(
    config: ModeConfig,
    environment: Environment,
    address: Address,
    taken: ReadonlySet<Frontend['kind']>,
  ): UnclaimedPacket;
  /** The types of elements of its sets; only in modes that have sets. */
  readonly typesOf?: TypesOf;
  /** The endpoint that session affinity has for a client; only where the kernel can be asked. */
  remembered?(
    kernel: KernelReader,
    config: ModeConfig,
    forwarding: Forwarding,
    pool: PacketPath['pool'],
    client: Address,
  ): Promise<string | undefined>;
}

/** Why clients are masqueraded, or not, where the pool depends on the client. */
const whyByClient = {
  pod: 'pods reach endpoints of the whole cluster',
  node: 'the node itself reaches endpoints of the whole cluster',
  outside: 'externalTrafficPolicy Local keeps the address of the client',
} as const satisfies Readonly<Record<ClientKind, string>>;

/** What settings make of a frontend's path. A mode that differs from it describes its own. */
export function packetPathOf(
  config: Pick<ModeConfig, 'localDetector' | 'masqueradeAll'>,
  { frontend: { paths } }: Pick<Destination, 'frontend'>,
  client: ClientKind,
): PacketPath {
  const isPod = client === 'pod' && config.localDetector.kind !== 'none';
  const kind = client === 'pod' && !isPod && isByClient(paths) ? 'outside' : client;
  const { to, isMasqueraded } = paths[kind];
  if (isRefusal(to)) {
    const end = to === 'reject' ? 'rejected' : 'dropped';
    return { end, pool: 'cluster', isMasqueraded, because: '' };
  }
  if (isByClient(paths)) {
    return { end: 'endpoint', pool: to, isMasqueraded, because: whyByClient[kind] };
  }
  if (paths.pod.isMasqueraded) {
    const because = 'with policy Cluster, the answer has to come back by this node';
    return { end: 'endpoint', pool: to, isMasqueraded, because };
  }
  return { end: 'endpoint', pool: to, ...masqueradeInside(config, client) };
}

function masqueradeInside(
  { localDetector, masqueradeAll }: Pick<ModeConfig, 'localDetector' | 'masqueradeAll'>,
  client: ClientKind,
): Pick<PacketPath, 'isMasqueraded' | 'because'> {
  if (masqueradeAll) return { isMasqueraded: true, because: 'masqueradeAll is set' };
  if (localDetector.kind === 'none') {
    return { isMasqueraded: false, because: 'no detectLocal setting recognises pods' };
  }
  const pods = describeDetector(localDetector);
  return client === 'pod'
    ? { isMasqueraded: false, because: `the client ${pods}` }
    : { isMasqueraded: true, because: `the client is not one that ${pods}` };
}

/** What makes a client a pod: `is in 10.244.0.0/16`. */
export function describeDetector(detector: Exclude<LocalDetector, { kind: 'none' }>): string {
  switch (detector.kind) {
    case 'cidr':
      return `is in ${formatCIDR(detector.cidr)}`;
    case 'bridge':
      return `comes by interface ${detector.name}`;
    case 'interface-prefix':
      return `comes by an interface ${detector.prefix}*`;
  }
}

/** `10.0.0.1 . tcp . 80`, as nft lists the key of a frontend; of a node port without address. */
export function nftKey(address: Address | undefined, protocol: Protocol, port: number): string {
  const parts = [protocol.toLowerCase(), String(port)];
  if (address !== undefined) parts.unshift(formatAddress(address.bytes));
  return parts.join(' . ');
}

/** `map ip fairlead services`. */
export function nftObject(
  kind: 'chain' | 'map' | 'set',
  family: Family,
  table: string,
  name: string,
): string {
  return `${kind} ${familyWord(NFPROTO[family])} ${table} ${name}`;
}
