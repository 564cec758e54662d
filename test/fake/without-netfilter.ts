import { KernelError } from '../../src/kernel/errors.ts';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { routeOps, routeRequests } from '../../src/kernel/route-ops.ts';

/**
 * A kernel as it is, but built without netfilter: there are links and addresses; all else is what
 * socket(2) says of a protocol that the kernel has not.
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
