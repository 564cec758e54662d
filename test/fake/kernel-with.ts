import type { Kernel } from '../../src/kernel/kernel.ts';

/** The same kernel, of which a part is different. */
export function kernelWith(kernel: Kernel, part: Partial<Kernel>): Kernel {
  return {
    apply: (ops) => kernel.apply(ops),
    dump: (...args) => kernel.dump(...args),
    generation: () => kernel.generation(),
    get commits() {
      return kernel.commits;
    },
    isOwn: (port) => kernel.isOwn(port),
    watch: (...args) => kernel.watch(...args),
    close: () => kernel.close(),
    ...part,
  };
}
