/** What happens to a packet to an address and port, and why. */
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
import { familyName, frontendName, protocolName } from './status.ts';

export const stepSchema = object({
  text: field(text),
  object: maybe(text, 'The rule or object in the kernel, as its tool lists it.'),
});

const explained = {
  to: field(
    object({
      address: field(text),
      port: field(count),
      protocol: field(protocolName),
      family: field(familyName),
    }),
  ),
  from: field(
    object({
      kind: field(oneOf('pod', 'node', 'outside'), '`pod`: the local detector recognises it.'),
      address: maybe(text, 'If it was given.'),
      because: field(text, 'Why rules classify the client so.'),
    }),
  ),
  outcome: field(
    oneOf('endpoint', 'rejected', 'dropped', 'routed', 'nobody'),
    '`routed`: no rule concerns the packet, which goes where the node routes it. `nobody`: no Service has the address and port.',
  ),
  summary: field(text, 'Outcome and cause in a sentence.'),
  warnings: field(list(text), 'Why the outcome may differ.'),
  service: maybe(
    object({
      namespace: field(text),
      name: field(text),
      port: field(text),
      frontend: field(frontendName),
      inForce: field(flag, 'The desired state is in the kernel.'),
    }),
  ),
  steps: field(list(stepSchema)),
  endpoints: field(list(text), 'Equally likely ones, such as `10.244.0.5:8080`; the first 500.'),
  unreachable: field(list(text), 'Addresses that packets cannot reach; `warnings` state why.'),
};

const explainedSchema = object(explained);
/** What happens to a packet of one protocol. */
export type Explained = Infer<typeof explainedSchema>;

export const explanationSchema = answer('Explanation', {
  ...explained,
  also: maybe(
    list(explainedSchema),
    'Other protocols of the port, if the question named none; for clients outside other frontends of the Service. At most nine.',
  ),
});
export type Explanation = Infer<typeof explanationSchema>;
