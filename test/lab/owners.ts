import { setTimeout as sleep } from 'node:timers/promises';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NFT_TABLE } from '../../src/kernel/nft/constants.ts';
import { askKernel } from './ask-kernel.ts';
import { hangsMs } from './pace.ts';
import type { NodeUnderTest } from './proxy.ts';

/** How many tables wait for an owner: none on kernels before 6.9. */
export async function orphans(kernel: Kernel): Promise<number> {
  const { records } = await kernel.dump({ kind: 'tablesDump', family: 0 });
  return records.filter((one) => one.kind === 'table' && one.flags === NFT_TABLE.PERSIST).length;
}

/**
 * Resolves when no table of the node has an owner. A proxy that was stopped in this process owns
 * its tables until the threads of its sockets have ended, a moment later. Until then no other
 * program may write to them.
 */
export function untilReleased(node: Pick<NodeUnderTest, 'namespacePath'>): Promise<void> {
  return askKernel(node, async (kernel) => {
    const endMs = performance.now() + hangsMs;
    for (;;) {
      const { records } = await kernel.dump({ kind: 'tablesDump', family: 0 });
      const owned = records.flatMap((one) =>
        one.kind === 'table' && one.owner !== 0 ? [one.table] : [],
      );
      if (owned.length === 0) return;
      if (performance.now() > endMs) throw new Error(`lab: ${owned.join(', ')} still has an owner`);
      await sleep(2);
    }
  });
}
