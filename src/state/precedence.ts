/**
 * The precedence between the possible owners of one address, port and protocol. No other code
 * defines it.
 *
 * kube-proxy has no defined order: it writes rules for every claimant, and the one whose rule or
 * map element is first or was written last gets the packets. Each line therefore states the reason,
 * and the behaviour of kube-proxy. Within the same line, the Service that was created first has
 * precedence, then the first by name. Within a Service, its first port has.
 */
import type { Frontend } from './types.ts';

/** The possible owners of an address and port. */
type Claimant = Frontend['kind'] | 'proxy' | 'healthCheckNodePort';

/** Highest precedence first. */
const order: readonly Claimant[] = [
  // The API server gives a ClusterIP to one Service only. kube-proxy matches it before all other
  // frontends of a Service (behaviour document 5.4).
  'clusterIP',
  // A port on which this process itself answers health checks and metrics: if a Service took it,
  // a Service could make the node look unhealthy. kube-proxy lets it be taken.
  'proxy',
  // The API server gives a node port to one Service only, at all addresses of the node. kube-proxy
  // matches node ports last, so that an external IP of the node hides them.
  'nodePort',
  // The same applies to health-check node ports, where load balancers check the node's health.
  'healthCheckNodePort',
  // A controller writes the address of a load balancer to the status of a Service; writing to it
  // needs a permission of its own. kube-proxy does not distinguish it from an external IP.
  'loadBalancerIP',
  // A user who may create a Service may claim any external IP (CVE-2020-8554).
  'externalIP',
];

const ranks = Object.fromEntries(order.map((claimant, rank) => [claimant, rank])) as Readonly<
  Record<Claimant, number>
>;

/** Negative: `a` has precedence over `b`. */
export function comparePrecedence(a: Claimant, b: Claimant): number {
  return ranks[a] - ranks[b];
}
