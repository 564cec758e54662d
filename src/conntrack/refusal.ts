import type { ConntrackEntries } from '../kernel/conntrack-entries.ts';
import { KernelError } from '../kernel/errors.ts';

/** The kernel's refusal to delete one of the entries. */
export function refusal(
  entries: ConntrackEntries,
  { index, code }: { readonly index: number; readonly code: string },
): KernelError {
  const subject = entries.text(index);
  return new KernelError({ operation: 'conntrack.delete', subject, code, words: 'refused' });
}
