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
  source: field(text, 'Address and port.'),
  interface: maybe(text, 'Absent: the node itself sent it.'),
  outcome: field(
    oneOf('endpoint', 'diverted', 'untranslated', 'rejected', 'dropped', 'lost'),
    '`diverted`: by a rule of another program. `untranslated`: it went to its first destination. `lost`: it went no further, without a rule of nf_tables that decided so.',
  ),
  because: field(text, 'What decided the outcome.'),
  destination: field(text, 'Its last address and port.'),
  answered: maybe(
    oneOf('yes', 'no', 'refused'),
    'Whether an answer came while it was followed. `refused`: nothing listens there. Absent: not known.',
  ),
  ended: field(text, 'A sentence.'),
  failed: field(flag, 'It reached no endpoint, was refused, or got no answer (TCP).'),
  steps: field(list(stepSchema)),
  explained: maybe(
    object({
      outcome: field(text),
      summary: field(text, 'Outcome and cause in a sentence.'),
      warnings: field(list(text)),
    }),
    'What `fairlead explain` says of it, if the process answers.',
  ),
});

export const traceSchema = answer('Trace', {
  to: field(
    object({
      address: field(text),
      port: field(count),
      protocol: field(protocolName),
      family: field(familyName),
    }),
  ),
  warnings: field(list(text), 'The limits of this trace.'),
  packets: field(list(packet)),
  endpoints: field(
    list(
      object({
        endpoint: field(text, 'Address and port.'),
        packets: field(count),
        refused: field(count),
        unanswered: field(count, 'While they were followed.'),
      }),
    ),
  ),
  probe: maybe(text, 'The outcome of the command’s own connections.'),
});
export type Trace = Infer<typeof traceSchema>;
