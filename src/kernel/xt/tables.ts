/** Tables and built-in chains as iptables-nft 1.8.9 makes them: only those that a rule needs. */
import type { Family } from '../../net/address.ts';
import { NF_INET, NFPROTO } from '../nft/constants.ts';
import { keepPolicy, type nftOps } from '../ops.ts';
import type { RecordWriter } from '../records.ts';

export type XtTable = 'nat' | 'filter' | 'mangle';

/** A base chain in the terms of nf_tables. */
interface BuiltIn {
  readonly type: 'filter' | 'nat' | 'route';
  readonly hook: number;
  readonly priority: number;
}

const { PRE_ROUTING, LOCAL_IN, FORWARD, LOCAL_OUT, POST_ROUTING } = NF_INET;
/** NF_IP_PRI_* */
const PRI = { MANGLE: -150, NAT_DST: -100, FILTER: 0, NAT_SRC: 100 } as const;

const nat = (hook: number, priority: number): BuiltIn => ({ type: 'nat', hook, priority });
const filter = (hook: number): BuiltIn => ({ type: 'filter', hook, priority: PRI.FILTER });
const mangle = (hook: number, type: BuiltIn['type'] = 'filter'): BuiltIn => {
  return { type, hook, priority: PRI.MANGLE };
};

/** The built-in chains of each table, by name. */
export const builtInChains = {
  nat: {
    PREROUTING: nat(PRE_ROUTING, PRI.NAT_DST),
    INPUT: nat(LOCAL_IN, PRI.NAT_SRC),
    OUTPUT: nat(LOCAL_OUT, PRI.NAT_DST),
    POSTROUTING: nat(POST_ROUTING, PRI.NAT_SRC),
  },
  filter: { INPUT: filter(LOCAL_IN), FORWARD: filter(FORWARD), OUTPUT: filter(LOCAL_OUT) },
  mangle: {
    PREROUTING: mangle(PRE_ROUTING),
    INPUT: mangle(LOCAL_IN),
    FORWARD: mangle(FORWARD),
    // A change of the mark is a reason to look for a route again.
    OUTPUT: mangle(LOCAL_OUT, 'route'),
    POSTROUTING: mangle(POST_ROUTING),
  },
} as const satisfies Record<XtTable, Readonly<Record<string, BuiltIn>>>;

export type BuiltInChain<T extends XtTable = XtTable> = T extends XtTable
  ? keyof (typeof builtInChains)[T] & string
  : never;

/** Makes the table unless it is there. */
export function writeTable(out: RecordWriter<typeof nftOps>, family: Family, table: XtTable): void {
  out.write('tableAdd', { family: NFPROTO[family], table, comment: '' });
}

/**
 * Makes the built-in chain unless it is there. The policy of one that is there stays as it is; the
 * kernel refuses (EEXIST, EOPNOTSUPP) when it is another kind of chain.
 */
export function writeBuiltInChain<T extends XtTable>(
  out: RecordWriter<typeof nftOps>,
  family: Family,
  table: T,
  chain: BuiltInChain<T>,
): void {
  const builtIn = (builtInChains[table] as Readonly<Record<string, BuiltIn>>)[chain]!;
  const inChain = { family: NFPROTO[family], table, chain };
  out.write('baseChainAdd', { ...inChain, ...builtIn, policy: keepPolicy, comment: '' });
}
