/**
 * Who comes first where several parties could answer at one address, port and protocol. This table
 * is the only place that says so.
 *
 * kube-proxy has no order of its own: it writes rules for every claimant, and the one whose rule or
 * map element comes first or was written last gets the packets. Each line therefore gives the
 * reason that the cluster has, and what kube-proxy does. Among equal lines, the Service that was
 * created first comes first, then the first by name. Within a Service, its first port does.
 */
import type { Frontend } from './types.ts';

/** What may answer at an address and port. */
type Claimant = Frontend['kind'] | 'proxy' | 'healthCheckNodePort';

/** The best first. */
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
  // The same holds for health-check node ports, where load balancers ask for the node's health.
  'healthCheckNodePort',
  // A controller writes the address of a load balancer to the status of a Service; writing to it
  // needs a permission of its own. kube-proxy does not distinguish it from an external IP.
  'loadBalancerIP',
  // Anybody who may create a Service may ask for any external IP (CVE-2020-8554).
  'externalIP',
];

const ranks = Object.fromEntries(order.map((claimant, rank) => [claimant, rank])) as Readonly<
  Record<Claimant, number>
>;

/** Negative: `a` comes before `b`. */
export function comparePrecedence(a: Claimant, b: Claimant): number {
  return ranks[a] - ranks[b];
}
