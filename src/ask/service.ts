/** The Services of this node's proxy: a list, and the details of one. */

import { reasonName } from './problems.ts';
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
import { familyName, frontendName, protocolName } from './status.ts';
import { outcomesSchema } from './traffic.ts';

const serviceType = oneOf('ClusterIP', 'NodePort', 'LoadBalancer');

const policyName = oneOf('Cluster', 'Local');

export const stateName = oneOf('in force', 'waiting', 'set aside');

const reasons = list(reasonName);

const port = object({
  name: field(text),
  protocol: field(protocolName),
  port: field(count),
  nodePort: maybe(count),
});

const listed = object({
  namespace: field(text),
  name: field(text),
  type: field(serviceType),
  clusterIPs: field(list(text)),
  externalIPs: field(list(text), 'Addresses of load balancers first.'),
  created: maybe(time),
  internalTrafficPolicy: field(policyName),
  externalTrafficPolicy: field(policyName),
  affinitySeconds: maybe(count, 'With session affinity.'),
  ports: field(list(port), 'The first hundred.'),
  endpoints: field(count, 'In its EndpointSlices, all families.'),
  used: field(count, 'Endpoints in use, of the port that has the fewest.'),
  state: field(
    stateName,
    '`waiting`: not in the kernel yet. `set aside`: the kernel refused it; it is tried again.',
  ),
  reasons: field(reasons, 'Empty: it has no problem on this node.'),
});

export const serviceListSchema = answer('ServiceList', {
  items: field(list(listed), 'In the order in which they arrived.'),
  continue: maybe(text),
});
export type ServiceList = Infer<typeof serviceListSchema>;

const path = object({
  to: field(
    oneOf('cluster', 'local', 'reject', 'drop'),
    'A pool; `reject`: no endpoint; `drop`: none that the policy allows.',
  ),
  masqueraded: field(flag, 'By policy.'),
});

const frontend = object({
  kind: field(frontendName),
  address: maybe(text, 'Absent: every address that accepts node ports.'),
  port: field(count),
  lastPort: maybe(count, 'Of a range of ports, which begins at `port`.'),
  paths: field(
    object({ pod: field(path), node: field(path), outside: field(path) }),
    'New connections, by the client.',
  ),
  heldBy: maybe(text, 'The Service or program that has the frontend instead.'),
});

const endpoint = object({
  address: field(text),
  port: field(count),
  ready: field(flag),
  serving: field(flag),
  terminating: field(flag),
  local: field(flag),
  pod: maybe(text),
  node: maybe(text),
  zone: maybe(text),
  zoneHints: maybe(list(text)),
  nodeHints: maybe(oneOf('this node', 'other nodes')),
  usedBy: field(list(oneOf('cluster', 'local')), 'The pools that have it.'),
  shares: maybe(
    list(number),
    'Its part of new connections in each of these pools, 0 to 1. Absent: equal parts.',
  ),
  because: maybe(text, 'Why a pool lacks it.'),
  detection: maybe(
    object({
      attempts: field(count, 'Connections or datagrams from this node.'),
      answers: field(count),
      resets: field(count),
      silent: field(flag, 'It answered none of the last eight or more.'),
      ejectedSeconds: maybe(count, 'How long it has had no new connections for that.'),
    }),
    'If the Service has failure detection.',
  ),
  outcomes: maybe(outcomesSchema, 'If traffic was requested and is counted.'),
});

const shownPort = object({
  name: field(text),
  protocol: field(protocolName),
  port: field(count),
  family: field(familyName),
  state: field(stateName),
  since: field(time, 'It has had this state.'),
  frontendCount: field(count),
  frontends: field(list(frontend)),
  endpointCount: field(count),
  cluster: field(count, 'Endpoints in this pool.'),
  local: field(count, 'Endpoints in this pool.'),
  balance: maybe(
    text,
    'How endpoints are chosen, where annotations decide; or what cannot be done here.',
  ),
  remarks: field(list(text), 'What determines its endpoints, and what is unusual.'),
  endpoints: field(list(endpoint)),
  kernel: field(list(text), 'Objects of these frontends, as nft, iptables or ipvsadm lists them.'),
});

const changeFields = {
  time: field(time, 'Of the kernel’s acknowledgement.'),
  port: field(text),
  protocol: field(protocolName),
  family: field(familyName),
  what: field(oneOf('came', 'changed', 'went'), 'Added, changed, deleted.'),
  before: field(count, 'Endpoints in use before.'),
  after: field(count, 'Endpoints in use since then.'),
  added: field(list(text), 'The first four endpoints, if the port changed.'),
  removed: field(list(text), 'The first four.'),
  also: field(list(text), 'Other changes, in words.'),
  latencyMs: maybe(number, 'From the event to the kernel’s acknowledgement.'),
};

export const changeListSchema = answer('ChangeList', {
  items: field(
    list(
      object({
        namespace: field(text),
        service: field(text),
        ...changeFields,
      }),
    ),
    'The newest first.',
  ),
});
export type ChangeList = Infer<typeof changeListSchema>;

export const serviceSchema = answer('Service', {
  namespace: field(text),
  name: field(text),
  type: field(serviceType),
  created: maybe(time),
  clusterIPs: field(list(text)),
  internalTrafficPolicy: field(policyName),
  externalTrafficPolicy: field(policyName),
  affinitySeconds: maybe(count, 'With session affinity.'),
  sourceRanges: field(list(text), '`loadBalancerSourceRanges`.'),
  healthCheckNodePort: maybe(count),
  state: field(stateName),
  observed: field(
    object({
      service: maybe(text, '`metadata.resourceVersion`. Absent with manifests.'),
      slices: field(
        list(
          object({
            name: field(text),
            revision: maybe(text),
          }),
        ),
      ),
    }),
    'What the watches last delivered. With state `in force`, the kernel has these revisions.',
  ),
  problems: field(list(text), 'On this node; of it, or of the ports shown.'),
  reasons: field(reasons),
  runbook: field(list(text), 'For each problem its section of docs/runbook.md: `from-outside`.'),
  podsUnknown: maybe(text, 'Why names of pods are missing.'),
  portCount: field(
    count,
    'Counted once for each family. With parameter `port`: only those that match.',
  ),
  ports: field(list(shownPort)),
  changes: field(list(object(changeFields)), 'The last ten, the newest first.'),
});
export type ServiceAnswer = Infer<typeof serviceSchema>;
