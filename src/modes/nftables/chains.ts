/**
 * The chains of the layout: the fixed ones, and the treatment chains, of which there is one for
 * each combination of treatment and endpoint count in use, whatever the number of Services.
 */
import { baseChain, type ChainDefinition, type Rule } from '../../kernel/nft/chain.ts';
import { NF_INET } from '../../kernel/nft/constants.ts';
import {
  daddr,
  dnatTo,
  dport,
  drop,
  goto,
  inSet,
  jump,
  l4proto,
  matchCIDR,
  matchLocalAddress,
  matchProtocol,
  originalDaddr,
  originalDport,
  random,
  reject,
  type Selector,
  saddr,
  setMark,
  stateNew,
  statusDNAT,
  updateMap,
  vmap,
} from '../../kernel/nft/rule.ts';
import { type CIDR, type Family, parseCIDR } from '../../state/address.ts';
import type { Protocol } from '../../state/types.ts';
import { detectLocal } from '../local-traffic.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import { chain, firewallCheck, frontendSelectors, ifNew, masquerading } from '../table-parts.ts';
import { type AffinitySet, affinitySets } from './layout.ts';
import type { Place } from './places.ts';

export const rejectChain = 'reject-chain';

/**
 * Priorities as upstream's, on which CNIs rely (behaviour document 6.3): translation at dstnat and
 * srcnat (NF_IP_PRI_NAT_DST, NF_IP_PRI_NAT_SRC), source ranges are checked before translation.
 */
const priority = { preDNAT: -110, dstnat: -100, filter: 0, srcnat: 100 } as const;

const nodePortSelectors: readonly Selector[] = [l4proto, dport];

/** The fixed chains, a jump's target before the jump. */
export function fixedChains(config: ModeConfig, environment: Environment): ChainDefinition[] {
  const { family } = config;
  const frontend = frontendSelectors(family);
  const toNodePort = nodePortDestination(family, environment);
  const toLearning: Rule = [stateNew, statusDNAT, jump('learning')];
  return [
    // `reject` is only allowed in input, forward and output before Linux 5.9.
    chain(rejectChain, [[reject(family)]]),
    chain('services', [
      [vmap(frontend, 'services')],
      [...toNodePort, vmap(nodePortSelectors, 'nodeports')],
    ]),
    chain('service-endpoints-check', [[vmap(frontend, 'no-endpoint-services')]]),
    chain('nodeport-endpoints-check', [
      [...toNodePort, vmap(nodePortSelectors, 'no-endpoint-nodeports')],
    ]),
    chain('cluster-ips-check', [
      [inSet([daddr(family)], 'cluster-ips'), reject(family)],
      [inSet([daddr(family)], 'service-cidrs'), drop],
    ]),
    firewallCheck(family),
    masquerading(family, config.masqueradeMark, [statusDNAT]),
    chain('learning', learning(family)),
    chain(
      'filter-prerouting-pre-dnat',
      [ifNew('firewall-check')],
      baseChain('filter', NF_INET.PRE_ROUTING, priority.preDNAT),
    ),
    chain(
      'filter-output-pre-dnat',
      [ifNew('firewall-check')],
      baseChain('filter', NF_INET.LOCAL_OUT, priority.preDNAT),
    ),
    chain(
      'filter-input',
      [toLearning, ifNew('nodeport-endpoints-check'), ifNew('service-endpoints-check')],
      baseChain('filter', NF_INET.LOCAL_IN, priority.filter),
    ),
    // Before masquerading, so that the client's own address is learnt.
    chain(
      'filter-postrouting',
      [toLearning],
      baseChain('filter', NF_INET.POST_ROUTING, priority.filter),
    ),
    chain(
      'filter-forward',
      [ifNew('service-endpoints-check'), ifNew('cluster-ips-check')],
      baseChain('filter', NF_INET.FORWARD, priority.filter),
    ),
    chain(
      'filter-output',
      [ifNew('service-endpoints-check'), ifNew('cluster-ips-check')],
      baseChain('filter', NF_INET.LOCAL_OUT, priority.filter),
    ),
    chain(
      'nat-prerouting',
      [[jump('services')]],
      baseChain('nat', NF_INET.PRE_ROUTING, priority.dstnat),
    ),
    chain('nat-output', [[jump('services')]], baseChain('nat', NF_INET.LOCAL_OUT, priority.dstnat)),
    chain(
      'nat-postrouting',
      [[jump('masquerading')]],
      baseChain('nat', NF_INET.POST_ROUTING, priority.srcnat),
    ),
  ];
}

const loopback = {
  IPv4: parseCIDR('127.0.0.0/8') as CIDR,
  IPv6: parseCIDR('::1/128') as CIDR,
} as const satisfies Record<Family, CIDR>;

/** Matches packets to an address of this node that accepts node ports (behaviour document 5.9). */
function nodePortDestination(family: Family, { nodePortAddresses }: Environment): Rule {
  return nodePortAddresses === 'all'
    ? [matchLocalAddress('daddr'), matchCIDR('daddr', '!=', loopback[family])]
    : [inSet([daddr(family)], 'nodeport-ips')];
}

const protocols = ['TCP', 'UDP', 'SCTP'] as const satisfies readonly Protocol[];

/**
 * Session affinity is learnt after translation, when the chosen endpoint is the destination. nft
 * only takes the original port where a rule names the protocol, hence a rule for each.
 */
function learning(family: Family): Rule[] {
  const original = [originalDaddr(family), l4proto, originalDport];
  return protocols.flatMap((protocol) => [
    [matchProtocol(protocol), vmap(original, 'learn')],
    [matchProtocol(protocol), vmap([l4proto, originalDport], 'learn-nodeports')],
  ]);
}

/** Which maps a frontend's clients are remembered in: see `learnChain`. */
export type Memory = 'cluster' | 'both';

/**
 * `learn-10800`: remembers for that many seconds which endpoint the client got. Where clients from
 * outside have a pool of their own (`both`), they are remembered apart: an endpoint that one pool
 * has may be wrong for clients of the other. Which of them a client is, is not known any more
 * after translation, so both maps learn it and each is read by its pool's chain only.
 */
export function learnChain(
  family: Family,
  timeoutSeconds: number,
  memory: Memory,
): ChainDefinition {
  const key = [saddr(family), originalDaddr(family), l4proto, originalDport];
  const endpoint = [daddr(family), dport];
  const maps: readonly AffinitySet[] = memory === 'both' ? affinitySets : ['affinity'];
  return chain(
    `learn-${memory === 'both' ? 'local-' : ''}${timeoutSeconds}`,
    protocols.flatMap((protocol) =>
      maps.map((map) => [matchProtocol(protocol), updateMap(map, key, endpoint, timeoutSeconds)]),
    ),
  );
}

/** `pick-3-b`, `nodeport-local-pick-3`: translates to one of the first `count` of the map. */
function pickChain(config: ModeConfig, place: Place, pool: Pool, count: number): ChainDefinition {
  const { family } = config;
  const key = place.prefix === '' ? frontendSelectors(family) : nodePortSelectors;
  const map = pool === 'local' ? place.localEndpoints : place.endpoints;
  const suffix = pool === 'local' ? '' : place.suffix;
  const name = `${place.prefix}${pool === 'local' ? 'local-' : ''}pick-${count}${suffix}`;
  return chain(name, [[dnatTo(family, [...key, random(count)], map)]]);
}

/** `sticky-pick-3-b`: goes to the client's remembered endpoint, if any, else picks one. */
function stickyChain(family: Family, pick: ChainDefinition, pool: Pool): ChainDefinition {
  const client = [saddr(family), ...frontendSelectors(family)];
  const map: AffinitySet = pool === 'local' ? 'local-affinity' : 'affinity';
  return chain(`sticky-${pick.name}`, [[dnatTo(family, client, map)], [goto(pick.name)]]);
}

/** `primary` is what the place's `endpoints` map holds, `local` what its `localEndpoints` holds. */
type Pool = 'primary' | 'local';

/** What a treatment chain is made from; see `Treatment` in state/types.ts. */
export interface TreatmentClass {
  readonly place: Place;
  readonly treatment: 'internal' | 'external' | 'external-local';
  readonly endpoints: number;
  /** Only for `external-local`. */
  readonly localEndpoints: number;
  readonly affinity: 'none' | 'ClientIP';
}

/**
 * The chain that a frontend's verdict goes to, preceded by the chains that it needs. Its name
 * says all that its content depends on.
 */
export function treatmentChains(config: ModeConfig, wanted: TreatmentClass): ChainDefinition[] {
  const { place, treatment, endpoints, localEndpoints } = wanted;
  const primary = pickChains(config, wanted, 'primary', endpoints);
  const pick = goto(primary.at(-1)!.name);
  const sticky = wanted.affinity === 'none' ? '' : 'sticky-';
  const treat = (name: string, rules: readonly Rule[]): ChainDefinition =>
    chain(`${place.prefix}${name}${place.suffix}`, rules);
  const mark = setMark(config.masqueradeMark);
  switch (treatment) {
    case 'internal': {
      const name = `cluster-${sticky}${endpoints}`;
      return [...primary, treat(name, [...markOffCluster(config), [pick]])];
    }
    case 'external':
      return [...primary, treat(`external-${sticky}${endpoints}`, [[mark], [pick]])];
    case 'external-local': {
      const fromNode = matchLocalAddress('saddr');
      const rules = [
        ...detectLocal(config.localDetector, '==').map((match) => [match, pick]),
        [fromNode, mark],
        [fromNode, pick],
      ];
      const name = `external-local-${sticky}${endpoints}-${localEndpoints}`;
      // Without local endpoints the packet stays as it is, and no-endpoint-services drops it.
      if (localEndpoints === 0) return [...primary, treat(name, rules)];
      const local = pickChains(config, wanted, 'local', localEndpoints);
      return [...primary, ...local, treat(name, [...rules, [goto(local.at(-1)!.name)]])];
    }
    default:
      return unreachable(treatment);
  }
}

/** The chain that picks an endpoint of a pool (last), preceded by the one that it needs. */
function pickChains(
  config: ModeConfig,
  { place, affinity }: TreatmentClass,
  pool: Pool,
  count: number,
): ChainDefinition[] {
  const pick = pickChain(config, place, pool, count);
  return affinity === 'none' ? [pick] : [pick, stickyChain(config.family, pick, pool)];
}

function markOffCluster(config: ModeConfig): Rule[] {
  const mark = setMark(config.masqueradeMark);
  if (config.masqueradeAll) return [[mark]];
  return detectLocal(config.localDetector, '!=').map((match) => [match, mark]);
}

function unreachable(value: never): never {
  throw new Error(`unexpected value ${JSON.stringify(value)}`);
}
