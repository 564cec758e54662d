/**
 * Reasons why a Service has a problem on a node: stable words for programs, in the order in which
 * they are shown and counted. Each has its section of docs/runbook.md, as links name it.
 */
export const reasonSections = {
  /** No EndpointSlice belongs to it. */
  no_slices: 'a-service-is-unreachable',
  /** Its EndpointSlices cannot be used: their addressType is FQDN, or their label is mistyped. */
  unused_slices: 'a-service-is-unreachable',
  /** Its EndpointSlices name no endpoint. */
  no_endpoints: 'a-service-is-unreachable',
  /** It has a ClusterIP of a family, and endpoints of the other family only. */
  other_family: 'a-service-is-unreachable',
  /** It has a ClusterIP of a family that this node does not serve. */
  family_not_served: 'the-node-and-its-node-object-differ',
  /** Its EndpointSlices have no port with the name and protocol of a port of it. */
  port_name: 'a-service-is-unreachable',
  /** A port of it has endpoints, and none is ready. */
  not_ready: 'a-service-is-unreachable',
  /** A traffic policy is Local, and this node has no endpoint that can be used. */
  no_local_endpoints: 'from-outside',
  /** A traffic policy is Local, and endpoints name no node. */
  unknown_node: 'a-service-is-unreachable',
  /** An endpoint is the address of a Service, not of a pod. */
  service_address: 'a-service-is-unreachable',
  /** An endpoint has the address of another pod, by EndpointSlices of which one is out of date. */
  shared_address: 'a-service-is-unreachable',
  /** This node has no route to an endpoint, or one that drops or rejects packets. */
  no_route: 'a-service-is-unreachable',
  /**
   * An endpoint answers no connections from here, as connection tracking, failure detection or
   * serviceMetrics see it.
   */
  endpoint_silent: 'an-endpoint-accepts-nothing',
  /** An endpoint comes and goes again and again. */
  flapping: 'one-endpoint-gets-nothing',
  /** It is of type LoadBalancer, and no load balancer has given it an address. */
  no_load_balancer: 'a-service-is-unreachable',
  /** Another Service, this proxy or a program of the node has an address and port of it. */
  address_taken: 'a-service-is-unreachable',
  /** The range of ports that an annotation asks for is not served. */
  port_range: 'a-service-is-unreachable',
  /** A rule of another program drops, rejects or redirects connections to it. */
  rule_in_the_way: 'another-program-changes-the-rules',
  /** The kernel refuses a port of it. */
  refused_by_kernel: 'the-kernel-refuses-a-service',
  /** Clients exceed the limits that its annotations give, or these are not in force. */
  connection_limits: 'clients-are-refused-by-a-limit',
  /** It exceeds the limits of one Service. */
  over_limit: 'the-kernel-refuses-a-service',
} as const satisfies Readonly<Record<string, string>>;

export type ProblemReason = keyof typeof reasonSections;

export const reasonNames = Object.keys(reasonSections) as readonly ProblemReason[];

/** `no endpoints`: a reason in a table. */
export function reasonWords(reason: ProblemReason): string {
  return reason.replaceAll('_', ' ');
}
