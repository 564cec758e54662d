import { bpfOps, bpfRequests } from '../../src/kernel/bpf-ops.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { routeOps, routeRequests } from '../../src/kernel/route-ops.ts';

/**
 * Makes a kernel look as if it was built without netfilter. Links, addresses and bpf(2) work; all
 * else fails as socket(2) does for a protocol that the kernel lacks.
 */
export function withoutNetfilter(kernel: Kernel): Kernel {
  const absent = async (): Promise<never> => {
    throw new KernelError({
      operation: 'kernel',
      subject: 'netfilter',
      code: 'EPROTONOSUPPORT',
      words: 'Protocol not supported',
    });
  };
  return {
    apply: (ops) => {
      const works = { ...routeOps, ...bpfOps };
      const isPossible = [...readRecords(kernelOps, ops)].every(({ kind }) => kind in works);
      return isPossible ? kernel.apply(ops) : absent();
    },
    dump: (request) => {
      const works = { ...routeRequests, ...bpfRequests };
      return request.kind in works ? kernel.dump(request) : absent();
    },
    generation: absent,
    commits: 0,
    isOwn: () => false,
    watch: () => () => {},
    close: () => kernel.close(),
  };
}
