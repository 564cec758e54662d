/** The outcome of packets that `fairlead trace` followed. */
import { stepSchema } from './explanation.ts';
import {
  answer,
  count,
  field,
  flag,
  type Infer,
  list,
  maybe,
  object,
  oneOf,
  text,
} from './schema.ts';
import { familyName, protocolName } from './status.ts';

const packet = object({
  source: field(text, 'The address and port that it was sent from.'),
  interface: maybe(text, 'The interface that it came in by; left out: the node itself sent it.'),
  outcome: field(
    oneOf('endpoint', 'diverted', 'untranslated', 'rejected', 'dropped', 'lost'),
    '`endpoint`: it went to the endpoint that its destination was translated to. `diverted`: a rule of another program gave it a destination. `untranslated`: it went to its first destination. `lost`: it got no further, and no rule of nf_tables decided that.',
  ),
  because: field(text, 'What decided the outcome, in a sentence.'),
  destination: field(text, 'Its last destination: address and port.'),
  answered: maybe(
    oneOf('yes', 'no', 'refused'),
    'Whether an answer came while it was followed; `refused`: the answer was that nothing listens there. Absent: connection tracking does not say.',
  ),
  ended: field(text, 'Its end, in a sentence.'),
  failed: field(flag, 'It did not reach an endpoint, or was refused there, or not answered (TCP).'),
  steps: field(list(stepSchema), 'What happened to it, in order.'),
  explained: maybe(
    object({
      outcome: field(text, 'The outcome in that explanation.'),
      summary: field(text, 'The outcome and its cause, in a sentence.'),
      warnings: field(list(text), 'The warnings of that explanation.'),
    }),
    'What `fairlead explain` says of such a packet, if the process of this node answers.',
  ),
});

export const traceSchema = answer('Trace', {
  to: field(
    object({
      address: field(text, 'The address.'),
      port: field(count, 'The port.'),
      protocol: field(protocolName, 'The protocol.'),
      family: field(familyName, 'The family of the address.'),
    }),
    'Where the packets were sent.',
  ),
  warnings: field(list(text), 'The limits of this trace.'),
  packets: field(list(packet), 'The packets, in the order in which they arrived.'),
  endpoints: field(
    list(
      object({
        endpoint: field(text, 'Address and port that packets went to.'),
        packets: field(count, 'Packets that went there.'),
        refused: field(count, 'Those that were refused.'),
        unanswered: field(count, 'Those without an answer while they were followed.'),
      }),
    ),
    'The endpoints that packets went to.',
  ),
  probe: maybe(text, 'The outcome of the connections that the command itself opened.'),
});
export type Trace = Infer<typeof traceSchema>;
