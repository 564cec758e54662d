import { isKernelError } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { noPause } from '../../time/pacer.ts';
import { allExcluded, keyBytes, mapNames, readExcludedKey, valueBytes } from './layout.ts';
import { isReadable, readPinned } from './pinned.ts';
import type { Placement } from './placement.ts';
import { readMap } from './read-map.ts';

const sizes = { keyBytes: keyBytes.excluded, valueBytes: valueBytes.excluded } as const;

/** The excluded cgroups in the kernel; undefined = they may be incomplete. */
export async function readExcluded(
  kernel: Kernel,
  placement: Placement,
  families: readonly Family[],
): Promise<readonly bigint[] | undefined> {
  const found = new Set<bigint>();
  try {
    for (const family of families) {
      const { maps } = await readPinned(kernel, placement, family, false);
      if (!isReadable(maps)) continue;
      const map = { directory: placement.directory, map: mapNames[family].excluded, ...sizes };
      await readMap(kernel, map, noPause, (key) => found.add(readExcludedKey(key)));
    }
  } catch (error) {
    // Writing the maps fails in the same way, and is reported.
    if (!isKernelError(error)) throw error;
  }
  return found.delete(allExcluded) ? [...found] : undefined;
}
