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

const endpoint = object({
  endpoint: field(text, 'Its address and port.'),
  connections: field(count, 'Connections that were sent to it during the last day at least.'),
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

export const trafficSchema = answer('Traffic', {
  time: field(time, 'When the kernel was read.'),
  items: field(list(servicePort), 'Service ports with traffic.'),
  continue: maybe(text, 'There is another page: the parameter `continue` to ask for it with.'),
});
export type Traffic = Infer<typeof trafficSchema>;
