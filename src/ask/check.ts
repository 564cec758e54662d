/** The results of connections that `fairlead service check` has opened. */
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
} from './schema.ts';
import { familyName, protocolName } from './status.ts';

const tried = object({
  port: field(text),
  protocol: field(protocolName),
  family: field(familyName),
  to: field(text, 'Address and port.'),
  what: field(oneOf('endpoint', 'service'), '`service`: the ClusterIP.'),
  used: maybe(flag, 'Connections of some clients go to this endpoint.'),
  answer: field(
    oneOf(
      'connected',
      'answered',
      'refused',
      'timeout',
      'silent',
      'no_route',
      'unreachable',
      'blackhole',
      'prohibited',
      'failed',
    ),
    '`silent`: no answer to a datagram, which may be right. `refused`: by a reset or ICMP.',
  ),
  tookMs: field(number),
  error: maybe(text),
});

export const serviceCheckSchema = answer('ServiceCheck', {
  namespace: field(text),
  name: field(text),
  healthy: field(flag, 'No connection to a used endpoint, or through the Service, failed.'),
  tried: field(list(tried)),
  leftOut: field(count, 'Endpoints that were not tried: too many.'),
  notes: field(list(text), 'What this check cannot show.'),
});
export type ServiceCheck = Infer<typeof serviceCheckSchema>;
