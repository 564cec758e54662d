/** The traffic policies of a Service's ports (behaviour document 5.2). */
import type { Address, Family } from '../net/address.ts';
import type { List } from '../net/list.ts';
import type { PortPolicy, TrafficPolicy } from './paths.ts';
import type { Service } from './types.ts';

/**
 * The policies of ports with a node port (`outside`) and without (`inside`). External IPs make a
 * port externally accessible even if they are not served, as in upstream with
 * AllowServiceExternalIPs off.
 */
export function portPolicies(
  service: Service,
  family: Family,
): Readonly<Record<'inside' | 'outside', PortPolicy>> {
  const internal = service.internalTrafficPolicy;
  const outside = { internal, external: externalPolicy(service) };
  const accessible =
    hasFamily(service.loadBalancerIPs, family) || hasFamily(service.externalIPs, family);
  return { outside, inside: accessible ? outside : { internal, external: undefined } };
}

/** Policy Local applies only to Services whose type (or external IPs) permits it in the API. */
function externalPolicy(service: Service): TrafficPolicy {
  const allowed = service.type !== 'ClusterIP' || service.externalIPs.length > 0;
  return allowed ? service.externalTrafficPolicy : 'Cluster';
}

/** The port at which load balancers check the node's health; 0 = none. */
export function healthCheckNodePort(service: Service): number {
  const asked = service.type === 'LoadBalancer' && externalPolicy(service) === 'Local';
  return asked ? service.healthCheckNodePort : 0;
}

/**
 * The most turns of a port that are counted. Mode nftables takes them in up to 21 chains, of which
 * four addresses have 12; six chains take as much memory as the clients of a port that has none.
 */
const turnsMax = 4;

/**
 * What each of its ports has to remember, with this number of addresses: the clients of all of
 * them, and whose turn it is at each.
 */
export function memoriesOfPort(
  { affinityTimeoutSeconds, balancing }: Service,
  addresses: number,
): number {
  const turns = balancing?.balance === 'round-robin' ? Math.min(addresses, turnsMax) : 0;
  return turns + (affinityTimeoutSeconds > 0 ? 1 : 0);
}

/** How many pools a frontend of the Service may have in the maps of a mode. */
export function poolsOfFrontend(service: Service): 1 | 2 {
  return externalPolicy(service) === 'Local' ? 2 : 1;
}

export function usesCluster(policy: PortPolicy): boolean {
  return policy.internal === 'Cluster' || policy.external !== undefined;
}

export function usesLocal(policy: PortPolicy): boolean {
  return policy.internal === 'Local' || policy.external === 'Local';
}

export function hasFamily(addresses: List<Address>, family: Family): boolean {
  return addresses.some((address) => address.family === family);
}
