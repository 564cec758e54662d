/** How the kernel differs from what is wanted. */
import { answer, count, field, flag, type Infer, list, maybe, object, text } from './schema.ts';
import { familyName, protocolName } from './status.ts';

const difference = object({
  service: maybe(
    object({
      namespace: field(text, 'Namespace of the Service.'),
      name: field(text, 'Its name.'),
      port: field(text, 'Name of the port; empty for a port without one.'),
      protocol: field(protocolName, 'Protocol of the port.'),
    }),
    'Whose objects they are; left out: of no Service that is there, or of all.',
  ),
  missing: field(count, 'Objects that are not there.'),
  wrong: field(count, 'Objects that are not as they should be.'),
  unwanted: field(count, 'Objects that nobody wants.'),
  repairs: field(
    list(text),
    'What would make them right, in the words of nft or ipvsadm; the first twenty.',
  ),
});

const family = object({
  family: field(familyName, 'The family.'),
  compared: field(count, 'Service ports that were compared.'),
  leftOut: field(count, 'Service ports that changed while the kernel was read.'),
  waiting: field(count, 'Services that have changed and are not written yet.'),
  differences: field(list(difference), 'How the kernel differs; the first five hundred.'),
  differenceCount: field(count, 'How many differences there are.'),
});

export const diffSchema = answer('Diff', {
  well: field(flag, 'There are no differences, nothing waits, and the kernel refuses nothing.'),
  families: field(list(family), 'By family.'),
  setAside: field(count, 'Service ports that the kernel refuses.'),
});
export type Diff = Infer<typeof diffSchema>;
