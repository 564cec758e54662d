/** What Fairlead makes in nf_tables in addition to the tables of its modes. */
import { ownTable as countingTable } from '../failure-detection/layout.ts';
import { ownTable as fastPathTable } from '../fast-path/layout.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { makerOf, type OwnTable, removeTable, tableText } from '../kernel/nft/own-table.ts';
import { families } from '../net/address.ts';
import { hasSign, removeSign, signText } from '../takeover/sign.ts';

interface FeatureObject {
  readonly feature: string;
  /** In nft's words: `table inet fairlead-fast-path`. */
  readonly object: string;
  /** Whether we have made it. */
  readonly isThere: (kernel: Kernel) => Promise<boolean>;
  /** Resolves to whether there was one that we made. */
  readonly remove: (kernel: Kernel) => Promise<boolean>;
}

export const featureObjects: readonly FeatureObject[] = [
  tableOf('fast path', fastPathTable),
  ...families.map((family) => tableOf('failure detection', countingTable(family))),
  ...families.map((family) => ({
    feature: 'mode nftables',
    object: signText(family),
    isThere: (kernel: Kernel) => hasSign(kernel, family),
    remove: (kernel: Kernel) => removeSign(kernel, family),
  })),
];

function tableOf(feature: string, table: OwnTable): FeatureObject {
  return {
    feature,
    object: `table ${tableText(table)}`,
    isThere: async (kernel) => (await makerOf(kernel, table)) === 'ours',
    remove: (kernel) => removeTable(kernel, table),
  };
}
