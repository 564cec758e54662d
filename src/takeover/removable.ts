/** Decides which chains and rules of a table of iptables to delete. */
import { VERDICT } from '../kernel/nft/constants.ts';
import { type IptablesTable, isKubeProxyJump } from './names.ts';

/**
 * With `replaced`, chains stay that nothing of ours replaces. Chains that others need always stay.
 */
export type Scope = 'replaced' | 'all';

/**
 * Chains of table filter that accept packets: what Services forward, and what asks for their
 * health. Where the policy of the built-in chain is to drop (Docker and ufw set it so), no other
 * table can replace them, because a drop anywhere is final.
 */
const acceptingChains = { FORWARD: 'KUBE-FORWARD', INPUT: 'KUBE-NODEPORTS' } as const;

/** A rule that jumps or goes to a chain. */
export interface Reference {
  readonly target: string;
  /** The rule's handle in nf_tables; 0 in iptables-legacy, where rules have none. */
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

/** A chain of kube-proxy's that has to stay. */
export interface KeptChain extends Chain {
  /** `chain KUBE-HP-A refers to it`. */
  readonly because: string;
}

/** What to delete of a table, and what has to stay. */
export interface Removable {
  readonly jumps: readonly Jump[];
  readonly chains: readonly Chain[];
  readonly kept: readonly KeptChain[];
}

/** A table as it was read. */
export interface Found {
  readonly table: IptablesTable;
  /** Every chain by name; `policy`: NF_ACCEPT or NF_DROP, of a built-in one. */
  readonly chains: ReadonlyMap<string, { readonly isBuiltIn: boolean; readonly policy: number }>;
  /** The references in a chain. */
  readonly referencesIn: (chain: string) => Promise<readonly Reference[]>;
}

/** Rejects as `referencesIn` does. `isOwn`: by its name, a chain can only be kube-proxy's. */
export async function findRemovable(
  found: Found,
  isOwn: (chain: string) => boolean,
  scope: Scope,
): Promise<Removable> {
  const { table, chains: all, referencesIn } = found;
  const own = new Set([...all.keys()].filter(isOwn));
  const kept = new Map<string, string>();
  for (const [builtIn, accepting] of Object.entries(acceptingChains)) {
    const isNeeded = scope === 'replaced' && isDropping(found, builtIn);
    if (!isNeeded || !own.delete(accepting)) continue;
    kept.set(accepting, `the policy of ${builtIn} is to drop, and what it accepts would be lost`);
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

function isDropping({ table, chains }: Found, name: string): boolean {
  const chain = chains.get(name);
  return table === 'filter' && chain?.isBuiltIn === true && chain.policy === VERDICT.drop;
}
