/** How the kernel's state differs from what is in force. */
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

    'The Service port of the objects. Left out: all Services share them, or their Service is gone.',
  ),
  missing: field(count, 'Objects that the kernel lacks.'),
  wrong: field(count, 'Objects whose content in the kernel is wrong.'),
  unwanted: field(count, 'Objects that should not be in the kernel.'),
  repairs: field(
    list(text),
    'Commands of nft or ipvsadm that would correct them; the first twenty.',
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
  healthy: field(
    flag,
    'There are no differences, nothing waits, the kernel refuses nothing, and no program is stale.',
  ),
  families: field(list(family), 'By family.'),
  setAside: field(count, 'Service ports that the kernel refuses.'),
  stale: field(
    list(text),
    'Connect-time programs that no process updates, and that translate connections before all rules.',
  ),
});
export type Diff = Infer<typeof diffSchema>;
