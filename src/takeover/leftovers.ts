/** What kube-proxy has left in nf_tables, in its own table and among iptables-nft's. Read-only. */
import type { Kernel } from '../kernel/kernel.ts';
import { NFPROTO } from '../kernel/nft/constants.ts';
import { expressions, type Reply, type Request } from '../kernel/ops.ts';
import { readRecords } from '../kernel/records.ts';
import type { Family } from '../state/address.ts';
import {
  type IptablesTable,
  iptablesTables,
  isKubeProxyChain,
  isKubeProxyJump,
  nftablesTable,
} from './names.ts';

/** Which of kube-proxy's objects to look for: iptables' may be our own mode's. */
export type Kind = 'nftables' | 'iptables';

export interface Jump {
  readonly table: IptablesTable;
  /** The built-in chain that the rule is in. */
  readonly chain: string;
  readonly handle: number;
  readonly target: string;
}

export interface Chain {
  readonly table: IptablesTable;
  readonly chain: string;
}

/** kube-proxy's, but somebody else refers to it. */
export interface KeptChain extends Chain {
  /** The chain whose rule refers to it. */
  readonly referrer: string;
}

export interface Leftovers {
  readonly family: Family;
  /** Tables of nftables mode. */
  readonly tables: readonly string[];
  readonly jumps: readonly Jump[];
  readonly chains: readonly Chain[];
  readonly kept: readonly KeptChain[];
}

type RuleReply = Extract<Reply, { kind: 'rule' }>;

/** What was read may not be one state: somebody wrote meanwhile. */
export class UnsteadyError extends Error {
  override readonly name = 'UnsteadyError';

  constructor() {
    super('the ruleset changed while it was read');
  }
}

/** Rejects with UnsteadyError, or KernelError. */
export async function findLeftovers(
  kernel: Kernel,
  family: Family,
  kinds: readonly Kind[],
): Promise<Leftovers> {
  const tables = kinds.includes('nftables') ? await findTables(kernel, family) : [];
  if (!kinds.includes('iptables')) return { family, tables, jumps: [], chains: [], kept: [] };
  const all = await dump(kernel, { kind: 'chainsDump', family: NFPROTO[family], table: '' });
  const found = [];
  for (const table of iptablesTables) {
    const names = new Map<string, boolean>();
    for (const record of all) {
      if (record.kind !== 'chain' || record.table !== table) continue;
      names.set(record.chain, record.type !== '');
    }
    found.push(await findInTable(kernel, family, table, names));
  }
  return {
    family,
    tables,
    jumps: found.flatMap(({ jumps }) => jumps),
    chains: found.flatMap(({ chains }) => chains),
    kept: found.flatMap(({ kept }) => kept),
  };
}

async function findTables(kernel: Kernel, family: Family): Promise<string[]> {
  const records = await dump(kernel, { kind: 'tablesDump', family: NFPROTO[family] });
  const isThere = records.some((one) => one.kind === 'table' && one.table === nftablesTable);
  return isThere ? [nftablesTable] : [];
}

/** `names`: every chain of the table, and whether it is a built-in one. */
async function findInTable(
  kernel: Kernel,
  family: Family,
  table: IptablesTable,
  names: ReadonlyMap<string, boolean>,
): Promise<Pick<Leftovers, 'jumps' | 'chains' | 'kept'>> {
  const own = new Set([...names.keys()].filter((name) => isKubeProxyChain(table, name)));
  const jumps: Jump[] = [];
  const referrers = new Map<string, string>();
  if (own.size === 0) return { jumps, chains: [], kept: [] };
  // kube-proxy's own rules may be hundreds of thousands: they are not needed.
  for (const [chain, isBuiltIn] of names) {
    if (own.has(chain)) continue;
    for (const { handle, target } of await targets(kernel, family, table, chain)) {
      if (!own.has(target)) continue;
      if (isBuiltIn && isKubeProxyJump(table, chain, target)) {
        jumps.push({ table, chain, handle, target });
      } else {
        referrers.set(target, chain);
      }
    }
  }
  // What stays needs what it refers to.
  for (const [chain] of referrers) {
    for (const { target } of await targets(kernel, family, table, chain)) {
      if (own.has(target) && !referrers.has(target)) referrers.set(target, chain);
    }
  }
  const chains = [...own].filter((chain) => !referrers.has(chain));
  return {
    jumps,
    chains: chains.map((chain) => ({ table, chain })),
    kept: [...referrers].map(([chain, referrer]) => ({ table, chain, referrer })),
  };
}

/** The rules of a chain that jump or go to another, whatever else is in them. */
async function targets(
  kernel: Kernel,
  family: Family,
  table: IptablesTable,
  chain: string,
): Promise<{ handle: number; target: string }[]> {
  const request = { kind: 'rulesDump', family: NFPROTO[family], table, chain } as const;
  const rules = (await dump(kernel, request)).filter((one): one is RuleReply => {
    return one.kind === 'rule';
  });
  return rules.flatMap(({ handle, expressions: bytes }) =>
    [...readRecords(expressions, bytes)].flatMap((expression) =>
      expression.kind === 'immediateVerdict' && expression.chain !== ''
        ? [{ handle, target: expression.chain }]
        : [],
    ),
  );
}

async function dump(kernel: Kernel, request: Request): Promise<readonly Reply[]> {
  const { records, consistent } = await kernel.dump(request);
  if (!consistent) throw new UnsteadyError();
  return records;
}
