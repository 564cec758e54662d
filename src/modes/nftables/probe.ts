/**
 * Asks the kernel whether it can do what the layout needs: everything is put into one transaction
 * whose last op must fail, so that the kernel judges all of it and keeps nothing.
 */
import type { Kernel } from '../../kernel/kernel.ts';
import type { BaseChain } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO } from '../../kernel/nft/constants.ts';
import { advice, type MissingFeature, probeTransaction } from '../../kernel/nft/probe.ts';
import {
  compileRule,
  dnatTo,
  hashOf,
  inSet,
  l4proto,
  masquerade,
  matchLocalAddress,
  matchMark,
  random,
  reject,
  type Statement,
  saddr,
  stateNew,
  toggleMark,
  vmap,
} from '../../kernel/nft/rule.ts';
import { fieldsOfSet } from '../../kernel/nft/sets.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import type { Balance } from '../../state/deal.ts';
import type { ModeDealing } from '../mode.ts';
import { frontendSelectors } from '../nft-table/parts.ts';
import { tableLayout } from './layout.ts';

interface RuleProbe extends MissingFeature {
  readonly chain: keyof typeof probeChains;
  readonly statements: readonly Statement[];
}

const probeChains = {
  nat: { type: 'nat', hook: NF_INET.PRE_ROUTING, priority: -100 },
  postrouting: { type: 'nat', hook: NF_INET.POST_ROUTING, priority: 100 },
  filter: { type: 'filter', hook: NF_INET.LOCAL_IN, priority: 0 },
} as const satisfies Record<string, BaseChain>;

const family = 'IPv4';

const ruleProbes: readonly RuleProbe[] = [
  {
    feature: 'expression lookup in a verdict map',
    advice: advice('CONFIG_NF_TABLES', 'nf_tables'),
    chain: 'filter',
    statements: [vmap(frontendSelectors(family), 'services')],
  },
  {
    feature: 'expression numgen',
    advice: advice('CONFIG_NFT_NUMGEN', 'nft_numgen'),
    chain: 'filter',
    // In a set of 4-byte keys: before Linux 6.5 a map can't be looked up like a set.
    statements: [inSet([random(2)], 'cluster-ips')],
  },
  {
    feature: 'expression dnat to a map',
    advice: advice('CONFIG_NFT_NAT', 'nft_nat'),
    chain: 'nat',
    statements: [dnatTo(family, [...frontendSelectors(family), l4proto], 'endpoints-a')],
  },
  {
    feature: 'expression masquerade',
    advice: advice('CONFIG_NFT_MASQ', 'nft_masq'),
    chain: 'postrouting',
    statements: [matchMark(0x4000), toggleMark(0x4000), masquerade],
  },
  {
    feature: 'expression reject',
    advice: advice('CONFIG_NFT_REJECT_INET', 'nft_reject_inet'),
    chain: 'filter',
    statements: [reject(family)],
  },
  {
    feature: 'expression fib',
    advice: advice('CONFIG_NFT_FIB_IPV4', 'nft_fib_ipv4'),
    chain: 'filter',
    statements: [matchLocalAddress('daddr')],
  },
  {
    feature: 'expression ct',
    advice: advice('CONFIG_NFT_CT', 'nft_ct'),
    chain: 'filter',
    statements: [stateNew],
  },
];

/** Every op of the probe with the meaning of its refusal. */
function probeBatch(rules: readonly RuleProbe[]): {
  ops: Uint8Array;
  features: (MissingFeature | undefined)[];
} {
  const writer = new RecordWriter(nftOps);
  const features: (MissingFeature | undefined)[] = [];
  const table = { family: NFPROTO[family], table: `fairlead-probe-${process.pid}` };
  const nfTables = { feature: 'nf_tables', advice: advice('CONFIG_NF_TABLES', 'nf_tables') };
  features[writer.write('tableAdd', { ...table, comment: '' })] = nfTables;
  for (const [name, definition] of Object.entries(tableLayout(family).sets)) {
    features[writer.write('setAdd', fieldsOfSet(family, table.table, definition))] = {
      feature: `set ${name}`,
      advice: 'needs Linux 5.6 or newer (concatenations with ranges)',
    };
  }
  for (const [chain, base] of Object.entries(probeChains)) {
    const fields = { ...table, chain, ...base, policy: 1, comment: '' };
    features[writer.write('baseChainAdd', fields)] = {
      feature: `base chain of type ${base.type}`,
      advice: advice('CONFIG_NFT_NAT and CONFIG_NF_NAT', 'nft_chain_nat'),
    };
  }
  for (const { chain, statements, ...missing } of rules) {
    const expressions = compileRule(statements);
    features[writer.write('ruleAdd', { ...table, chain, expressions, comment: '' })] = missing;
  }
  return { ops: writer.finish(), features };
}

/**
 * What the kernel lacks; empty = nothing. Throws KernelError (EPERM) without CAP_NET_ADMIN in the
 * network namespace's user namespace.
 */
export async function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const { ops, features } = probeBatch(ruleProbes);
  return probeTransaction(kernel, ops, features);
}

const hashProbe: RuleProbe = {
  feature: 'expression hash',
  advice: advice('CONFIG_NFT_HASH', 'nft_hash'),
  chain: 'filter',
  statements: [inSet([hashOf([saddr(family)], 2)], 'cluster-ips')],
};

const hashes: readonly Balance[] = ['source-hash', 'flow-hash', 'maglev'];

/** A kernel may lack hashes, which only some Services ask for. */
export const dealing: ModeDealing = {
  name: 'mode nftables',
  balances: new Set<Balance>(['random', 'round-robin', ...hashes]),
  unknown: new Set(hashes),
  usesTables: true,
  lack: async (kernel) => {
    const { ops, features } = probeBatch([hashProbe]);
    return (await probeTransaction(kernel, ops, features))[0]?.feature;
  },
};
