/**
 * From records to Forwardings: every rule of behaviour document section 5, applied once, for all
 * modes. Pure.
 */
import { type Address, type CIDR, cidrContains, type Family, formatCIDR } from './address.ts';
import { gatherCandidates } from './candidates.ts';
import { categorise, type Pools } from './categorise.ts';
import { hasFamily, healthCheckNodePort, type PortPolicy, portPolicy } from './policy.ts';
import type { EndpointSlice, Forwarding, Frontend, Service, ServicePort } from './types.ts';

/** What a Forwarding depends on besides its Service and EndpointSlices. */
export interface ResolveContext {
  /** This node's zone; empty = none. */
  readonly zone: string;
  /** This node's own addresses, which may be in a load balancer's source ranges. */
  readonly nodeAddresses: readonly Address[];
  /** False = spec.externalIPs of Services get no frontends (gate AllowServiceExternalIPs). */
  readonly externalIPsEnabled: boolean;
}

const families = ['IPv4', 'IPv6'] as const satisfies readonly Family[];

/**
 * One Forwarding for each port of the Service in each family that it has a ClusterIP of: IPv4
 * first, ports in the Service's order. `slices` are this Service's, in any order.
 */
export function resolve(
  service: Service,
  slices: readonly EndpointSlice[],
  context: ResolveContext,
): Forwarding[] {
  const forwardings: Forwarding[] = [];
  for (const family of families) {
    if (!hasFamily(service.clusterIPs, family)) continue;
    const shared = sharedByPorts(service, family, context);
    for (const port of service.ports) {
      if (port !== firstOfItsName(service.ports, port)) continue;
      const policy = portPolicy(service, port, family);
      const candidates = gatherCandidates(family, port, slices, context.zone);
      const pools = categorise(candidates, policy);
      // Field by field: what is spread into a record is kept in an object beside it.
      forwardings.push({
        servicePort: {
          namespace: service.namespace,
          name: service.name,
          port: port.name,
          protocol: port.protocol,
        },
        family,
        frontends: frontends(service, port, family, treatments(policy, pools), context),
        cluster: pools.cluster,
        local: pools.local,
        hairpin: pools.hairpin,
        serving: pools.serving,
        affinityTimeoutSeconds: shared.affinityTimeoutSeconds,
        sourceRanges: shared.sourceRanges,
        nodeInSourceRanges: shared.nodeInSourceRanges,
        healthCheckNodePort: shared.healthCheckNodePort,
      });
    }
  }
  return forwardings;
}

/** Name and protocol identify a port: the API refuses a second, hand-written manifests may not. */
function firstOfItsName(ports: readonly ServicePort[], { name, protocol }: ServicePort) {
  return ports.find((port) => port.name === name && port.protocol === protocol);
}

function sharedByPorts(
  service: Service,
  family: Family,
  context: ResolveContext,
): Pick<
  Forwarding,
  'affinityTimeoutSeconds' | 'sourceRanges' | 'nodeInSourceRanges' | 'healthCheckNodePort'
> {
  const sourceRanges = rangesOf(service.loadBalancerSourceRanges, family);
  return {
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    sourceRanges,
    nodeInSourceRanges: context.nodeAddresses.some((address) =>
      sourceRanges.some((range) => cidrContains(range, address)),
    ),
    healthCheckNodePort: healthCheckNodePort(service),
  };
}

/** A range of prefix length 0 allows everyone, so it is as if none were given (5.2). */
function rangesOf(ranges: readonly CIDR[], family: Family): readonly CIDR[] {
  if (ranges.length === 0) return ranges;
  const unique = new Map<string, CIDR>();
  for (const range of ranges) {
    if (range.address.family !== family) continue;
    if (range.prefixLength === 0) return [];
    unique.set(formatCIDR(range), range);
  }
  return [...unique.values()];
}

interface Treatments {
  readonly internal: Pick<Frontend, 'treatment' | 'pool'>;
  readonly external: Pick<Frontend, 'treatment' | 'pool'>;
}

/**
 * Traffic classes (5.4). A pool can only be empty while `hasAny` when its policy is Local. From
 * outside, an empty local pool is no reason for `drop`: this node and its pods still get through.
 */
function treatments(policy: PortPolicy, { hasAny, local }: Pools): Treatments {
  const internalPool = policy.internal === 'Local' ? 'local' : 'cluster';
  const externalPool = policy.external === 'Local' ? 'local' : 'cluster';
  if (!hasAny) {
    return {
      internal: { treatment: 'reject', pool: internalPool },
      external: { treatment: 'reject', pool: externalPool },
    };
  }
  const nothingHere = internalPool === 'local' && local.length === 0;
  return {
    internal: { treatment: nothingHere ? 'drop' : 'internal', pool: internalPool },
    external: {
      treatment: externalPool === 'local' ? 'external-local' : 'external',
      pool: externalPool,
    },
  };
}

/**
 * An address that is given twice is one frontend: the ClusterIP before the load balancer's, that
 * before an external IP. Upstream's iptables mode has the same order, for its first rule wins. Its
 * nftables mode lets the last of ClusterIP, external IP and load-balancer IP overwrite the element,
 * but checks source ranges for a load balancer's address whatever else the address is.
 */
function frontends(
  service: Service,
  port: ServicePort,
  family: Family,
  { internal, external }: Treatments,
  context: ResolveContext,
): Frontend[] {
  const found: Frontend[] = [];
  const add = (
    kind: Frontend['kind'],
    addresses: readonly Address[],
    { treatment, pool }: Pick<Frontend, 'treatment' | 'pool'>,
  ): void => {
    for (const address of addresses) {
      if (address.family !== family) continue;
      if (found.some((other) => sameBytes(other.address, address))) continue;
      found.push({ kind, address, port: port.port, treatment, pool });
    }
  };
  add('clusterIP', service.clusterIPs, internal);
  add('loadBalancerIP', service.loadBalancerIPs, external);
  if (context.externalIPsEnabled) add('externalIP', service.externalIPs, external);
  if (port.nodePort !== 0) {
    const { treatment, pool } = external;
    found.push({ kind: 'nodePort', address: undefined, port: port.nodePort, treatment, pool });
  }
  // Without the room for sixteen more that push makes: there are as many lists as ports.
  return found.slice();
}

function sameBytes(a: Address | undefined, b: Address): boolean {
  return a?.bytes.every((byte, i) => byte === b.bytes[i]) ?? false;
}
