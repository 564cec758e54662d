import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import type { NodeUnderTest } from './proxy.ts';

/** Asks or changes the kernel of a node. The sockets are closed with the answer. */
export async function askKernel<T>(
  { namespacePath }: Pick<NodeUnderTest, 'namespacePath'>,
  work: (kernel: Kernel) => Promise<T>,
): Promise<T> {
  const kernel = openKernel({ netns: namespacePath });
  try {
    return await work(kernel);
  } finally {
    kernel.close();
  }
}
