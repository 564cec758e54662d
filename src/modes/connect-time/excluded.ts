import type { Kernel } from '../../kernel/kernel.ts';
import type { Family } from '../../net/address.ts';
import { noPause } from '../mode.ts';
import { allExcluded, keyBytes, mapNames, readExcludedKey, valueBytes } from './layout.ts';
import { readMap } from './read-map.ts';

/** The cgroups that are excluded in the kernel; undefined = it is not known whether it is all. */
export async function readExcluded(
  kernel: Kernel,
  directory: string,
  families: readonly Family[],
): Promise<readonly bigint[] | undefined> {
  const found = new Set<bigint>();
  const sizes = { keyBytes: keyBytes.excluded, valueBytes: valueBytes.excluded };
  for (const family of families) {
    const map = { directory, map: mapNames[family].excluded, ...sizes };
    await readMap(kernel, map, noPause, (key) => found.add(readExcludedKey(key)));
  }
  return found.delete(allExcluded) ? [...found] : undefined;
}
