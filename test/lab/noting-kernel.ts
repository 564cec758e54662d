import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { kernelWith } from '../fake/kernel-with.ts';

/** The same kernel, which notes in `sent` what it is asked to do to maps and programs, but for the lease. */
export function notingKernel(kernel: Kernel, sent: string[]): Kernel {
  return kernelWith(kernel, {
    apply: (ops) => {
      const kinds = Array.from(readRecords(kernelOps, ops), ({ kind }) => kind);
      sent.push(...kinds.filter((kind) => kind.startsWith('bpf') && kind !== 'bpfLeaseExtend'));
      return kernel.apply(ops);
    },
  });
}
