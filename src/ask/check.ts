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
import { familyName, frontendName, protocolName } from './status.ts';

const tried = object({
  port: field(text),
  protocol: field(protocolName),
  family: field(familyName),
  to: field(text, 'Address and port.'),
  what: field(
    oneOf('endpoint', 'service', 'health check'),
    '`service`: a frontend. `health check`: the node port that load balancers ask.',
  ),
  frontend: maybe(frontendName),
  pod: maybe(text),
  node: maybe(text, 'Of the endpoint.'),
  used: maybe(flag, 'Connections of some clients, or of this node, go there.'),
  answer: field(
    oneOf(
      'connected',
      'answered',
      'refused',
      'reset',
      'too_large',
      'timeout',
      'silent',
      'no_route',
      'unreachable',
      'blackhole',
      'prohibited',
      'failed',
    ),
    '`silent`: no answer to a datagram, which may be right. `refused`: by a reset or ICMP. `reset`: after it was accepted. `too_large`: packets of `--size` do not get there.',
  ),
  speaks: maybe(
    oneOf('TLS', 'HTTP', 'other', 'nothing'),
    'With `--speak`: what came back to a greeting of TLS, or to a blank line.',
  ),
  tookMs: field(number),
  means: maybe(text, 'Why it failed.'),
  error: maybe(text),
});

export const serviceCheckSchema = answer('ServiceCheck', {
  namespace: field(text),
  name: field(text),
  healthy: field(flag, 'No connection to a used endpoint, or through the Service, failed.'),
  problems: field(list(text), 'Of the Service.'),
  node: field(list(text), 'Problems of its proxy.'),
  tried: field(list(tried)),
  leftOut: field(count, 'Targets not tried: too many.'),
  notes: field(list(text), 'Remarks on this node; limits of this check.'),
});
export type ServiceCheck = Infer<typeof serviceCheckSchema>;
