/** What becomes of connections to a frontend: in this form both proxies are compared. */
import {
  addressBits,
  type CIDR,
  type Family,
  formatCIDR,
  formatEndpoint,
} from '../../net/address.ts';
import { rangesOf } from '../../net/address-ranges.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import { cidrsOf } from '../../net/interval.ts';
import type { Protocol } from '../../net/protocol.ts';
import { isByClient, isRefusal, type Path, type PoolName } from '../../state/paths.ts';
import { type Forwarding, type Frontend, formatServicePortName } from '../../state/types.ts';

/** Weights and probabilities are left out, because rules round them. */
export interface Reach {
  /** Endpoints for clients outside of this node: `10.0.0.1:80`. */
  readonly endpoints: ReadonlySet<string>;
  /** Endpoints for this node and its pods; undefined = the same. */
  readonly nearby: ReadonlySet<string> | undefined;
  /** Connections of all clients are masqueraded. */
  readonly masquerade: boolean;
  /** How rules refuse a connection without an endpoint; undefined if no rule refuses it. */
  readonly refusal: 'reject' | 'drop' | undefined;
  /** The timeout of session affinity; 0 without session affinity. */
  readonly affinitySeconds: number;
  /** Blocks, merged and ascending, of the clients that may connect; undefined = all. */
  readonly clients: readonly string[] | undefined;
}

/** Endpoints that a chain chooses from. */
export type Pool = Pick<Reach, 'endpoints' | 'affinitySeconds'>;

const noEndpoints: ReadonlySet<string> = new Set();
export const nowhere: Pool = { endpoints: noEndpoints, affinitySeconds: 0 };

/** What a chain does for clients outside of the cluster. `nearby`: the pool of the node. */
export function fromOutside(everyone: Pool, nearby: Pool | undefined, masquerade: boolean) {
  const { affinitySeconds } = everyone.endpoints.size === 0 ? (nearby ?? everyone) : everyone;
  return { ...everyone, affinitySeconds, nearby: nearby?.endpoints, masquerade };
}

/** `10.96.0.1:80/TCP`, `node port 30080/TCP`: the same text for the rules of both proxies. */
export function frontendText(
  address: Uint8Array | undefined,
  port: number,
  protocol: Protocol,
): string {
  if (address === undefined) return `node port ${port}/${protocol}`;
  return `${formatEndpoint(address, port)}/${protocol}`;
}

/** A frontend as this version of Fairlead would serve it. */
export interface DesiredFrontend {
  readonly forwarding: Forwarding;
  readonly reach: Reach;
}

/** The frontends of one family, by their texts. */
export function desiredFrontends(
  forwardings: Iterable<Forwarding>,
  family: Family,
): Map<string, DesiredFrontend> {
  const desired = new Map<string, DesiredFrontend>();
  for (const forwarding of forwardings) {
    if (forwarding.family !== family) continue;
    const pools = { cluster: setOf(forwarding.cluster), local: setOf(forwarding.local) };
    for (const frontend of forwarding.frontends) {
      const { address, lastPort, port } = frontend;
      // kube-proxy has no ranges of ports.
      if (lastPort !== undefined) continue;
      const text = frontendText(address?.bytes, port, forwarding.servicePort.protocol);
      desired.set(text, { forwarding, reach: reachOf(forwarding, frontend, pools) });
    }
  }
  return desired;
}

type Pools = Readonly<Record<PoolName, ReadonlySet<string>>>;

function reachOf(forwarding: Forwarding, frontend: Frontend, pools: Pools): Reach {
  const { paths } = frontend;
  const { pod, outside } = paths;
  const endpointsOf = ({ to }: Path) => (isRefusal(to) ? noEndpoints : pools[to]);
  return {
    endpoints: endpointsOf(outside),
    nearby: isByClient(paths) ? endpointsOf(pod) : undefined,
    masquerade: pod.isMasqueraded,
    refusal: isRefusal(outside.to) ? outside.to : undefined,
    affinitySeconds: forwarding.affinityTimeoutSeconds,
    clients: clientsOf(forwarding, frontend),
  };
}

/** If the node is in the ranges, the load balancer's addresses may connect, too (5.7). */
function clientsOf(forwarding: Forwarding, { kind }: Frontend): readonly string[] | undefined {
  const { frontends, nodeInSourceRanges, sourceRanges } = forwarding;
  if (kind !== 'loadBalancerIP' || sourceRanges.length === 0) return undefined;
  const itself = frontends.flatMap(({ kind, address }): CIDR[] => {
    if (!nodeInSourceRanges || kind !== 'loadBalancerIP' || address === undefined) return [];
    return [{ address, prefixLength: addressBits(address) }];
  });
  return blocksOf([...sourceRanges, ...itself]);
}

/** The blocks in the form of `Reach.clients`. */
export function blocksOf(cidrs: readonly CIDR[]): readonly string[] {
  return [...rangesOf(cidrs)].flatMap((range) => cidrsOf(range).map(formatCIDR));
}

function setOf(list: EndpointList): ReadonlySet<string> {
  return list.length === 0 ? noEndpoints : new Set(list.texts());
}

/** `ns/name:port`, as kube-proxy names it. */
export function nameOf({ servicePort }: Forwarding): string {
  return formatServicePortName(servicePort);
}

/** What kube-proxy has programmed, as it was read from its rules. */
export interface HeldFrontend {
  readonly reach: Reach;
  /** `ns/name` and the name of the port; undefined when the rules do not name them. */
  readonly owner: { readonly service: string; readonly port: string } | undefined;
}

export interface Programmed {
  readonly mode: 'nftables' | 'iptables';
  readonly family: Family;
  /** By the text of the frontend; undefined if its rules could not be read or changed meantime. */
  readonly frontends: ReadonlyMap<string, HeldFrontend | undefined>;
}
