/** Checks transactions against the kernel without committing them, like `nft --check`. */
import type { ApplyResult, Kernel } from './kernel.ts';
import { NFPROTO } from './nft/constants.ts';
import { kernelOps, nftOps } from './ops.ts';
import { RecordWriter, readRecords, recordStarts } from './records.ts';

/**
 * Returns a Kernel whose reads go to `kernel` and whose writes change nothing. A transaction of
 * nf_tables gets an additional last op that always fails, so the kernel checks every op and
 * discards them all. Other ops are not sent; `apply` reports them as applied.
 */
export function dryRunOf(kernel: Kernel): Kernel {
  return {
    apply: (ops) => check(kernel, ops),
    dump: kernel.dump.bind(kernel),
    generation: kernel.generation.bind(kernel),
    commits: 0,
    isOwn: kernel.isOwn.bind(kernel),
    watch: kernel.watch.bind(kernel),
    ...(kernel.watchLinks && { watchLinks: kernel.watchLinks.bind(kernel) }),
    close: kernel.close.bind(kernel),
  };
}

async function check(kernel: Kernel, ops: Uint8Array): Promise<ApplyResult> {
  for (const { kind } of readRecords(kernelOps, ops)) {
    if (!(kind in nftOps)) return { kind: 'applied' };
  }
  return checkTransaction(kernel, ops);
}

/** Has the kernel check a transaction of nf_tables without committing it. */
export async function checkTransaction(kernel: Kernel, ops: Uint8Array): Promise<ApplyResult> {
  const count = [...recordStarts(ops)].length;
  const last = new RecordWriter(nftOps, 256);
  last.write('chainDelete', { family: NFPROTO.IPv4, table: 'fairlead-check', chain: 'missing' });
  const result = await kernel.apply(Buffer.concat([ops, last.finish()]));
  if (result.kind === 'applied') {
    throw new Error('check ops: deleting a nonexistent chain unexpectedly succeeded');
  }
  const failures = result.failures.filter(({ op }) => op !== count);
  return failures.length === 0 ? { kind: 'applied' } : { ...result, failures };
}
