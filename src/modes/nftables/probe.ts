/** Asks the kernel whether it can do what the layout needs. */
import type { Kernel } from '../../kernel/kernel.ts';
import type { BaseChain } from '../../kernel/nft/chain.ts';
import { NF_INET } from '../../kernel/nft/constants.ts';
import { advice, type MissingFeature } from '../../kernel/nft/probe.ts';
import {
  dnatTo,
  hashOf,
  inSet,
  l4proto,
  masquerade,
  matchLocalAddress,
  matchMark,
  random,
  reject,
  saddr,
  stateNew,
  toggleMark,
  vmap,
} from '../../kernel/nft/rule.ts';
import type { Balance } from '../../state/deal.ts';
import type { ModeDealing } from '../mode.ts';
import { frontendSelectors } from '../nft-table/parts.ts';
import { type ProbedRule, probeTable } from '../nft-table/probe.ts';
import { tableLayout } from './layout.ts';

interface RuleProbe extends ProbedRule {
  readonly chain: keyof typeof probeChains;
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

function ask(kernel: Kernel, probes: readonly RuleProbe[]): Promise<readonly MissingFeature[]> {
  const chains = Object.entries(probeChains).map(([name, base]) => {
    return { name, base, rules: probes.filter(({ chain }) => chain === name) };
  });
  return probeTable(kernel, tableLayout(family), chains);
}

/** What the kernel lacks; empty = nothing. Rejects with KernelError (EPERM) if we may not ask. */
export function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  return ask(kernel, ruleProbes);
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
  balances: new Set<Balance>(['random', 'round-robin', 'least-connections', ...hashes]),
  unknown: new Set(hashes),
  usesTables: true,
  lack: async (kernel) => (await ask(kernel, [hashProbe]))[0]?.feature,
};
