/**
 * The tables of iptables-legacy, which are not those of iptables-nft. Packets meet both, and each
 * program shows only its own.
 */
import type { Family } from '../../net/address.ts';
import type { KernelReader } from '../kernel.ts';
import { NFPROTO } from '../nft/constants.ts';
import { unknownIndex } from '../ops.ts';

interface LegacyChain {
  /** Whether it is at a hook. Other chains are made by users. */
  readonly isBuiltIn: boolean;
  /** NF_ACCEPT or NF_DROP, of one at a hook. */
  readonly policy: number;
  /** The chains that its rules jump or go to, in order. */
  readonly targets: readonly string[];
}

/** A table of iptables-legacy. It may be empty. */
export interface LegacyTable {
  readonly table: string;
  /** Rules in all its chains, without policies. */
  readonly rules: number;
  /** By name. */
  readonly chains: ReadonlyMap<string, LegacyChain>;
}

/** The tables that are there. Rejects with KernelError, with EPERM without CAP_NET_ADMIN. */
export async function legacyTables(
  kernel: KernelReader,
  family: Family,
): Promise<readonly LegacyTable[]> {
  const request = { kind: 'legacyTablesDump', family: NFPROTO[family] } as const;
  const tables: LegacyTable[] = [];
  let chains = new Map<string, LegacyChain>();
  let targets: string[] = [];
  for (const record of (await kernel.dump(request)).records) {
    if (record.kind === 'legacyTable') {
      const { table, rules } = record;
      chains = new Map();
      tables.push({ table, rules, chains });
    } else if (record.kind === 'legacyChain') {
      const { chain, hook, policy } = record;
      targets = [];
      chains.set(chain, { isBuiltIn: hook !== unknownIndex, policy, targets });
    } else if (record.kind === 'legacyJump') {
      targets.push(record.target);
    }
  }
  return tables;
}
