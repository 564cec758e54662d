/** The sockets that serve a Forwarding. Pure. */
import { IPPROTO } from '../../kernel/nft/constants.ts';
import { Address, type CIDR } from '../../net/address.ts';
import type { AddressRanges } from '../../net/address-ranges.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import { equality, listEquality, sameValue } from '../../net/equality.ts';
import type { Protocol } from '../../net/protocol.ts';
import { slotsOf } from '../../state/deal.ts';
import { sameAddresses, sameCIDR } from '../../state/equal.ts';
import { type ClientKind, isByClient, isRefusal, type Path } from '../../state/paths.ts';
import { type Forwarding, type Frontend, forwardingId } from '../../state/types.ts';
import type { ModeFrontend } from '../changes.ts';
import { binary, destinationKey } from '../elements.ts';
import {
  defaultUserspaceSettings,
  type Environment,
  type LocalDetector,
  type ModeConfig,
} from '../mode.ts';
import { claimKindOf } from '../own-addresses.ts';
import { allowedClients, selfClients } from '../source-ranges.ts';
import type { Remembering } from './memory.ts';

/** The networks that decide the kind of a client. */
interface NodeNetworks {
  readonly hostAddresses: readonly Address[];
  readonly podCIDR: CIDR | undefined;
}

/** One address, protocol and port: a socket that listens, and where its clients go. */
export interface ServedFrontend extends ModeFrontend {
  /** Identifies address, protocol and port; usable as a Map key. */
  readonly id: string;
  readonly address: Address;
  readonly protocol: Protocol;
  /** Host order. */
  readonly port: number;
  /** Slots. Without an endpoint a client gets no answer. */
  readonly pools: Readonly<Record<ClientKind, EndpointList>>;
  /** Undefined = all clients have the same pool. */
  readonly networks: NodeNetworks | undefined;
  /** Endpoints to which existing UDP flows may continue. */
  readonly right: readonly EndpointList[];
  readonly affinity: Remembering;
  /** Clients that may connect; undefined = all. */
  readonly clients: AddressRanges | undefined;
  /** Addresses that may connect, whatever `clients` are. */
  readonly selfClients: readonly Address[];
  readonly udpIdleTimeoutMs: number;
  /** Connections whose endpoint has gone are ended. */
  readonly isEnding: boolean;
  /** How old connections get; undefined: as old as they want. */
  readonly maxAgeMs: number | undefined;
}

/** What is the same for all frontends of a family. */
export interface Setting {
  readonly config: Pick<
    ModeConfig,
    'family' | 'localDetector' | 'localhostNodePorts' | 'userspace'
  >;
  readonly environment: Environment;
}

const localhost = Address.ofIPv4(0x7f_00_00_01);

/** The frontends that sockets listen for. Where none listens, the kernel itself refuses. */
export function servedFrontends(forwarding: Forwarding, setting: Setting): ServedFrontend[] {
  const found = new Map<string, ServedFrontend>();
  for (const frontend of forwarding.frontends) {
    const pools = poolsOf(forwarding, frontend);
    if (pools === undefined) continue;
    const addresses = frontend.address ? [frontend.address] : nodePortAddresses(setting);
    for (const address of addresses) {
      const made = frontendAt(forwarding, { frontend, address, pools }, setting);
      // A Service's own address and port comes before a node port.
      if (!found.has(made.id)) found.set(made.id, made);
    }
  }
  return [...found.values()];
}

export function frontendId(address: Address, protocol: Protocol, port: number): string {
  return binary(destinationKey(address, IPPROTO[protocol], port));
}

function nodePortAddresses({ config, environment }: Setting): readonly Address[] {
  const { nodePortAddresses: addresses } = environment;
  if (addresses === 'all') throw new Error('a socket needs to know the addresses of this node');
  return config.localhostNodePorts ? [...addresses, localhost] : addresses;
}

function frontendAt(
  forwarding: Forwarding,
  at: {
    readonly frontend: Frontend;
    readonly address: Address;
    readonly pools: ServedFrontend['pools'];
  },
  { config, environment }: Setting,
): ServedFrontend {
  const { frontend, address, pools } = at;
  const { protocol } = forwarding.servicePort;
  const { udpIdleTimeoutMs } = config.userspace ?? defaultUserspaceSettings;
  return {
    id: frontendId(address, protocol, frontend.port),
    address,
    protocol,
    port: frontend.port,
    pools,
    networks: isByClient(frontend.paths)
      ? nodeNetworksOf(environment, config.localDetector)
      : undefined,
    right: [forwarding.serving, forwarding.cluster, forwarding.local],
    affinity: affinityOf(forwarding),
    clients: allowedClients(forwarding, frontend),
    selfClients: selfClients(forwarding, frontend),
    udpIdleTimeoutMs,
    isEnding: forwarding.endings?.kept !== undefined,
    maxAgeMs: forwarding.endings?.maxAgeMs,
    claimKind: claimKindOf(frontend, environment),
  };
}

function affinityOf(forwarding: Forwarding): Remembering {
  const { affinityTimeoutSeconds, cluster, family, key, local } = forwarding;
  return {
    id: forwardingId(family, key),
    timeoutSeconds: affinityTimeoutSeconds,
    pools: [cluster, local],
  };
}

/**
 * A socket does not know a client's interface: only a detector with a CIDR recognises pods.
 */
function nodeNetworksOf(
  { hostAddresses = [] }: Environment,
  detector: LocalDetector,
): NodeNetworks {
  return { hostAddresses, podCIDR: detector.kind === 'cidr' ? detector.cidr : undefined };
}

/** The pools of a frontend; undefined = no socket listens for it. */
function poolsOf(
  forwarding: Forwarding,
  { paths: { pod, node, outside } }: Frontend,
): ServedFrontend['pools'] | undefined {
  const { family, servicePort } = forwarding;
  // A socket can drop datagrams. A connection it can only refuse, as the kernel does without it.
  const listens = !isRefusal(pod.to) || (pod.to === 'drop' && servicePort.protocol === 'UDP');
  if (!listens) return undefined;
  const poolOf = ({ to }: Path): EndpointList =>
    isRefusal(to) ? EndpointList.empty[family] : slotsOf(forwarding, to);
  return { node: poolOf(node), pod: poolOf(pod), outside: poolOf(outside) };
}

const sameNetworks = equality<NodeNetworks>({ hostAddresses: sameAddresses, podCIDR: sameCIDR });

/** Whether both are the same, so that the socket need not be updated. */
export const sameFrontend = equality<ServedFrontend>({
  id: 'is',
  // The id says it.
  address: 'ignored',
  protocol: 'ignored',
  port: 'ignored',
  claimKind: 'is',
  pools: equality<ServedFrontend['pools']>({ node: sameValue, pod: sameValue, outside: sameValue }),
  networks: sameNetworks,
  right: listEquality(sameValue<EndpointList>),
  // Its pools are among `right`.
  affinity: equality<Remembering>({ id: 'is', timeoutSeconds: 'is', pools: 'ignored' }),
  clients: sameValue,
  selfClients: sameAddresses,
  udpIdleTimeoutMs: 'is',
  isEnding: 'is',
  maxAgeMs: 'is',
  bytes: 'ignored',
  isShared: 'ignored',
});

/** A socket that takes clients of one frontend. */
export interface Listener {
  readonly frontend: ServedFrontend;
  /** Serves the same address, protocol and port as `next` says. */
  update(next: ServedFrontend): void;
  /** Takes no more clients. */
  close(): void;
}
