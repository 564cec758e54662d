/**
 * Translates one Forwarding to rules (behaviour document 7.5): its own chains, and its rules in
 * chains that all Services share. Pure. Paths and pools already include all policies.
 */
import { counterNames } from '../../kernel/acct.ts';
import type { Operator } from '../../kernel/xt/codec.ts';
import { localAddress } from '../../kernel/xt/matches/addrtype.ts';
import { countedIn } from '../../kernel/xt/matches/nfacct.ts';
import { dport, openTo } from '../../kernel/xt/matches/port.ts';
import { recentCheck, recentSet } from '../../kernel/xt/matches/recent.ts';
import { oneOf } from '../../kernel/xt/matches/statistic.ts';
import { is, isNot, type Target, type XtRule } from '../../kernel/xt/rule.ts';
import { dnat } from '../../kernel/xt/targets/dnat.ts';
import { masquerade } from '../../kernel/xt/targets/masquerade.ts';
import { reject, rejectByReset } from '../../kernel/xt/targets/reject.ts';
import { accept, drop, jump } from '../../kernel/xt/targets/verdict.ts';
import { Address } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import type { Protocol } from '../../net/protocol.ts';
import { loopbackBlocks } from '../../net/special-address.ts';
import { slotsOf, slotsOfEach } from '../../state/deal.ts';
import { isGuarded } from '../../state/guards.ts';
import {
  isByClient,
  isRefusal,
  leadsTo,
  type Paths,
  type PoolName,
  type Refusal,
} from '../../state/paths.ts';
import { type Forwarding, type Frontend, formatServicePortName } from '../../state/types.ts';
import type { LocalDetector, ModeConfig } from '../mode.ts';
import {
  type ChainRule,
  hairpinChain,
  hostOf,
  type IptablesConfig,
  markChain,
  remark,
} from './layout.ts';
import { endpointChain, type ServiceChains, serviceChains } from './names.ts';

interface Context {
  readonly config: IptablesConfig;
  readonly forwarding: Forwarding;
  /** `ns/name:port` */
  readonly name: string;
  readonly chains: ServiceChains;
  /** The frontends are ranges of ports. */
  readonly isRange: boolean;
}

function contextOf(config: IptablesConfig, forwarding: Forwarding, isRange: boolean): Context {
  const { servicePort } = forwarding;
  const name = formatServicePortName(servicePort);
  return { config, forwarding, name, chains: serviceChains(servicePort, isRange), isRange };
}

/** A chain of one Forwarding, in table nat. */
export interface OwnChain {
  readonly chain: string;
  /** How many rules it has. */
  readonly size: number;
  readonly rules: readonly XtRule[];
  /** Behind `rules`, there is a rule for each endpoint that gets connections. */
  readonly endpoints?: SharedEndpoints;
}

/** Endpoints among which connections are shared out. */
interface SharedEndpoints {
  readonly protocol: Protocol;
  /** Of a range of ports. */
  readonly keepsPort: boolean;
  readonly list: EndpointList;
  readonly shares: Shares;
}

export interface Translation {
  /** The chains that belong to this Forwarding alone. */
  readonly chains: readonly OwnChain[];
  /** Its rules in chains of all Services. Their order among the rules of others does not matter. */
  readonly rules: readonly ChainRule[];
}

export function translate(config: IptablesConfig, forwarding: Forwarding): Translation {
  const { frontends } = forwarding;
  const ranges = frontends.filter(({ lastPort }) => lastPort !== undefined);
  if (ranges.length === 0) return translateAs(contextOf(config, forwarding, false));
  const single = { ...forwarding, frontends: frontends.filter((one) => !ranges.includes(one)) };
  const own = translateAs(contextOf(config, single, false));
  const ofRanges = contextOf(config, { ...forwarding, frontends: ranges }, true);
  const rules = ranges.flatMap((range) => frontendRules(ofRanges, range));
  return {
    chains: [...own.chains, ...ownChains(ofRanges)],
    rules: [...own.rules, ...rules.map((rule) => ({ ...rule, isRange: true as const }))],
  };
}

function translateAs(context: Context): Translation {
  return { chains: ownChains(context), rules: sharedRules(context) };
}

function ownChains(context: Context): OwnChain[] {
  const { forwarding } = context;
  const { frontends } = forwarding;
  const external = frontends.find(isExternal);
  const chains = [
    ...poolChains(context, 'cluster', external),
    ...poolChains(context, 'local', external),
  ];
  if (external !== undefined) {
    chains.push(ownChain(context.chains.external, externalRules(context, external.paths)));
  }
  if (frontends.some((frontend) => isFirewalled(forwarding, frontend))) {
    chains.push(ownChain(context.chains.firewall, firewallRules(context)));
  }
  // With affinity an endpoint of both pools has one chain.
  return [...new Map(chains.map((own) => [own.chain, own])).values()];
}

function ownChain(chain: string, rules: XtRule[]): OwnChain {
  return { chain, size: rules.length, rules };
}

function sharedRules(context: Context): ChainRule[] {
  const { forwarding } = context;
  const { frontends, healthCheckNodePort } = forwarding;
  const rules = frontends.flatMap((frontend) => frontendRules(context, frontend));
  if (healthCheckNodePort !== 0) rules.push(healthCheckRule(context));
  return [...rules, ...hairpinRules(forwarding)];
}

/** Whether the chain for external destinations leads its clients to endpoints. */
function isExternal({ kind, paths }: Frontend): boolean {
  return kind !== 'clusterIP' && !isRefusal(paths.pod.to);
}

/** Whether only some clients may use the frontend. */
function isFirewalled(forwarding: Forwarding, frontend: Frontend): boolean {
  return isGuarded(forwarding, frontend) && isExternal(frontend);
}

/** The chains that translate packets: that of a pool, and with affinity those of its endpoints. */
function poolChains(
  context: Context,
  pool: PoolName,
  external: Frontend | undefined,
): readonly OwnChain[] {
  const { config, forwarding, isRange: keepsPort, name } = context;
  const clusterIPs = forwarding.frontends.filter(
    ({ kind, paths }) => kind === 'clusterIP' && leadsTo(paths, pool),
  );
  const list = forwarding[pool];
  const shares = sharesOf(list, slotsOf(forwarding, pool));
  if (
    list.length === 0 ||
    (clusterIPs.length === 0 && !(external && leadsTo(external.paths, pool)))
  )
    return [];
  const heads = clusterIPs.flatMap((frontend) =>
    clusterTraffic(config).map((traffic) => ({
      ...traffic,
      ...toFrontend(context, frontend, `${name} cluster IP`),
      target: jump(markChain),
    })),
  );
  const chain = context.chains[pool];
  if (forwarding.affinityTimeoutSeconds > 0 && !keepsPort) {
    return stickyChains(context, chain, heads, list, shares);
  }
  const { protocol } = forwarding.servicePort;
  const size = heads.length + sharers(list, shares);
  return [{ chain, size, rules: heads, endpoints: { protocol, keepsPort, list, shares } }];
}

/** How many slots each endpoint of a pool has; undefined = one. */
type Shares = readonly number[] | undefined;

function sharesOf(list: EndpointList, slots: EndpointList): Shares {
  return list === slots ? undefined : slotsOfEach(list, slots);
}

/** How many endpoints get connections. */
function sharers(list: EndpointList, shares: Shares): number {
  return shares === undefined ? list.length : shares.filter((share) => share > 0).length;
}

/**
 * The indexes of endpoints that get connections. Each gets one of `of` connections that come to it:
 * its share of those for it and the ones behind it.
 */
export function* picks({ list, shares }: Pick<SharedEndpoints, 'list' | 'shares'>) {
  let left = shares === undefined ? list.length : shares.reduce((sum, share) => sum + share, 0);
  for (const index of list.sorted()) {
    const share = shares?.[index] ?? 1;
    if (share === 0) continue;
    yield { index, of: left / share };
    left -= share;
  }
}

/** None for the last endpoint, which gets what is left. */
export function pickOneOf(of: number): Pick<XtRule, 'matches'> {
  return of === 1 ? {} : { matches: [oneOf(of)] };
}

function stickyChains(
  { forwarding }: Context,
  chain: string,
  heads: readonly XtRule[],
  list: EndpointList,
  shares: Shares,
): readonly OwnChain[] {
  const { servicePort, affinityTimeoutSeconds: seconds } = forwarding;
  const { protocol } = servicePort;
  const endpoints = endpointsOf(list).map((endpoint) => {
    return { ...endpoint, to: endpointChain(servicePort, list.text(endpoint.index)) };
  });
  const remembered = endpoints.map(({ to }) => ({
    matches: [recentCheck(to, seconds)],
    target: jump(to),
  }));
  const chains = new Map(endpoints.map(({ index, to }) => [index, to]));
  const picked = Array.from(picks({ list, shares }), ({ index, of }) => {
    return { ...pickOneOf(of), target: jump(chains.get(index)!) };
  });
  return [
    ownChain(chain, [...heads, ...remembered, ...picked]),
    ...endpoints.map(({ to, address, port }) =>
      ownChain(to, [{ protocol, matches: [recentSet(to)], target: dnat(address, port) }]),
    ),
  ];
}

interface Endpoint {
  /** Its index in the list. */
  readonly index: number;
  readonly address: Address;
  readonly port: number;
}

/**
 * Sorted, whatever the order of the pool. A change of one endpoint writes all rules of the chain
 * anyway, and a process that starts finds the rules that it would write.
 */
function endpointsOf(list: EndpointList): Endpoint[] {
  return list.sorted().map((index) => ({
    index,
    address: Address.from(list.address(index)),
    port: list.port(index),
  }));
}

function toFrontend(
  { forwarding }: Context,
  { address, lastPort, port }: Frontend,
  text: string,
): Omit<XtRule, 'target'> & Required<Pick<XtRule, 'matches'>> {
  const { protocol } = forwarding.servicePort;
  const matches = [remark(text), dport(port, lastPort)];
  return address === undefined
    ? { protocol, matches }
    : { protocol, destination: is(hostOf(address)), matches };
}

/** Rules for traffic from outside the cluster, and for traffic to external addresses. */
function externalRules({ config, name, chains }: Context, paths: Paths) {
  const to = `for ${name} external destinations`;
  if (!isByClient(paths)) {
    return [
      { matches: [remark(`masquerade traffic ${to}`)], target: jump(markChain) },
      { target: jump(chains.cluster) },
    ];
  }
  const fromNode = localAddress('source');
  const rules: XtRule[] = [
    ...podTraffic(config).map((traffic) => ({
      ...traffic,
      matches: [remark(`pod traffic ${to}`)],
      target: jump(chains.cluster),
    })),
    { matches: [remark(`masquerade LOCAL traffic ${to}`), fromNode], target: jump(markChain) },
    { matches: [remark(`route LOCAL traffic ${to}`), fromNode], target: jump(chains.cluster) },
  ];
  // Without local endpoints the packet is not translated, and KUBE-EXTERNAL-SERVICES drops it.
  if (!isRefusal(paths.outside.to)) rules.push({ target: jump(chains.local) });
  return rules;
}

function firewallRules({ forwarding, name, chains }: Context): XtRule[] {
  const { frontends, nodeInSourceRanges, sourceRanges } = forwarding;
  const says = remark(`${name} loadbalancer IP`);
  const target = jump(chains.external);
  // A node that has bound the address connects from that address itself.
  const own = frontends.flatMap((one) =>
    nodeInSourceRanges && one.address && isFirewalled(forwarding, one) ? [one.address] : [],
  );
  const dropped = `other traffic to ${name} will be dropped by KUBE-PROXY-FIREWALL`;
  return [
    ...sourceRanges.map((range) => ({ source: is(range), matches: [says], target })),
    ...own.map((address) => ({ source: is(hostOf(address)), matches: [says], target })),
    { matches: [remark(dropped)] },
  ];
}

/** Rules that lead to a frontend's chains, and those that refuse its traffic. */
function frontendRules(context: Context, frontend: Frontend): ChainRule[] {
  const { pod, outside } = frontend.paths;
  const ways = isRefusal(pod.to)
    ? frontend.isInRange
      ? [clusterWay(context, frontend, accept)]
      : []
    : frontend.kind === 'clusterIP'
      ? [clusterWay(context, frontend, wayTo(frontend, context.chains[pod.to]))]
      : externalWay(context, frontend);
  return [...ways, ...(isRefusal(outside.to) ? refusals(context, frontend, outside.to) : [])];
}

/** No packet comes back from the chain where a range of ports would get it. */
function wayTo({ isInRange }: Frontend, chain: string): Target {
  return jump(chain, isInRange);
}

function clusterWay(context: Context, frontend: Frontend, target: Target): ChainRule {
  const rule = { ...toFrontend(context, frontend, `${context.name} cluster IP`), target };
  return { table: 'nat', chain: 'KUBE-SERVICES', rule };
}

const kindWords = {
  clusterIP: ' cluster IP',
  externalIP: ' external IP',
  loadBalancerIP: ' loadbalancer IP',
  nodePort: '',
} as const satisfies Readonly<Record<Frontend['kind'], string>>;

function externalWay(context: Context, frontend: Frontend): ChainRule[] {
  const { forwarding, name, chains } = context;
  const table = 'nat';
  const isNodePort = frontend.kind === 'nodePort';
  const firewalled = isFirewalled(forwarding, frontend);
  const target = wayTo(frontend, firewalled ? chains.firewall : chains.external);
  const rule = { ...toFrontend(context, frontend, `${name}${kindWords[frontend.kind]}`), target };
  const chain = isNodePort ? 'KUBE-NODEPORTS' : 'KUBE-SERVICES';
  const ways: ChainRule[] = [{ table, chain, rule }];
  const { counted, localhostNodePorts } = context.config;
  if (isNodePort && counted && localhostNodePorts) {
    const matches = [...rule.matches, countedIn(counterNames.localhostAccepted)];
    const local = { ...rule, destination: is(loopbackBlocks.IPv4), matches };
    // Each rule is inserted at the head of its chain, so that the last one here comes first.
    ways.push({ table, chain, rule: local });
  }
  return firewalled ? [...ways, refusedClients(context, frontend)] : ways;
}

/** Drops clients that the firewall chain has not led to endpoints. */
function refusedClients(context: Context, frontend: Frontend): ChainRule {
  const { chains, config, forwarding, name } = context;
  const text = `${name} traffic not accepted by ${chains.firewall}`;
  const rule = { ...toFrontend(context, frontend, text), target: drop };
  const at = { table: 'filter', chain: 'KUBE-PROXY-FIREWALL' } as const;
  if (frontend.kind !== 'nodePort') return { ...at, rule };
  const [says, port] = rule.matches;
  const matches = [says!, localAddress('destination'), port!];
  if (config.localhostNodePorts) return { ...at, rule: { ...rule, matches } };
  // Without `route_localnet`, node ports at loopback addresses belong to sockets.
  const destination = isNot(loopbackBlocks[forwarding.family]);
  return { ...at, rule: { ...rule, destination, matches } };
}

/** Where connections are ended, those of which nothing is known any more are reset. */
function refusals(context: Context, frontend: Frontend, how: Refusal): ChainRule[] {
  const [target, reason] =
    how === 'reject' ? [reject, 'has no endpoints'] : [drop, 'has no local endpoints'];
  const rule = toFrontend(context, frontend, `${context.name} ${reason}`);
  const refusing = refusal(frontend, rule, target);
  if (context.forwarding.endings?.kept === undefined || context.isRange) return [refusing];
  const [says] = rule.matches;
  const open = { ...rule, matches: [says!, openTo(frontend.port)] };
  // Each rule is inserted at the head of its chain, so that the last one here comes first.
  return [refusing, refusal(frontend, open, rejectByReset)];
}

function refusal(
  frontend: Frontend,
  rule: ReturnType<typeof toFrontend>,
  target: Target,
): ChainRule {
  const table = 'filter';
  switch (frontend.kind) {
    case 'clusterIP':
      return { table, chain: 'KUBE-SERVICES', rule: { ...rule, target } };
    case 'nodePort': {
      const [says, port] = rule.matches;
      const matches = [says!, localAddress('destination'), port!];
      return { table, chain: 'KUBE-EXTERNAL-SERVICES', rule: { ...rule, matches, target } };
    }
    default:
      return { table, chain: 'KUBE-EXTERNAL-SERVICES', rule: { ...rule, target } };
  }
}

function healthCheckRule({ forwarding, name }: Context): ChainRule {
  const matches = [remark(`${name} health check node port`), dport(forwarding.healthCheckNodePort)];
  const rule: XtRule = { protocol: 'TCP', matches, target: accept };
  return { table: 'filter', chain: 'KUBE-NODEPORTS', rule };
}

/** Rules that masquerade endpoints which reach themselves: one for each address. */
function hairpinRules({ hairpin, maybeLocal }: Forwarding): ChainRule[] {
  const endpoints = [hairpin, ...(maybeLocal ? [maybeLocal] : [])].flatMap(endpointsOf);
  const addresses = new Map(endpoints.map(({ address }) => [address.key, address]));
  return [...addresses.values()].map((address) => {
    const itself = is(hostOf(address));
    const rule: XtRule = { source: itself, destination: itself, target: masquerade };
    return { table: 'nat', chain: hairpinChain, rule };
  });
}

type Traffic = Pick<XtRule, 'source' | 'inputInterface'>;

/** The traffic to ClusterIPs that is masqueraded: one kind, or none. */
function clusterTraffic({ masqueradeAll, localDetector }: ModeConfig): Traffic[] {
  return masqueradeAll ? [{}] : detect(localDetector, '!=');
}

/** Traffic of this node's pods (behaviour document 5.6). Without a detector none is known. */
function podTraffic({ localDetector }: ModeConfig): Traffic[] {
  return detect(localDetector, '==');
}

function detect(detector: LocalDetector, operator: Operator): Traffic[] {
  switch (detector.kind) {
    case 'none':
      return [];
    case 'cidr':
      return [{ source: { operator, cidr: detector.cidr } }];
    case 'bridge':
      return [{ inputInterface: { operator, name: detector.name } }];
    case 'interface-prefix':
      return [{ inputInterface: { operator, name: `${detector.prefix}+` } }];
  }
}
