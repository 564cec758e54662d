import { KernelError } from '../../src/kernel/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { routeOps, routeRequests } from '../../src/kernel/route-ops.ts';

/**
 * Makes a kernel look as if it was built without netfilter. Links and addresses work; all else
 * fails as socket(2) does for a protocol that the kernel lacks.
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
      const isRoute = [...readRecords(kernelOps, ops)].every(({ kind }) => kind in routeOps);
      return isRoute ? kernel.apply(ops) : absent();
    },
    dump: (request) => (request.kind in routeRequests ? kernel.dump(request) : absent()),
    generation: absent,
    isOwn: () => false,
    watch: () => () => {},
    close: () => kernel.close(),
  };
}
