/**
 * The chains of the layout: what IPVS does not do itself, around its hooks. IPVS takes packets from
 * outside in `input` at 99, after filters, and the node's own in `output` at -98 (ip_vs_ops,
 * net/netfilter/ipvs/ip_vs_core.c), so that the node's own packets are filtered before that.
 */
import { baseChain, type ChainDefinition, type Rule } from '../../kernel/nft/chain.ts';
import { NF_INET } from '../../kernel/nft/constants.ts';
import {
  daddr,
  dport,
  drop,
  goto,
  inSet,
  jump,
  l4proto,
  matchLocalAddress,
  matchProtocol,
  matchSyn,
  reject,
  resetTCP,
  returnToCaller,
  type Statement,
  setMark,
} from '../../kernel/nft/rule.ts';
import type { Family } from '../../net/address.ts';
import type { ModeConfig } from '../mode.ts';
import {
  chain,
  detectLocal,
  firewallCheck,
  frontendSelectors,
  ifNew,
  masquerading,
} from '../nft-table/parts.ts';
import {
  dropChain,
  noPortChain,
  noServiceChain,
  refusalChains,
  rejectChain,
  rejecting,
} from '../nft-table/refusals.ts';

const priority = { beforeIPVS: -110, filter: 0, srcnat: 100 } as const;

type ChainConfig = Pick<
  ModeConfig,
  'family' | 'masqueradeAll' | 'masqueradeMark' | 'localDetector' | 'countsTraffic'
>;

/** All chains, a jump's target before the jump. They depend on the configuration only. */
export function chains(config: ChainConfig): ChainDefinition[] {
  const { countsTraffic, family } = config;
  const frontend = frontendSelectors(family);
  const refuse = countsTraffic ? countedEnds : plainEnds(family);
  return [
    ...(countsTraffic ? [rejecting(family, true), ...refusalChains(family)] : []),
    firewallCheck(family),
    chain('reset-unless-syn', [
      [matchProtocol('TCP'), matchSyn, returnToCaller],
      [matchProtocol('TCP'), resetTCP],
    ]),
    chain('endpoints-check', [
      [inSet(frontend, 'resets'), jump('reset-unless-syn')],
      [inSet(frontend, 'rejected'), refuse.rejected],
      [inSet(frontend, 'dropped'), refuse.dropped],
      ...detectLocal(config.localDetector, '==').map((match) => [match, returnToCaller]),
      [matchLocalAddress('saddr'), returnToCaller],
      [inSet(frontend, 'dropped-outside'), refuse.dropped],
    ]),
    // A VIP is local: without this, servers that listen on all addresses would listen on it too.
    chain('vip-ports-check', [
      [inSet(frontend, 'services'), returnToCaller],
      [inSet([l4proto, dport], 'health-check-ports'), returnToCaller],
      [inSet([daddr(family)], 'vips'), refuse.noPort],
      [inSet([daddr(family)], 'service-cidrs'), refuse.noService],
    ]),
    chain('mark-for-masquerade', markForMasquerade(config)),
    masquerading(family, config.masqueradeMark),
    chain(
      'filter-prerouting',
      [ifNew('firewall-check'), ifNew('mark-for-masquerade')],
      baseChain('filter', NF_INET.PRE_ROUTING, priority.beforeIPVS),
    ),
    chain(
      'filter-input',
      [ifNew('endpoints-check'), ifNew('vip-ports-check')],
      baseChain('filter', NF_INET.LOCAL_IN, priority.filter),
    ),
    // Packets to a VIP are never forwarded, so this chain sees other packets only.
    chain(
      'filter-forward',
      [ifNew('vip-ports-check')],
      baseChain('filter', NF_INET.FORWARD, priority.filter),
    ),
    chain(
      'filter-output',
      [ifNew('firewall-check'), ifNew('endpoints-check'), ifNew('mark-for-masquerade')],
      baseChain('filter', NF_INET.LOCAL_OUT, priority.beforeIPVS),
    ),
    // What IPVS has not taken, after a second proxy has translated what is for its Services.
    chain(
      'filter-output-post-dnat',
      [ifNew('vip-ports-check')],
      baseChain('filter', NF_INET.LOCAL_OUT, priority.filter),
    ),
    chain(
      'nat-postrouting',
      [[jump('masquerading')]],
      baseChain('nat', NF_INET.POST_ROUTING, priority.srcnat),
    ),
  ];
}

/** What becomes of packets that are refused. */
interface Ends {
  readonly rejected: Statement;
  readonly dropped: Statement;
  readonly noPort: Statement;
  readonly noService: Statement;
}

function plainEnds(family: Family): Ends {
  return { rejected: reject(family), dropped: drop, noPort: reject(family), noService: drop };
}

const countedEnds: Ends = {
  rejected: goto(rejectChain),
  dropped: goto(dropChain),
  noPort: goto(noPortChain),
  noService: goto(noServiceChain),
};

function markForMasquerade(config: ChainConfig): Rule[] {
  const frontend = frontendSelectors(config.family);
  const mark = setMark(config.masqueradeMark);
  const internal = inSet(frontend, 'internal');
  return [
    [inSet(frontend, 'external'), mark],
    // A connection of this node to a VIP comes from the VIP, to which endpoints cannot answer.
    [inSet(frontend, 'services'), matchLocalAddress('saddr'), mark],
    ...(config.masqueradeAll
      ? [[internal, mark]]
      : detectLocal(config.localDetector, '!=').map((match) => [internal, match, mark])),
  ];
}
