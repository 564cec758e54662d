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
  port: field(text, 'Name of the port of the Service; empty for a port without one.'),
  protocol: field(protocolName, 'Its protocol.'),
  family: field(familyName, 'The family.'),
  to: field(text, 'Its destination: address and port.'),
  what: field(
    oneOf('endpoint', 'service'),
    '`endpoint`: the endpoint itself. `service`: the ClusterIP, so that the proxy chooses an endpoint.',
  ),
  used: maybe(flag, 'Of an endpoint: the Service sends connections of some clients to it.'),
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
    '`silent`: nothing came back for a datagram, which may be right. `refused`: by a reset, or by ICMP.',
  ),
  tookMs: field(number, 'How long it took.'),
  error: maybe(text, 'The error of the kernel.'),
});

export const serviceCheckSchema = answer('ServiceCheck', {
  namespace: field(text, 'Namespace of the Service.'),
  name: field(text, 'Its name.'),
  healthy: field(flag, 'No connection to an endpoint in use, or through the Service, has failed.'),
  tried: field(list(tried), 'Each connection or datagram.'),
  leftOut: field(count, 'Endpoints that were not tried, because there are too many.'),
  notes: field(list(text), 'What this check cannot show.'),
});
export type ServiceCheck = Infer<typeof serviceCheckSchema>;
