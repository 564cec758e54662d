/** What kube-proxy has left in nf_tables, in its own table and among iptables-nft's. Read-only. */
import type { Kernel } from '../kernel/kernel.ts';
import { NFPROTO, VERDICT } from '../kernel/nft/constants.ts';
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

/** What others still need stays in any case; what nothing of ours replaces may, too. */
export type Scope = 'replaced' | 'all';

/**
 * It accepts forwarded traffic of Services. Nothing in another table can do that where the policy
 * is to drop (Docker makes it so): a drop anywhere is final.
 */
const acceptingChain = 'KUBE-FORWARD';

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

/** kube-proxy's, but it has to stay. */
export interface KeptChain extends Chain {
  /** `chain KUBE-HP-A refers to it`. */
  readonly because: string;
}

export interface Leftovers {
  readonly family: Family;
  /** Tables of nftables mode. */
  readonly tables: readonly string[];
  readonly jumps: readonly Jump[];
  readonly chains: readonly Chain[];
  readonly kept: readonly KeptChain[];
}

type ChainReply = Extract<Reply, { kind: 'chain' }>;
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
  scope: Scope,
): Promise<Leftovers> {
  const tables = kinds.includes('nftables') ? await findTables(kernel, family) : [];
  if (!kinds.includes('iptables')) return { family, tables, jumps: [], chains: [], kept: [] };
  const all = await dump(kernel, { kind: 'chainsDump', family: NFPROTO[family], table: '' });
  const found = [];
  for (const table of iptablesTables) {
    const names = new Map<string, ChainReply>();
    for (const record of all) {
      if (record.kind === 'chain' && record.table === table) names.set(record.chain, record);
    }
    found.push(await findInTable(kernel, { family, table, names, scope }));
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

interface Place {
  readonly family: Family;
  readonly table: IptablesTable;
  /** Every chain of the table. */
  readonly names: ReadonlyMap<string, ChainReply>;
  readonly scope: Scope;
}

async function findInTable(
  kernel: Kernel,
  place: Place,
): Promise<Pick<Leftovers, 'jumps' | 'chains' | 'kept'>> {
  const { family, table, names } = place;
  const own = new Set([...names.keys()].filter((name) => isKubeProxyChain(table, name)));
  const kept = new Map<string, string>();
  if (isAcceptingNeeded(place) && own.delete(acceptingChain)) {
    kept.set(acceptingChain, 'the policy of FORWARD is to drop, and what it accepts would be lost');
  }
  const jumps: Jump[] = [];
  if (own.size === 0 && kept.size === 0) return { jumps, chains: [], kept: [] };
  // kube-proxy's own rules may be hundreds of thousands: they are not needed.
  for (const [chain, { type }] of names) {
    if (own.has(chain)) continue;
    for (const { handle, target } of await targets(kernel, family, table, chain)) {
      if (!own.has(target)) continue;
      const isBuiltIn = type !== '';
      if (isBuiltIn && isKubeProxyJump(table, chain, target)) {
        jumps.push({ table, chain, handle, target });
      } else {
        kept.set(target, `chain ${chain} refers to it`);
      }
    }
  }
  // What stays needs what it refers to. (The Map grows while it is walked.)
  for (const [chain] of kept) {
    for (const { target } of await targets(kernel, family, table, chain)) {
      if (own.has(target) && !kept.has(target)) kept.set(target, `chain ${chain} refers to it`);
    }
  }
  const chains = [...own].filter((chain) => !kept.has(chain));
  return {
    jumps,
    chains: chains.map((chain) => ({ table, chain })),
    kept: [...kept].map(([chain, because]) => ({ table, chain, because })),
  };
}

function isAcceptingNeeded({ table, names, scope }: Place): boolean {
  const forward = names.get('FORWARD');
  const drops = forward?.type === 'filter' && forward.policy === VERDICT.drop;
  return scope === 'replaced' && table === 'filter' && drops;
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
