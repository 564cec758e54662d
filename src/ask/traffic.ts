/** The kernel's counters of each Service. */
import {
  answer,
  count,
  field,
  type Infer,
  list,
  maybe,
  object,
  oneOf,
  text,
  time,
} from './schema.ts';
import { familyName } from './status.ts';

const refusals = object({
  reason: field(
    oneOf('no_endpoints', 'no_local_endpoints', 'source_ranges', 'no_such_port', 'no_such_service'),
    'The reason, in the words of `fairlead_service_refusals_total`.',
  ),
  packets: field(count, 'Packets that were refused.'),
});

export const outcomeFields = {
  tried: field(count, 'Connections that were sent to it, as far as answers are counted.'),
  answered: field(
    count,
    'Connections that it accepted. With UDP: answers to clients that it had known for less than two seconds, which may be more than clients.',
  ),
  reset: field(
    count,
    'Refusals: resets of TCP before the connection was in use, and unreachable messages of ICMP.',
  ),
  unanswered: field(
    count,
    'The rest: connections with neither. Those of the last seconds may still be answered.',
  ),
};

const endpoint = object({
  endpoint: field(text, 'Its address and port.'),
  connections: field(count, 'Connections that were sent to it during the last day at least.'),
  outcomes: maybe(
    object(outcomeFields),
    'What became of them. Absent: the mode, or the protocol, does not let this be counted.',
  ),
});

const servicePort = object({
  namespace: field(text, 'Namespace of the Service; empty for traffic to no Service.'),
  service: field(text, 'Name of the Service; empty for traffic to no Service.'),
  port: field(text, 'Name of the port; empty for a port without one.'),
  protocol: field(text, 'Protocol of the port; empty for any protocol.'),
  family: field(familyName, 'In which family.'),
  connections: field(count, 'Connections that clients opened, since the counters were made.'),
  refusals: field(list(refusals), 'Packets that were refused, by reason.'),
  endpoints: maybe(
    list(endpoint),
    'The endpoints of the connections, if the question named a Service.',
  ),
});

const failing = object({
  namespace: field(text, 'Namespace of the Service.'),
  service: field(text, 'Name of the Service.'),
  port: field(text, 'Name of the port; empty for a port without one.'),
  protocol: field(text, 'Protocol of the port.'),
  family: field(familyName, 'In which family.'),
  endpoint: field(text, 'Its address and port.'),
  failed: field(count, 'Connections to it since it was last seen to accept one.'),
  reset: field(count, 'Refusals since then.'),
});

export const trafficSchema = answer('Traffic', {
  time: field(time, 'When the kernel was read.'),
  items: field(list(servicePort), 'Service ports with traffic.'),
  failing: field(
    list(failing),
    'Endpoints in use that accepted none of their last five or more connections, for at least ten seconds; a hundred, first the ten of each namespace with the most.',
  ),
  continue: maybe(text, 'There is another page: the parameter `continue` to ask for it with.'),
});
export type Traffic = Infer<typeof trafficSchema>;
