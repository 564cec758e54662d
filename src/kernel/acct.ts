/** Named counters of the kernel (nfacct): rules of kube-proxy and of mode iptables use them. */
import type { Family } from '../net/address.ts';
import { acctOps } from './acct-ops.ts';
import { isKernelError, orElse } from './errors.ts';
import { refusal } from './failures.ts';
import type { Kernel, KernelReader } from './kernel.ts';
import { RecordWriter } from './records.ts';
import { countedIn } from './xt/matches/nfacct.ts';
import { missingExtensions, question } from './xt/probe.ts';

/** kube-proxy's names (behaviour document 10.3). */
export const counterNames = {
  /** Forwarded packets that are dropped because connection tracking calls them INVALID. */
  invalidDropped: 'ct_state_invalid_dropped_pkts',
  /** Connections to node ports on loopback addresses. */
  localhostAccepted: 'localhost_nps_accepted_pkts',
} as const;

const names: readonly string[] = Object.values(counterNames);

/** Codes with which a kernel without nfnetlink_acct answers (nfnetlink_rcv_msg). */
const lacking: ReadonlySet<string> = new Set(['EINVAL', 'EOPNOTSUPP']);

export interface NamedCounter {
  readonly name: string;
  readonly packets: number;
  /** Rules that count in it. */
  readonly references: number;
}

/** The counters with kube-proxy's names that exist. Rejects with KernelError. */
export async function readCounters(kernel: KernelReader): Promise<NamedCounter[]> {
  const dump = kernel.dump({ kind: 'acctsDump' });
  // EINVAL: it has no nfnetlink_acct.
  const found = await orElse(dump, undefined, (error) => isKernelError(error, 'EINVAL'));
  const records = found?.records ?? [];
  return records.flatMap((one) => (one.kind === 'acct' && names.includes(one.name) ? [one] : []));
}

/**
 * Makes the counters that are missing. Resolves to whether rules of the family can count in them;
 * if not, none is left behind. Rejects with KernelError when the kernel gives no answer.
 */
export async function makeCounters(kernel: Kernel, family: Family): Promise<boolean> {
  const made = await kernel.apply(written('acctAdd', names));
  const failures = made.kind === 'applied' ? [] : made.failures;
  const failed = failures.find(({ code }) => code !== 'EBUSY');
  if (failed !== undefined) {
    if (lacking.has(failed.code)) return false;
    // Rules must not lose their counters because the kernel refused something else for a moment.
    throw refusal('acct.add', names.join(', '), failed);
  }
  const asked = names.map((name) => {
    return question('iptables match nfacct', 'xt_nfacct', 'filter', { matches: [countedIn(name)] });
  });
  if ((await missingExtensions(kernel, family, asked)).length === 0) return true;
  await deleteCounters(kernel, names);
  return false;
}

/** Deletes counters. A missing one is not an error; one that rules refer to stays. */
export async function deleteCounters(kernel: Kernel, some: readonly string[]): Promise<void> {
  if (some.length === 0) return;
  const result = await kernel.apply(written('acctDelete', some));
  const failures = result.kind === 'applied' ? [] : result.failures;
  const failed = failures.find(({ code }) => code !== 'EBUSY' && code !== 'ENOENT');
  if (failed !== undefined) throw refusal('acct.delete', some.join(', '), failed);
}

function written(op: keyof typeof acctOps, some: readonly string[]): Uint8Array {
  const writer = new RecordWriter(acctOps);
  for (const name of some) writer.write(op, { name });
  return writer.finish();
}
