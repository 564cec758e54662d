/** A packet to a Service that did not get through this node, as `fairlead drops` finds it. */
import { answer, count, field, type Infer, maybe, oneOf, text, time } from './schema.ts';
import { familyName, protocolName } from './status.ts';

export const dropSchema = answer('Drop', {
  time: field(time, 'When it was found.'),
  client: field(text),
  interface: maybe(text, 'By which it came in. Absent: this node sent it, or that is not known.'),
  address: field(text),
  port: field(count),
  protocol: field(protocolName),
  family: field(familyName),
  service: maybe(text, '`namespace/name:port`. Absent: no Service has the address and port.'),
  outcome: field(
    oneOf('dropped', 'rejected', 'lost', 'unknown'),
    '`lost`: without a rule of nf_tables that decided so. `unknown`: the client sent no second packet.',
  ),
  by: field(oneOf('fairlead', 'another program', 'unknown')),
  because: field(text, 'A sentence.'),
});
export type FoundDrop = Infer<typeof dropSchema>;
