/** Reasons why a Service has a problem on a node: stable words for programs, and their meanings. */
const problemReasons = {
  no_slices: 'No EndpointSlice belongs to it.',
  unused_slices:
    'Its EndpointSlices cannot be used: their addressType is FQDN, or their label is mistyped.',
  no_endpoints: 'Its EndpointSlices name no endpoint.',
  other_family: 'It has a ClusterIP of a family, and endpoints of the other family only.',
  family_not_served: 'It has a ClusterIP of a family that this node does not serve.',
  port_name: 'Its EndpointSlices have no port with the name and protocol of a port of it.',
  not_ready: 'A port of it has endpoints, and none is ready.',
  no_local_endpoints: 'A traffic policy is Local, and this node has no endpoint that can be used.',
  unknown_node: 'A traffic policy is Local, and endpoints name no node.',
  service_address: 'An endpoint is the address of a Service, not of a pod.',
  no_route: 'This node has no route to an endpoint, or one that drops or rejects packets.',
  endpoint_silent:
    'An endpoint answers no connections from this node, as failure detection or serviceMetrics count.',
  no_load_balancer: 'It is of type LoadBalancer, and no load balancer has given it an address.',
  address_taken:
    'Another Service, this proxy or a program of the node has an address and port that it claims.',
  rule_in_the_way: 'A rule of another program drops, rejects or redirects connections to it.',
  refused_by_kernel: 'The kernel refuses a port of it.',
  over_limit: 'It exceeds the limits of one Service.',
} as const satisfies Readonly<Record<string, string>>;

export type ProblemReason = keyof typeof problemReasons;

/** In the order in which they are shown and counted. */
export const reasonNames = Object.keys(problemReasons) as readonly ProblemReason[];

/** The section of docs/runbook.md about each reason, as links name it. */
export const reasonSections = {
  no_slices: 'a-service-is-unreachable',
  unused_slices: 'a-service-is-unreachable',
  no_endpoints: 'a-service-is-unreachable',
  other_family: 'a-service-is-unreachable',
  family_not_served: 'the-node-and-its-node-object-differ',
  port_name: 'a-service-is-unreachable',
  not_ready: 'a-service-is-unreachable',
  no_local_endpoints: 'from-outside',
  unknown_node: 'a-service-is-unreachable',
  service_address: 'a-service-is-unreachable',
  no_route: 'a-service-is-unreachable',
  endpoint_silent: 'an-endpoint-accepts-nothing',
  no_load_balancer: 'a-service-is-unreachable',
  address_taken: 'a-service-is-unreachable',
  rule_in_the_way: 'another-program-changes-the-rules',
  refused_by_kernel: 'the-kernel-refuses-a-service',
  over_limit: 'the-kernel-refuses-a-service',
} as const satisfies Readonly<Record<ProblemReason, string>>;

/** `no endpoints`: a reason in a table. */
export function reasonWords(reason: ProblemReason): string {
  return reason.replaceAll('_', ' ');
}
