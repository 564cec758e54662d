/**
 * Whether anybody uses iptables-legacy: its tables are others than those of iptables-nft, packets
 * meet both, and each program shows only its own.
 */
import type { Family } from '../../state/address.ts';
import type { Kernel } from '../kernel.ts';
import { NFPROTO } from '../nft/constants.ts';

/** A table of iptables-legacy. It may be there without anything in it. */
export interface LegacyTable {
  readonly table: string;
  /** Rules in all its chains, without policies. */
  readonly rules: number;
  /** Names of the chains that somebody made. */
  readonly chains: readonly string[];
}

/** The tables that are there. Rejects with KernelError, with EPERM without CAP_NET_ADMIN. */
export async function legacyTables(
  kernel: Kernel,
  family: Family,
): Promise<readonly LegacyTable[]> {
  const request = { kind: 'legacyTablesDump', family: NFPROTO[family] } as const;
  const tables: { table: string; rules: number; chains: string[] }[] = [];
  for (const record of (await kernel.dump(request)).records) {
    if (record.kind === 'legacyTable') {
      tables.push({ table: record.table, rules: record.rules, chains: [] });
    } else if (record.kind === 'legacyChain') {
      tables.at(-1)?.chains.push(record.chain);
    }
  }
  return tables;
}
