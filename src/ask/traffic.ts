/** What the kernel has counted of each Service. */
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
    'Why, as `fairlead_service_refusals_total` names it.',
  ),
  packets: field(count, 'Packets that were refused.'),
});

const endpoint = object({
  endpoint: field(text, 'Its address and port.'),
  connections: field(count, 'Connections that were sent to it, of the last day at least.'),
});

const servicePort = object({
  namespace: field(text, 'Empty: of no Service.'),
  service: field(text, 'Name of the Service; empty: of no Service.'),
  port: field(text, 'Name of the port; empty for a port without one.'),
  protocol: field(text, 'Its protocol; empty: of any.'),
  family: field(familyName, 'In which family.'),
  connections: field(count, 'Connections that clients opened, since the counters were made.'),
  refusals: field(list(refusals), 'Packets that were refused, by reason.'),
  endpoints: maybe(list(endpoint), 'Where connections went to, where that was asked for.'),
});

export const trafficSchema = answer('Traffic', {
  time: field(time, 'When the kernel was read.'),
  items: field(list(servicePort), 'Service ports with traffic.'),
  continue: maybe(text, 'There are more: ask again with this.'),
});
export type Traffic = Infer<typeof trafficSchema>;
