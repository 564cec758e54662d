/** The Services of this node's proxy: a list, and the details of one. */

import { reasonNames } from './problem-reasons.ts';
import {
  answer,
  count,
  field,
  flag,
  type Infer,
  list,
  maybe,
  number,
  object,
  oneOf,
  text,
  time,
} from './schema.ts';
import { familyName, protocolName } from './status.ts';
import { outcomeFields } from './traffic.ts';

const serviceType = oneOf('ClusterIP', 'NodePort', 'LoadBalancer');

const state = oneOf('in force', 'waiting', 'set aside');
const stateMeaning =
  '`waiting`: a change is not in the kernel yet. `set aside`: the kernel refused it, and it is tried again.';

const reasons = list(oneOf(...reasonNames));

const port = object({
  name: field(text, 'Empty for a port without a name.'),
  protocol: field(protocolName, 'Its protocol.'),
  port: field(count, 'The port of the Service.'),
  nodePort: maybe(count, 'The node port, if it has one.'),
});

const listed = object({
  namespace: field(text, 'Its namespace.'),
  name: field(text, 'Its name.'),
  type: field(serviceType, 'Its type.'),
  clusterIPs: field(list(text), 'Its ClusterIPs.'),
  externalIPs: field(list(text), 'Addresses of load balancers, then external IPs.'),
  ports: field(list(port), 'Its ports; the first hundred.'),
  endpoints: field(count, 'Endpoints that its EndpointSlices name, in all families.'),
  used: field(count, 'Endpoints that connections may reach, for the port that has the fewest.'),
  state: field(state, stateMeaning),
  reasons: field(reasons, 'Why it has problems on this node; empty: it has none.'),
});

export const serviceListSchema = answer('ServiceList', {
  items: field(list(listed), 'The Services, in the order in which they arrived.'),
  continue: maybe(text, 'There is another page: the parameter `continue` to ask for it with.'),
});
export type ServiceList = Infer<typeof serviceListSchema>;

const frontend = object({
  kind: field(oneOf('clusterIP', 'externalIP', 'loadBalancerIP', 'nodePort'), 'What it is.'),
  address: maybe(text, 'Its address. Absent: every address that accepts node ports.'),
  port: field(count, 'Its port.'),
  treatment: field(
    oneOf('internal', 'external', 'external-local', 'reject', 'drop'),
    'Where connections go. `internal`: to `pool`. `external`: to the pool `cluster`, masqueraded. `external-local`: to the pool `local` from outside, to `cluster` from the node or its pods. `reject`: there is no endpoint. `drop`: the policy allows no endpoint.',
  ),
  pool: field(oneOf('cluster', 'local'), 'The pool that the policy chooses.'),
  heldBy: maybe(
    text,
    'The Service, this proxy, the API server or a program of the node: who has the frontend instead.',
  ),
});

const endpoint = object({
  address: field(text, 'Its address.'),
  port: field(count, 'Its port.'),
  ready: field(flag, 'The condition in its EndpointSlice.'),
  serving: field(flag, 'The condition in its EndpointSlice.'),
  terminating: field(flag, 'The condition in its EndpointSlice.'),
  local: field(flag, 'It is on this node.'),
  pod: maybe(text, 'Its pod, if names of pods were asked for.'),
  node: maybe(text, 'Its node.'),
  zone: maybe(text, 'Its zone.'),
  zoneHints: maybe(list(text), 'Zones that hints give it to.'),
  nodeHints: maybe(oneOf('this node', 'other nodes'), 'Nodes that hints give it to.'),
  usedBy: field(list(oneOf('cluster', 'local')), 'The pools that it is in.'),
  shares: maybe(
    list(number),
    'Of each of these pools, the part of new connections that it gets, from 0 to 1. Absent: all get the same.',
  ),
  because: maybe(text, 'Why it is missing in a pool.'),
  detection: maybe(
    object({
      attempts: field(count, 'Connections, or datagrams of UDP, that this node sent to it.'),
      answers: field(count, 'What it answered.'),
      resets: field(count, 'What it refused.'),
      silent: field(flag, 'It answered none of the last eight or more.'),
      ejectedSeconds: maybe(count, 'For how long it has had no new connections for that.'),
    }),
    'What failure detection knows of it, if the Service asks for that.',
  ),
  outcomes: maybe(
    object(outcomeFields),
    'The outcomes of connections to it through the port, if traffic was requested and is counted.',
  ),
});

const shownPort = object({
  name: field(text, 'Empty for a port without a name.'),
  protocol: field(protocolName, 'Its protocol.'),
  port: field(count, 'The port of the Service.'),
  family: field(familyName, 'The family of these frontends and endpoints.'),
  state: field(state, stateMeaning),
  frontendCount: field(count, 'Addresses and ports that clients connect to.'),
  frontends: field(list(frontend), 'Where clients connect to; the first fifty.'),
  endpointCount: field(count, 'Endpoints of the port, used or not.'),
  cluster: field(count, 'Endpoints in the pool of policy Cluster.'),
  local: field(count, 'Endpoints in the pool of policy Local: those on this node.'),
  balance: maybe(
    text,
    'How endpoints are chosen, where annotations decide: `random`, for weights without a balance, or what cannot be done here.',
  ),
  remarks: field(list(text), 'What determines its endpoints, and what is unusual; in sentences.'),
  endpoints: field(list(endpoint), 'Its endpoints, as many as were asked for.'),
  kernel: field(
    list(text),
    'The kernel’s objects for the frontends shown, as nft, iptables or ipvsadm lists them.',
  ),
});

const changeFields = {
  time: field(time, 'When the kernel acknowledged it.'),
  port: field(text, 'Name of the port; empty for a port without one.'),
  protocol: field(protocolName, 'Protocol of the port.'),
  family: field(familyName, 'In which family.'),
  what: field(oneOf('came', 'changed', 'went'), 'Whether the port was added, changed or deleted.'),
  before: field(count, 'Endpoints that were used before.'),
  after: field(count, 'Endpoints that are used since then.'),
  added: field(list(text), 'The first four new endpoints, if the port changed.'),
  removed: field(list(text), 'The first four removed endpoints, if the port changed.'),
  also: field(list(text), 'Other changes.'),
  latencyMs: maybe(number, 'The time from the event to the kernel’s acknowledgement.'),
};

export const changeListSchema = answer('ChangeList', {
  items: field(
    list(
      object({
        namespace: field(text, 'Namespace of the Service.'),
        service: field(text, 'Name of the Service.'),
        ...changeFields,
      }),
    ),
    'Changes of Service ports in the kernel, the newest first.',
  ),
});
export type ChangeList = Infer<typeof changeListSchema>;

export const serviceSchema = answer('Service', {
  namespace: field(text, 'Its namespace.'),
  name: field(text, 'Its name.'),
  type: field(serviceType, 'Its type.'),
  created: maybe(time, 'When it was created; manifests need not say.'),
  clusterIPs: field(list(text), 'Its ClusterIPs.'),
  internalTrafficPolicy: field(oneOf('Cluster', 'Local'), 'The field of the Service.'),
  externalTrafficPolicy: field(oneOf('Cluster', 'Local'), 'The field of the Service.'),
  affinitySeconds: maybe(count, 'With session affinity: how long a client keeps its endpoint.'),
  sourceRanges: field(list(text), 'Who may connect to its load balancer; empty: everyone.'),
  healthCheckNodePort: maybe(count, 'Where load balancers ask for this node’s health.'),
  state: field(state, stateMeaning),
  observed: field(
    object({
      service: maybe(text, '`metadata.resourceVersion` of the Service. Absent with manifests.'),
      slices: field(
        list(
          object({
            name: field(text, 'Name of the EndpointSlice, in the namespace of the Service.'),
            revision: maybe(text, 'Its `metadata.resourceVersion`. Absent with manifests.'),
          }),
        ),
        'Its EndpointSlices.',
      ),
    }),
    'The objects of this answer, as the watches last delivered them. With state `in force`, the kernel has these revisions.',
  ),
  problems: field(
    list(text),
    'The problems of it, or of the ports shown, on this node; in sentences.',
  ),
  reasons: field(reasons, 'The distinct reasons of the problems.'),
  runbook: field(
    list(text),
    'For each of the problems, in their order, the section of docs/runbook.md: `from-outside`.',
  ),
  podsUnknown: maybe(text, 'Why names of pods are missing that were asked for.'),
  portCount: field(
    count,
    'Ports, counted once for each family. With parameter `port`, only those that match it.',
  ),
  ports: field(list(shownPort), 'Its ports, as many as were asked for.'),
  changes: field(
    list(object(changeFields)),
    'The last ten changes of it in the kernel, the newest first.',
  ),
});
export type ServiceAnswer = Infer<typeof serviceSchema>;
