/** The kernel's counters of each Service. */
import { refusalReasons } from '../modes/traffic-counts.ts';
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
  reason: field(oneOf(...refusalReasons), 'As in `fairlead_service_refusals_total`.'),
  packets: field(count),
});

export const outcomesSchema = object({
  tried: field(count, 'Connections sent to it while answers were counted.'),
  answered: field(
    count,
    'Accepted. With UDP: answers to clients known for less than two seconds, perhaps several for a client.',
  ),
  reset: field(count, 'Refused: TCP resets before use, and ICMP unreachable.'),
  unanswered: field(count, 'The rest; those of the last seconds may still be answered.'),
});

const endpoint = object({
  endpoint: field(text),
  connections: field(count, 'Sent to it during the last day at least.'),
  outcomes: maybe(outcomesSchema, 'Absent: mode or protocol does not let this be counted.'),
});

const servicePort = object({
  namespace: field(text, 'Empty: traffic to no Service.'),
  service: field(text),
  port: field(text),
  protocol: field(text, 'Empty: any.'),
  family: field(familyName),
  connections: field(count, 'Opened since the counters were made.'),
  refusals: field(list(refusals)),
  bytes: maybe(count, 'Of ended connections, both ways; with --service-bytes.'),
  endpoints: maybe(list(endpoint), 'If the question named a Service.'),
});

export const trafficSchema = answer('Traffic', {
  time: field(time),
  items: field(list(servicePort)),
  continue: maybe(text),
});
export type Traffic = Infer<typeof trafficSchema>;
