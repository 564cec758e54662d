/** A kernel that is asked what it thinks of ops, and keeps nothing of them. */
import type { ApplyResult, Kernel } from './kernel.ts';
import { NFPROTO } from './nft/constants.ts';
import { kernelOps, nftOps } from './ops.ts';
import { RecordWriter, readRecords } from './records.ts';

/**
 * Reads are the kernel's. A transaction of nf_tables gets a last op that every kernel refuses, so
 * that it judges all of it; whatever else is written is not sent, and said to be applied.
 */
export function judgeOf(kernel: Kernel): Kernel {
  return {
    apply: (ops) => judge(kernel, ops),
    dump: kernel.dump.bind(kernel),
    generation: kernel.generation.bind(kernel),
    isOwn: kernel.isOwn.bind(kernel),
    watch: kernel.watch.bind(kernel),
    close: kernel.close.bind(kernel),
  };
}

async function judge(kernel: Kernel, ops: Uint8Array): Promise<ApplyResult> {
  const kinds = [...readRecords(kernelOps, ops)].map(({ kind }) => kind);
  if (!kinds.every((kind) => kind in nftOps)) return { kind: 'applied' };
  const last = new RecordWriter(nftOps, 256);
  last.write('chainDelete', { family: NFPROTO.IPv4, table: 'fairlead-judge', chain: 'never-made' });
  const result = await kernel.apply(Buffer.concat([ops, last.finish()]));
  if (result.kind === 'applied') throw new Error('the kernel accepted the deletion of no chain');
  const failures = result.failures.filter(({ op }) => op !== kinds.length);
  return failures.length === 0 ? { kind: 'applied' } : { ...result, failures };
}
