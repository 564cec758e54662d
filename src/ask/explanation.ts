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
import { familyName, protocolName } from './status.ts';

export const stepSchema = object({
  text: field(text, 'What happens, in a sentence.'),
  object: maybe(text, 'The rule or object in the kernel that does it, as its tool lists it.'),
});

const explained = {
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
        'How rules classify the client. `pod`: the local detector recognises it as a pod of this node.',
      ),
      address: maybe(text, 'Its address, if it was given.'),
      because: field(text, 'Why rules classify it so.'),
    }),
    'The client that sends the packet.',
  ),
  outcome: field(
    oneOf('endpoint', 'rejected', 'dropped', 'nobody'),
    '`endpoint`: its destination becomes an endpoint. `nobody`: no Service has the address and port.',
  ),
  summary: field(text, 'The outcome and its cause, in a sentence.'),
  warnings: field(
    list(text),
    'Why the outcome may differ: pending changes, refusals by the kernel, rules of other programs.',
  ),
  service: maybe(
    object({
      namespace: field(text, 'Namespace of the Service.'),
      name: field(text, 'Its name.'),
      port: field(text, 'Name of the port; empty for a port without one.'),
      frontend: field(
        oneOf('clusterIP', 'externalIP', 'loadBalancerIP', 'nodePort'),
        'Which address of the Service it is.',
      ),
      inForce: field(flag, 'The desired state of the Service port is in force in the kernel.'),
    }),
    'The Service port that has the address and port.',
  ),
  steps: field(list(stepSchema), 'What happens to the packet, in order.'),
  endpoints: field(
    list(text),
    'The endpoints that it may go to, all equally likely: `10.244.0.5:8080`. The first 500.',
  ),
  unreachable: field(
    list(text),
    'Those that packets cannot reach, by address: addresses of Services, without a route, or behind a rule of another program. The warnings state why.',
  ),
};

const explainedSchema = object(explained);
/** What happens to a packet of one protocol. */
export type Explained = Infer<typeof explainedSchema>;

export const explanationSchema = answer('Explanation', {
  ...explained,
  also: maybe(
    list(explainedSchema),
    'The same for other protocols of the port, if the question named none; for a Service and clients outside, for its other frontends, nine at most.',
  ),
});
export type Explanation = Infer<typeof explanationSchema>;
