/** What becomes of a packet to an address and port, and why. */
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

export const stepSchema = object({
  text: field(text, 'What happens, or is so.'),
  object: maybe(text, 'What in the kernel does it, in the words of the tool that lists it.'),
});

export const explanationSchema = answer('Explanation', {
  to: field(
    object({
      address: field(text, 'The address.'),
      port: field(count, 'The port.'),
      protocol: field(protocolName, 'The protocol.'),
      family: field(familyName, 'The family of the address.'),
    }),
    'Where the packet is sent.',
  ),
  from: field(
    object({
      kind: field(
        oneOf('pod', 'node', 'outside'),
        'What the client is taken for: `pod` is what the local detector takes for one of this node.',
      ),
      address: maybe(text, 'Its address, if it was given.'),
      because: field(text, 'Why it is taken for that.'),
    }),
    'Who sends it.',
  ),
  outcome: field(
    oneOf('endpoint', 'rejected', 'dropped', 'nobody'),
    '`endpoint`: it is translated to an endpoint. `nobody`: no Service has that address and port.',
  ),
  summary: field(text, 'The outcome and its cause, in a sentence.'),
  warnings: field(
    list(text),
    'What may make it otherwise: changes that wait, what the kernel refuses, what others do.',
  ),
  service: maybe(
    object({
      namespace: field(text, 'Namespace of the Service.'),
      name: field(text, 'Its name.'),
      port: field(text, 'Name of the port; empty for a port without one.'),
      frontend: field(
        oneOf('clusterIP', 'externalIP', 'loadBalancerIP', 'nodePort'),
        'What of the Service the address and port are.',
      ),
      inForce: field(flag, 'What is wanted of it is in force in the kernel.'),
    }),
    'Who has the address and port.',
  ),
  steps: field(list(stepSchema), 'What happens to the packet, in order.'),
  endpoints: field(
    list(text),
    'Where it may go: `10.244.0.5:8080`; as likely as one another. The first 500.',
  ),
});
export type Explanation = Infer<typeof explanationSchema>;
