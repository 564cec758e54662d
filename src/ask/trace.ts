/** The outcome of packets that `fairlead trace` has followed. */
import { stepSchema } from './explanation.ts';
import { answer, count, field, type Infer, list, maybe, object, oneOf, text } from './schema.ts';
import { familyName, protocolName } from './status.ts';

const packet = object({
  source: field(text, 'The address and port that it was sent from.'),
  interface: maybe(text, 'The interface that it came in by; left out: the node itself sent it.'),
  outcome: field(
    oneOf('endpoint', 'untranslated', 'rejected', 'dropped', 'lost'),
    '`endpoint`: it went to the endpoint that its destination was translated to. `untranslated`: it went to its first destination. `lost`: it got no further, and no rule of nf_tables decided that.',
  ),
  because: field(text, 'What decided the outcome, in a sentence.'),
  destination: field(text, 'Its last destination: address and port.'),
  answered: maybe(
    oneOf('yes', 'no'),
    'Whether an answer came while it was followed. Absent: connection tracking does not say.',
  ),
  steps: field(list(stepSchema), 'What happened to it, in order.'),
  explained: maybe(
    object({
      outcome: field(text, 'The outcome in that explanation.'),
      summary: field(text, 'The outcome and its cause, in a sentence.'),
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
  warnings: field(list(text), 'What this trace cannot show.'),
  packets: field(list(packet), 'The packets, in the order in which they came.'),
  probe: maybe(text, 'The outcome of the connection that the command itself opened.'),
});
export type Trace = Infer<typeof traceSchema>;
