/** Finds and removes the tables of failure detection, which ends the counting. */
import type { Kernel } from '../kernel/kernel.ts';
import { families } from '../net/address.ts';
import { tableText } from './layout.ts';
import { CountingTable } from './table.ts';

/** Our tables, as they are listed: `ip fairlead-failure-detection`. */
export async function tablesThere(kernel: Kernel): Promise<readonly string[]> {
  const found: string[] = [];
  for (const family of families) {
    if (await new CountingTable(kernel, family).isThere()) found.push(tableText(family));
  }
  return found;
}

/** Resolves to those that were removed. */
export async function removeTables(kernel: Kernel): Promise<readonly string[]> {
  const removed: string[] = [];
  for (const family of families) {
    if (await new CountingTable(kernel, family).remove()) removed.push(tableText(family));
  }
  return removed;
}
