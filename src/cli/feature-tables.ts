/** Tables that Fairlead makes in addition to those of its modes. */
import { ownTable as countingTable } from '../failure-detection/layout.ts';
import { ownTable as fastPathTable } from '../fast-path/layout.ts';
import type { OwnTable } from '../kernel/nft/own-table.ts';
import { families } from '../net/address.ts';

interface FeatureTable {
  readonly feature: string;
  readonly table: OwnTable;
}

export const featureTables: readonly FeatureTable[] = [
  { feature: 'fast path', table: fastPathTable },
  ...families.map((family) => ({ feature: 'failure detection', table: countingTable(family) })),
];
