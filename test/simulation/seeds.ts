/** Seeds that `--kept` simulates: those that have had a finding, and the first ones of each mode. */
import type { ModeName } from '../../src/modes/mode.ts';

export interface KeptSeed {
  readonly mode: ModeName;
  readonly seed: number;
  /** Virtual hours. */
  readonly hours: string;
}

export const keptSeeds: readonly [KeptSeed, ...KeptSeed[]] = [
  { mode: 'nftables', seed: 1, hours: '1' },
  { mode: 'nftables', seed: 2, hours: '1' },
  { mode: 'iptables', seed: 1, hours: '1' },
  { mode: 'iptables', seed: 2, hours: '1' },
  { mode: 'ipvs', seed: 1, hours: '1' },
  { mode: 'ipvs', seed: 2, hours: '1' },
  // A virtual service of a probe that was killed stayed for ever.
  { mode: 'ipvs', seed: 22, hours: '1' },
];
