/** Tables that Fairlead makes in addition to those of its modes. */
import { removeTables, tablesThere } from '../failure-detection/removal.ts';
import { tableText } from '../fast-path/layout.ts';
import { isThere, remove } from '../fast-path/removal.ts';
import type { Kernel } from '../kernel/kernel.ts';

interface FeatureTables {
  readonly feature: string;
  /** Our tables, as they are listed: `inet fairlead-fast-path`. */
  readonly find: (kernel: Kernel) => Promise<readonly string[]>;
  /** Resolves to those that were removed. */
  readonly remove: (kernel: Kernel) => Promise<readonly string[]>;
}

/** A kernel without nf_tables has none. */
export const featureTables: readonly FeatureTables[] = [
  {
    feature: 'fast path',
    find: async (kernel) => ((await isThere(kernel)) ? [tableText] : []),
    remove: async (kernel) => ((await remove(kernel)) ? [tableText] : []),
  },
  { feature: 'failure detection', find: tablesThere, remove: removeTables },
];
