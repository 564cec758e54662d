/** Which chains and rules of a table of iptables go, whichever program wrote it. */
import { VERDICT } from '../kernel/nft/constants.ts';
import { type IptablesTable, isKubeProxyJump } from './names.ts';

/** What others still need stays in any case; what nothing of ours replaces may, too. */
export type Scope = 'replaced' | 'all';

/**
 * It accepts forwarded traffic of Services. Nothing in another table can do that where the policy
 * is to drop (Docker makes it so): a drop anywhere is final.
 */
const acceptingChain = 'KUBE-FORWARD';

/** A rule that jumps or goes to a chain. */
export interface Reference {
  readonly target: string;
  /** Of nf_tables; 0 in iptables-legacy, where rules have none. */
  readonly handle: number;
}

interface Jump extends Reference {
  readonly table: IptablesTable;
  /** The built-in chain that the rule is in. */
  readonly chain: string;
}

interface Chain {
  readonly table: IptablesTable;
  readonly chain: string;
}

/** kube-proxy's, but it has to stay. */
export interface KeptChain extends Chain {
  /** `chain KUBE-HP-A refers to it`. */
  readonly because: string;
}

export interface Judgement {
  readonly jumps: readonly Jump[];
  readonly chains: readonly Chain[];
  readonly kept: readonly KeptChain[];
}

/** A table as it was found. */
export interface Found {
  readonly table: IptablesTable;
  /** Every chain by name; `policy`: NF_ACCEPT or NF_DROP, of a built-in one. */
  readonly chains: ReadonlyMap<string, { readonly isBuiltIn: boolean; readonly policy: number }>;
  /** The references in a chain, whatever else is in it. */
  readonly referencesIn: (chain: string) => Promise<readonly Reference[]>;
}

/** Rejects as `referencesIn` does. `isOwn`: by its name, a chain can only be kube-proxy's. */
export async function judge(
  found: Found,
  isOwn: (chain: string) => boolean,
  scope: Scope,
): Promise<Judgement> {
  const { table, chains: all, referencesIn } = found;
  const own = new Set([...all.keys()].filter(isOwn));
  const kept = new Map<string, string>();
  if (scope === 'replaced' && isDropping(found) && own.delete(acceptingChain)) {
    kept.set(acceptingChain, 'the policy of FORWARD is to drop, and what it accepts would be lost');
  }
  const jumps: Jump[] = [];
  if (own.size === 0 && kept.size === 0) return { jumps, chains: [], kept: [] };
  // kube-proxy's own rules may be hundreds of thousands: they are not needed.
  for (const [chain, { isBuiltIn }] of all) {
    if (own.has(chain)) continue;
    for (const reference of await referencesIn(chain)) {
      const { target } = reference;
      if (!own.has(target)) continue;
      if (isBuiltIn && isKubeProxyJump(table, chain, target)) {
        jumps.push({ table, chain, ...reference });
      } else {
        kept.set(target, `chain ${chain} refers to it`);
      }
    }
  }
  // What stays needs what it refers to. (The Map grows while it is walked.)
  for (const [chain] of kept) {
    for (const { target } of await referencesIn(chain)) {
      if (own.has(target) && !kept.has(target)) kept.set(target, `chain ${chain} refers to it`);
    }
  }
  return {
    jumps,
    chains: [...own].filter((chain) => !kept.has(chain)).map((chain) => ({ table, chain })),
    kept: [...kept].map(([chain, because]) => ({ table, chain, because })),
  };
}

function isDropping({ table, chains }: Found): boolean {
  const forward = chains.get('FORWARD');
  return table === 'filter' && forward?.isBuiltIn === true && forward.policy === VERDICT.drop;
}
