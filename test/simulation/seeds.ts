/**
 * Seeds that `--kept` simulates: those that have had a finding, and for each mode some that differ
 * in whether tables have an owner, and whether the world around the program changes.
 */
import type { ModeName } from '../../src/modes/mode.ts';

export interface KeptSeed {
  readonly mode: ModeName;
  readonly seed: number;
  /** Virtual hours. */
  readonly hours: string;
}

export const keptSeeds: readonly [KeptSeed, ...KeptSeed[]] = [
  { mode: 'nftables', seed: 3, hours: '0.5' },
  { mode: 'nftables', seed: 2, hours: '0.5' },
  { mode: 'nftables', seed: 23, hours: '0.4' },
  { mode: 'iptables', seed: 2, hours: '0.5' },
  { mode: 'iptables', seed: 1, hours: '0.2' },
  { mode: 'ipvs', seed: 210416073, hours: '0.1' },
  { mode: 'ipvs', seed: 2, hours: '0.5' },
  { mode: 'userspace', seed: 2, hours: '0.5' },
];
