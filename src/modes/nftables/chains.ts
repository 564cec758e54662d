/**
 * The chains of the layout: the fixed ones, and those of frontends, of which there is one for each
 * combination of paths and number of places in use, whatever the number of Services.
 */
import { baseChain, type ChainDefinition, type Rule } from '../../kernel/nft/chain.ts';
import { NF_INET } from '../../kernel/nft/constants.ts';
import { matchPorts } from '../../kernel/nft/ports.ts';
import {
  connectionProtocol,
  daddr,
  directionReply,
  dnatTo,
  dport,
  drop,
  goto,
  hashOf,
  inSet,
  inTurn,
  jump,
  l4proto,
  matchCIDR,
  matchConnectionProtocol,
  matchIcmp,
  matchLocalAddress,
  matchOutputInterface,
  matchProtocol,
  matchReset,
  matchSynAck,
  originalDaddr,
  originalDport,
  random,
  reject,
  replySaddr,
  replySport,
  returnToCaller,
  type Selector,
  type Statement,
  saddr,
  setMark,
  sport,
  stateKnown,
  stateNew,
  statusDNAT,
  statusUnconfirmed,
  statusYoungDNAT,
  updateSet,
  vmap,
} from '../../kernel/nft/rule.ts';
import type { Family } from '../../net/address.ts';
import { protocols } from '../../net/protocol.ts';
import { loopbackBlocks } from '../../net/special-address.ts';
import type { Balance } from '../../state/deal.ts';
import { isByClient, isRefusal, type Paths, wayOf } from '../../state/paths.ts';
import type { Frontend, ServicePortName } from '../../state/types.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import {
  chain,
  detectLocal,
  firewallCheck,
  frontendSelectors,
  ifNew,
  masquerading,
  rangeSelectors,
} from '../nft-table/parts.ts';
import { noPortChain, noServiceChain, refusalChains, rejecting } from '../nft-table/refusals.ts';
import type { FrontendMaps } from './frontend-maps.ts';
import { learnMaps, tableName } from './layout.ts';
import { pathOf } from './owner-comment.ts';

/**
 * Priorities as upstream's, on which CNIs rely (behaviour document 6.3): translation at dstnat and
 * srcnat (NF_IP_PRI_NAT_DST, NF_IP_PRI_NAT_SRC), source ranges before translation. At dstnat ours
 * is one behind upstream's: where kube-proxy serves again, the rules that we left translate only
 * what kube-proxy does not know (docs/decisions/0016-behind-kube-proxy.md).
 */
const priority = { preDNAT: -110, dstnat: -99, filter: 0, srcnat: 100 } as const;

const nodePortSelectors: readonly Selector[] = [l4proto, dport];

/** The fixed chains, a jump's target before the jump. */
export function fixedChains(config: ModeConfig, environment: Environment): ChainDefinition[] {
  const { asIptables, countsTraffic, family } = config;
  const frontend = frontendSelectors(family);
  const range = rangeSelectors(family);
  const toNodePort = nodePortDestination(config, environment);
  const toLoopback = opensLoopback(config) ? [loopbackGuard(family)] : [];
  const ofClusterIP = (operator: '==' | '!=') =>
    asIptables ? [inSet([daddr(family)], 'cluster-ips', operator)] : [];
  const endpointsCheck = jump('service-endpoints-check');
  const unclaimed = asIptables ? [] : [ifNew('cluster-ips-check')];
  // A client that repeats itself would be bound again to an endpoint that has gone.
  const toLearning: Rule = [stateNew, statusUnconfirmed, statusDNAT, jump('learning')];
  const toAnswers: Rule = [...youngReply, toAnswersChain];
  const counted = (...rules: readonly Rule[]) => (countsTraffic ? rules : []);
  // A second proxy refuses before the first one drops what is of no Service that it knows.
  const filter = config.table === undefined || config.table === tableName ? priority.filter : -1;
  return [
    // `reject` is only allowed in input, forward and output before Linux 5.9.
    rejecting(family, countsTraffic),
    ...(countsTraffic ? countingChains(family) : []),
    chain('nodeports', [
      [vmap(nodePortSelectors, 'firewall-nodeports')],
      ...counted([inSet(nodePortSelectors, 'nodeport-connections')]),
      [vmap(nodePortSelectors, 'sticky-nodeports')],
      [vmap(nodePortSelectors, 'nodeports')],
    ]),
    // The first rule translates clients that session affinity remembers, which ends the chain.
    chain('services', [
      ...counted([inSet(frontend, 'connections')]),
      [vmap(frontend, 'sticky-services')],
      [vmap(frontend, 'services')],
      [vmap(range, 'ranges')],
      [...toNodePort, goto('nodeports')],
    ]),
    chain('service-endpoints-check', [
      [vmap(frontend, 'no-endpoint-services')],
      [vmap(range, 'no-endpoint-ranges')],
    ]),
    chain('nodeport-endpoints-check', [
      [
        ...(asIptables ? [matchLocalAddress('daddr')] : toNodePort),
        vmap(nodePortSelectors, 'no-endpoint-nodeports'),
      ],
    ]),
    chain('cluster-ips-check', [
      [inSet([daddr(family)], 'cluster-ips'), countsTraffic ? goto(noPortChain) : reject(family)],
      [inSet([daddr(family)], 'service-cidrs'), countsTraffic ? goto(noServiceChain) : drop],
    ]),
    ...(opensLoopback(config) ? [loopbackCheck] : []),
    firewallCheck(family),
    masquerading(
      family,
      config.masqueradeMark,
      hairpins(family).map((hairpin) => [statusDNAT, ...hairpin]),
    ),
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
      [
        ...toLoopback,
        ...counted(toAnswers),
        toLearning,
        ifNew('nodeport-endpoints-check'),
        [stateNew, ...ofClusterIP('!='), endpointsCheck],
      ],
      baseChain('filter', NF_INET.LOCAL_IN, filter),
    ),
    // Before masquerading, so that the client's own address is learnt.
    chain(
      'filter-postrouting',
      [...counted([...youngReply, matchOutputInterface('!=', 'lo'), toAnswersChain]), toLearning],
      baseChain('filter', NF_INET.POST_ROUTING, filter),
    ),
    chain(
      'filter-forward',
      [ifNew('service-endpoints-check'), ...unclaimed],
      baseChain('filter', NF_INET.FORWARD, filter),
    ),
    ...(asIptables ? [hairpinMarks(config)] : []),
    chain(
      'filter-output',
      [...toLoopback, [stateNew, ...ofClusterIP('=='), endpointsCheck], ...unclaimed],
      baseChain('filter', NF_INET.LOCAL_OUT, filter),
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

/**
 * The chains that count traffic. Connections to endpoints are counted after translation of the
 * destination, by base chains of type nat, which see only the first packet of each connection.
 * These come before srcnat: a chain that translates the source ends the evaluation of nat chains.
 */
function countingChains(family: Family): ChainDefinition[] {
  const toEndpoint = [originalDaddr(family), l4proto, originalDport, daddr(family), dport];
  const toCounting: Rule = [statusDNAT, jump('count-endpoints')];
  const beforeSrcnat = priority.srcnat - 1;
  return [
    ...refusalChains(family),
    chain(
      'count-endpoints',
      protocols.map((protocol) => [
        matchProtocol(protocol),
        updateSet('endpoint-connections', toEndpoint),
      ]),
    ),
    chain('count-answers', answerRules(family)),
    chain('count-input', [toCounting], baseChain('nat', NF_INET.LOCAL_IN, beforeSrcnat)),
    chain('count-postrouting', [toCounting], baseChain('nat', NF_INET.POST_ROUTING, beforeSrcnat)),
  ];
}

/** The packets in which an endpoint may give its first answer, or refuse. */
const youngReply: Rule = [statusYoungDNAT, directionReply];
const toAnswersChain = jump('count-answers');

/**
 * Counts what endpoints answer. The kernel knows a connection as young until both sides have sent
 * more than a first packet: a datagram socket for two seconds. Errors of ICMP belong to the
 * connection that they are about. Packets between two addresses of this node are counted at the
 * hook input only.
 */
function answerRules(family: Family): Rule[] {
  const answered = (protocol: Selector) => [
    ...[originalDaddr(family), protocol, originalDport, replySaddr(family), replySport],
  ];
  const answers = updateSet('endpoint-answers', answered(l4proto));
  const resets = updateSet('endpoint-resets', answered(l4proto));
  const errors = updateSet('endpoint-resets', answered(connectionProtocol));
  return [
    [matchProtocol('TCP'), matchReset, resets],
    [matchProtocol('TCP'), matchSynAck, answers],
    [matchProtocol('UDP'), answers],
    [matchIcmp(family), matchConnectionProtocol('TCP'), errors],
    [matchIcmp(family), matchConnectionProtocol('UDP'), errors],
  ];
}

/** Whether node ports are open on loopback addresses, by `route_localnet`. */
export function opensLoopback({ asIptables, localhostNodePorts }: ModeConfig): boolean {
  return asIptables && localhostNodePorts;
}

/**
 * Marks endpoints that reach themselves before chain KUBE-FORWARD of iptables, which accepts what
 * is to be masqueraded.
 */
function hairpinMarks({ family, masqueradeMark }: ModeConfig): ChainDefinition {
  return chain(
    'filter-forward-hairpin',
    hairpins(family).map((hairpin) => [stateNew, statusDNAT, ...hairpin, setMark(masqueradeMark)]),
    baseChain('filter', NF_INET.FORWARD, priority.filter - 1),
  );
}

/** Match endpoints that reach themselves: at their port, or at any where a range leads to them. */
function hairpins(family: Family): Rule[] {
  const destinations = [frontendSelectors(family), rangeSelectors(family)];
  return destinations.map((to) => [inSet([saddr(family), ...to], 'hairpin')]);
}

const loopbackCheckName = 'loopback-check';

/**
 * With `route_localnet`, the kernel routes packets to loopback addresses. Without this chain, other
 * machines could reach what listens only there.
 */
const loopbackCheck = chain(loopbackCheckName, [
  [stateKnown, returnToCaller],
  [statusDNAT, returnToCaller],
  [drop],
]);

function loopbackGuard(family: Family): Rule {
  const block = loopbackBlocks[family];
  const strange = [matchCIDR('daddr', '==', block), matchCIDR('saddr', '!=', block)];
  return [...strange, jump(loopbackCheckName)];
}

function nodePortDestination(config: ModeConfig, { nodePortAddresses }: Environment): Rule {
  const { family } = config;
  if (nodePortAddresses !== 'all') return [inSet([daddr(family)], 'nodeport-ips')];
  const outside = matchCIDR('daddr', '!=', loopbackBlocks[family]);
  return [matchLocalAddress('daddr'), ...(opensLoopback(config) ? [] : [outside])];
}

/**
 * Session affinity is learnt after translation, when the chosen endpoint is the destination. There
 * is a rule for each protocol: nft takes the original port only where a rule names the protocol.
 */
function learning(family: Family): Rule[] {
  const original = [originalDaddr(family), originalDport];
  return protocols.flatMap((protocol) => [
    [matchProtocol(protocol), vmap(original, learnMaps[protocol])],
    [matchProtocol(protocol), vmap([l4proto, originalDport], 'learn-nodeports')],
  ]);
}

/** How a slot is drawn; `turn`: by the next number of a counter that is the Service port's own. */
type Draw = 'random' | 'source' | 'flow' | 'turn';

const drawOf: Readonly<Record<Balance, Draw>> = {
  random: 'random',
  'round-robin': 'turn',
  'source-hash': 'source',
  'flow-hash': 'flow',
  // The table makes the difference.
  maglev: 'flow',
  // Places follow connections.
  'least-connections': 'random',
};

function drawn(family: Family, draw: Draw, count: number): Selector {
  switch (draw) {
    case 'random':
      return random(count);
    case 'source':
      return hashOf([saddr(family)], count);
    // Address and port of the frontend are the same for all that draw from its slots.
    case 'flow':
      return hashOf([saddr(family), sport], count);
    case 'turn':
      return inTurn(count);
  }
}

/**
 * The number in the names of a pool's chains, and of places among which they draw: a power of two,
 * so that most changes of a pool change elements alone. Each new verdict has the kernel walk all
 * verdict maps (`nft_table_validate`). Draws by a hash or in turn know the number itself.
 */
export function placesOf(count: number, draw: Draw = 'random'): number {
  if (draw !== 'random' || count === 0) return count;
  return Math.max(2, 1 << (32 - Math.clz32(count - 1)));
}

/**
 * How often a packet draws among all places, of which fewer than half are empty. After this many
 * misses, at most one in 64, it draws among the first half, which is full.
 */
const draws = 6;

/**
 * `pick-4-b`, `nodeport-local-pick-4`, `pick-source-3-b`: translates to one of the `count` endpoints
 * of the map. The last draw finds an endpoint also where the pool shrank after the packet came to
 * the chain.
 */
function pickChain(
  config: ModeConfig,
  { deal, isRange, maps }: Pick<PathClass, 'deal' | 'isRange' | 'maps'>,
  pool: Pool,
  count: number,
): ChainDefinition {
  const { family } = config;
  const selectors = isRange ? rangeSelectors : frontendSelectors;
  const key = maps.prefix === '' ? selectors(family) : nodePortSelectors;
  const map = pool === 'local' ? maps.localEndpoints : maps.endpoints;
  const suffix = pool === 'local' ? '' : maps.suffix;
  const { draw, infix, owner } = dealtBy(deal);
  const kind = `${prefixOf({ isRange, maps })}${pool === 'local' ? 'local-' : ''}pick`;
  const places = placesOf(count, draw);
  const name = `${kind}${infix}-${places}${suffix}${owner}`;
  const all = drawn(family, draw, places);
  const isExact = draw !== 'random' || places === 2;
  const many = isExact ? [all] : [...Array<Selector>(draws).fill(all), random(places / 2)];
  const rules = [...many, random(1)].map((index): Rule => {
    return [dnatTo(family, [...key, index], map, isRange)];
  });
  return chain(name, rules);
}

/** What the names of chains begin with that differ by the keys of frontends. */
function prefixOf({ isRange, maps }: Pick<PathClass, 'isRange' | 'maps'>): string {
  return isRange ? 'range-' : maps.prefix;
}

/** What the names of chains say of a deal: nothing where slots are drawn at random. */
function dealtBy(deal: PathClass['deal']) {
  const draw = deal === undefined ? 'random' : drawOf[deal.balance];
  if (draw === 'random') return { draw, infix: '', owner: '' };
  // A counter that several Services shared would be no turn of any of them.
  const owner = draw === 'turn' ? `-${pathOf(deal!.servicePort)}` : '';
  return { draw, infix: `-${draw}`, owner };
}

/** `primary`: the pool in the map `endpoints`. `local`: that in `localEndpoints`. */
type Pool = 'primary' | 'local';

/** What the chain of a frontend that does not refuse pods is made from. */
export interface PathClass {
  readonly maps: FrontendMaps;
  /** It has a range of ports. */
  readonly isRange: boolean;
  readonly paths: Paths;
  readonly endpoints: number;
  /** Only where clients outside have a pool of their own. */
  readonly localEndpoints: number;
  /** Undefined: at random. */
  readonly deal?: { readonly balance: Balance; readonly servicePort: ServicePortName } | undefined;
}

/** Whether other Services with as many slots have the same chains, most of them. */
export function isCommon(deal: PathClass['deal']): boolean {
  return dealtBy(deal).draw === 'random';
}

/**
 * The chain that a frontend's verdict goes to, preceded by the chains that it needs. Chains with
 * the same name have the same content.
 */
export function pathChains(config: ModeConfig, pathClass: PathClass): ChainDefinition[] {
  const { deal, maps, paths, endpoints, localEndpoints } = pathClass;
  const primary = pickChain(config, pathClass, 'primary', endpoints);
  const pick = goto(primary.name);
  const { draw, infix, owner } = dealtBy(deal);
  const way = wayOf(paths);
  const kind = way === 'internal' ? 'cluster' : way;
  const lead = (counts: string, rules: readonly Rule[]): ChainDefinition =>
    chain(`${prefixOf(pathClass)}${kind}${infix}-${counts}${maps.suffix}${owner}`, rules);
  const places = placesOf(endpoints, draw);
  if (!isByClient(paths)) {
    return [primary, lead(`${places}`, [...markMasqueraded(config, paths), [pick]])];
  }
  const fromNode = matchLocalAddress('saddr');
  const rules = [
    ...detectLocal(config.localDetector, '==').map((match) => [match, pick]),
    [fromNode, setMark(config.masqueradeMark)],
    [fromNode, pick],
  ];
  const counts = `${places}-${placesOf(localEndpoints, draw)}`;
  // Without local endpoints the packet is not translated, and no-endpoint-services drops it.
  if (isRefusal(paths.outside.to)) return [primary, lead(counts, rules)];
  const local = pickChain(config, pathClass, 'local', localEndpoints);
  return [primary, local, lead(counts, [...rules, [goto(local.name)]])];
}

/** `ports-10000-19999-NAME`: the statements, one after the other, for ports of the range. */
export function rangeChain(
  { port, lastPort }: Frontend,
  name: string,
  statements: readonly Statement[],
): ChainDefinition {
  const inRange = matchPorts(port, lastPort!);
  return chain(
    `ports-${port}-${lastPort}-${name}`,
    statements.map((one) => [inRange, one]),
  );
}

/** Rules that mark packets to be masqueraded, where all clients have one pool. */
export function markMasqueraded(config: ModeConfig, { pod }: Paths): Rule[] {
  const mark = setMark(config.masqueradeMark);
  if (pod.isMasqueraded || config.masqueradeAll) return [[mark]];
  return detectLocal(config.localDetector, '!=').map((match) => [match, mark]);
}
