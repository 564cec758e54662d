/** How the kernel's state differs from what is in force. */
import { answer, count, field, flag, type Infer, list, maybe, object, text } from './schema.ts';
import { familyName, protocolName } from './status.ts';

const difference = object({
  service: maybe(
    object({
      namespace: field(text),
      name: field(text),
      port: field(text),
      protocol: field(protocolName),
    }),

    'Absent: all Services share the objects, or their Service is gone.',
  ),
  missing: field(count),
  wrong: field(count),
  unwanted: field(count),
  repairs: field(list(text), 'Commands that would correct them; the first twenty.'),
});

const family = object({
  family: field(familyName),
  compared: field(count),
  leftOut: field(count, 'Service ports that changed during the reading.'),
  waiting: field(count, 'Services whose change is not written yet.'),
  differences: field(list(difference), 'The first five hundred.'),
  differenceCount: field(count),
});

export const diffSchema = answer('Diff', {
  healthy: field(flag, 'No difference, waiting change, refusal or stale program.'),
  families: field(list(family)),
  setAside: field(count, 'Service ports that the kernel refuses.'),
  stale: field(list(text), 'Connect-time programs that no process updates.'),
});
export type Diff = Infer<typeof diffSchema>;
