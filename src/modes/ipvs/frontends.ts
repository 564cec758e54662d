/** A Forwarding as what this mode keeps for it. Pure. */
import { IPPROTO } from '../../kernel/nft/constants.ts';
import type { Address } from '../../net/address.ts';
import { EndpointList } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import type { Forwarding, Frontend } from '../../state/types.ts';
import type { ModeFrontend } from '../changes.ts';
import { binary, destinationKey, hairpinKeys } from '../elements.ts';
import type { Environment } from '../mode.ts';
import { boundAddresses, rankAt } from '../own-addresses.ts';
import { type Firewall, firewallOf, selfClientKeys } from '../source-ranges.ts';
import type { SetName } from './layout.ts';

/** Sets whose elements are a frontend's key, and that only its own state decides about. */
export type FrontendSet = Extract<
  SetName,
  'services' | 'internal' | 'external' | 'rejected' | 'dropped' | 'dropped-outside'
>;

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
  readonly sets: readonly FrontendSet[];
  /** Who may connect; undefined = all. */
  readonly firewall: Firewall | undefined;
}

/** An element that several Forwardings may need. */
export interface SharedElement {
  readonly set: 'vips' | 'hairpin' | 'health-check-ports' | 'self-clients';
  readonly key: Uint8Array;
}

/** Node ports are one frontend for each address that accepts them: IPVS knows no wildcard. */
export function ipvsFrontends(forwarding: Forwarding, environment: Environment): IPVSFrontend[] {
  const found = new Map<string, IPVSFrontend>();
  for (const frontend of forwarding.frontends) {
    const addresses = frontend.address ? [frontend.address] : nodePortAddresses(environment);
    for (const address of addresses) {
      const made = frontendAt(forwarding, frontend, address, environment);
      // An address and port of a Service comes before a node port.
      if (!found.has(made.id)) found.set(made.id, made);
    }
  }
  return [...found.values()];
}

function nodePortAddresses({ nodePortAddresses: addresses }: Environment): readonly Address[] {
  if (addresses === 'all') throw new Error('IPVS needs to know the addresses of this node');
  return addresses;
}

function frontendAt(
  forwarding: Forwarding,
  frontend: Frontend,
  address: Address,
  environment: Environment,
): IPVSFrontend {
  const { protocol } = forwarding.servicePort;
  const key = destinationKey(address, IPPROTO[protocol], frontend.port);
  return {
    id: binary(key),
    key,
    address,
    protocol,
    port: frontend.port,
    timeoutSeconds: forwarding.affinityTimeoutSeconds,
    ...treatmentOf(forwarding, frontend),
    firewall: firewallOf(forwarding, frontend),
    rank: frontend.address ? rankAt(environment, address) : 'node port',
  };
}

/**
 * A virtual service has one set of real servers for all clients: with the policy Local those are
 * the local ones. Only when there are none, pods and the node itself get those of the cluster,
 * and a filter keeps all others out.
 */
function treatmentOf(
  { cluster, local, family }: Forwarding,
  { treatment, pool }: Frontend,
): Pick<IPVSFrontend, 'pool' | 'sets'> {
  switch (treatment) {
    case 'internal':
      return { pool: pool === 'local' ? local : cluster, sets: ['services', 'internal'] };
    case 'external':
      return { pool: cluster, sets: ['services', 'external'] };
    case 'external-local':
      return local.length > 0
        ? { pool: local, sets: ['services'] }
        : { pool: cluster, sets: ['services', 'dropped-outside'] };
    case 'reject':
      return { pool: EndpointList.empty[family], sets: ['services', 'rejected'] };
    case 'drop':
      return { pool: EndpointList.empty[family], sets: ['services', 'dropped'] };
  }
}

/** Elements that others may need as well. The key of a `vips` element is the address to bind. */
export function sharedElements(forwarding: Forwarding, environment: Environment): SharedElement[] {
  const elements: SharedElement[] = hairpinKeys(forwarding).map((key) => ({
    set: 'hairpin',
    key,
  }));
  for (const key of selfClientKeys(forwarding)) elements.push({ set: 'self-clients', key });
  for (const { bytes } of boundAddresses(forwarding, environment)) {
    elements.push({ set: 'vips', key: bytes });
  }
  const { healthCheckNodePort: port } = forwarding;
  if (port > 0) {
    const key = Uint8Array.of(IPPROTO.TCP, 0, 0, 0, port >> 8, port & 0xff, 0, 0);
    elements.push({ set: 'health-check-ports', key });
  }
  return elements;
}

export function sharedId({ set, key }: SharedElement): string {
  return `${set} ${binary(key)}`;
}
