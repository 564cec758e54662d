/**
 * Where modes differ on purpose. Each rule has the name of a row of docs/differences.md; what a
 * packet must meet in one mode is made from what it meets in another one.
 */
import { cidrContains } from '../../src/net/address.ts';
import type { EndpointList } from '../../src/net/endpoint-list.ts';
import { isGuarded } from '../../src/state/guards.ts';
import { isByClient, isElsewhere } from '../../src/state/paths.ts';
import type { Raw } from '../fake/api-server-store.ts';
import type { Odds } from '../fake/chance.ts';
import { address } from '../unit/state/build.ts';
import { type Flow, isRange, type ModeNode, type Subject, type Taking } from './mode-node.ts';

export const rules = [
  'Node ports without nodePortAddresses',
  'Node ports without endpoints',
  'Ports and addresses that no Service has',
  'The node and load balancers without endpoints',
  'Source ranges of load balancers without endpoints',
  'Source ranges at an address and port that is a node port, too',
  'Source ranges that hold the address itself',
  'Other ports of addresses that are bound',
  'Endpoints at addresses that are bound',
  "A ClusterIP that is also another Service's external address",
  'In modes ipvs and userspace, the address of another machine is not served',
  'Port ranges',
  'policy Local without local endpoints',
  'the node itself',
  'Connections to oneself are recognised after translation',
  'Endpoints see the node',
  'A TCP client that policies or ranges keep out is reset or refused',
  'Pods are known by CIDR only',
  'ServiceCIDRs mean nothing',
  'Connect-time translation',
] as const;
export type Rule = (typeof rules)[number];

/** Where kube-proxy differs from the same mode of ours. */
export const rulesOfKubeProxy = [
  'ServiceCIDRs are in force immediately',
  "A ClusterIP that is also another Service's external address",
  'An address that one Service has twice counts as the stronger kind',
] as const;

/** A mode, and the one that it is compared with. */
export const pairs = [
  ['default', 'nftables'],
  ['iptables', 'default'],
  ['ipvs', 'nftables'],
  ['userspace', 'nftables'],
] as const satisfies readonly (readonly [Subject, Subject])[];

export interface Compared {
  readonly flow: Flow;
  readonly own: ModeNode;
  readonly other: ModeNode;
  /** Called for each rule that changes what is expected. */
  readonly note: (rule: Rule) => void;
}

const untouched: Odds = new Map([['untouched', 1]]);
const rejected: Odds = new Map([['reject', 1]]);
const dropped: Odds = new Map([['drop', 1]]);

/**
 * What the packet must meet in the mode of `own`, by what it meets in that of `other`; undefined:
 * that says nothing about it.
 */
export function expected(compared: Compared): Odds | undefined {
  const { flow, own } = compared;
  // A kernel drops what comes from one of its own addresses.
  if (flow.iif !== undefined && (own.isLocal(flow.saddr) || flow.saddr === flow.daddr))
    return undefined;
  switch (compared.own.subject) {
    case 'default':
      return inDefault(compared);
    case 'iptables':
      return inIptables(compared);
    case 'ipvs':
    case 'userspace':
      return withoutRanges(compared);
    case 'nftables':
      return compared.other.answer(compared.flow);
  }
}

/** What the packet must meet with kube-proxy, as `expected`. */
export function expectedOfKubeProxy(
  own: ModeNode,
  flow: Flow,
  note: (rule: string) => void,
): Odds | undefined {
  if (flow.iif !== undefined && (own.isLocal(flow.saddr) || flow.saddr === flow.daddr))
    return undefined;
  const odds = own.answer(flow);
  if (own.subject === 'iptables') return reachingOneself(odds, flow, note);
  const taking = own.frontendAt(flow);
  const kind = taking?.frontend.kind;
  const isOther = kind === 'externalIP' || kind === 'loadBalancerIP';
  const [immediately, alsoClusterIP, twice] = rulesOfKubeProxy;
  if (kind === undefined && odds.has('drop')) note(immediately);
  else if (isOther && isClusterIP(own, flow.daddr)) note(alsoClusterIP);
  else if (taking !== undefined && hasTwice(own, taking, flow.daddr)) note(twice);
  else return odds;
  return undefined;
}

/** Of kube-proxy, also where the client is on another machine. */
function reachingOneself(odds: Odds, { saddr }: Flow, note: (rule: Rule) => void): Odds {
  const found = new Map<string, number>();
  for (const [end, probability] of odds) {
    const isItself = hostOf(end) === saddr && !masqueraded.test(end);
    if (isItself) note('Connections to oneself are recognised after translation');
    found.set(isItself ? `${end} masqueraded` : end, probability);
  }
  return found;
}

/** What connections meet that programs translate, by what they meet in rules. */
export function expectedAtConnectTime(odds: Odds, note: Compared['note']): Odds {
  const found = new Map<string, number>();
  for (const [end, probability] of odds) {
    const bare = end.replace(masqueraded, '');
    if (bare !== end) note('Connect-time translation');
    found.set(bare, (found.get(bare) ?? 0) + probability);
  }
  return found;
}

function inDefault(compared: Compared): Odds | undefined {
  const { flow, note, other, own } = compared;
  const taking = own.frontendAt(flow);
  if (taking === undefined) return unclaimedInDefault(compared);
  const { kind, paths } = taking.frontend;
  const odds = answerOfOther(compared);
  if (odds === undefined) return undefined;
  const isGuardedPort = kind === 'nodePort' && odds.has('drop');
  if (paths.pod.to !== 'reject' || kind === 'clusterIP' || (kind === 'nodePort' && !isGuardedPort))
    return withHairpin(compared, taking, odds);
  if (flow.iif === undefined && !own.isLocal(flow.daddr) && !isClusterIP(other, flow.daddr)) {
    note('The node and load balancers without endpoints');
    return untouched;
  }
  if (odds.has('drop')) note('Source ranges of load balancers without endpoints');
  return rejected;
}

function unclaimedInDefault({ flow, note, other, own }: Compared): Odds {
  const nodePort = own.nodePortAt(flow, 'anywhere');
  if (nodePort !== undefined) {
    const { paths } = nodePort.frontend;
    const isDropped = isElsewhere(paths);
    if (paths.pod.to === 'reject' || isDropped) {
      note('Node ports without endpoints');
      return isDropped ? dropped : rejected;
    }
  }
  if (!other.answer(flow).has('untouched')) note('Ports and addresses that no Service has');
  return untouched;
}

function inIptables({ flow, note, other, own }: Compared): Odds | undefined {
  const odds = other.answer(flow);
  const taking = own.frontendAt(flow);
  const isKeptOut = taking !== undefined && !isLetIn(taking, flow);
  if (isKeptOut && taking.frontend.kind !== 'nodePort' && own.nodePortAt(flow) !== undefined) {
    note('Source ranges at an address and port that is a node port, too');
    return undefined;
  }
  const nodePort = taking === undefined ? own.nodePortAt(flow, 'anywhere') : undefined;
  if (nodePort !== undefined && odds.has('untouched') && !isLetIn(nodePort, flow)) {
    note('Node ports without endpoints');
    return dropped;
  }
  const isRefused =
    taking?.frontend.paths.pod.to === 'reject' && taking.frontend.kind !== 'clusterIP';
  if (flow.iif !== undefined || !isRefused || own.isLocal(flow.daddr)) return odds;
  if (odds.has('reject')) note("A ClusterIP that is also another Service's external address");
  return untouched;
}

function withoutRanges(compared: Compared): Odds | undefined {
  const { flow, note, other, own } = compared;
  if (isRange(other.frontendAt(flow))) {
    note('Port ranges');
    // Another Service may have the port that the range would have taken from it.
    if (own.frontendAt(flow) !== undefined) return undefined;
    return own.kernel.links.isBound(flow.daddr) ? rejected : untouched;
  }
  return own.subject === 'ipvs' ? inIpvs(compared) : inUserspace(compared);
}

function inIpvs(compared: Compared): Odds | undefined {
  const { flow, note, own } = compared;
  const taking = own.frontendAt(flow);
  if (taking === undefined) return unclaimedWhereBound(compared);
  const { forwarding, frontend } = taking;
  let odds = answerOfOther(compared, taking);
  if (odds === undefined) return undefined;
  const isLocal = isByClient(frontend.paths) && forwarding.local.length > 0;
  if (isLocal && !odds.has('drop')) {
    if (!forwarding.cluster.equals(forwarding.local)) note('policy Local without local endpoints');
    odds = ends(own, flow, forwarding.local, flow.iif === undefined);
  }
  if (flow.iif === undefined && own.config(forwarding.family).localDetector.kind === 'none') {
    note('the node itself');
    odds = masquerading(odds);
  }
  const bare = new Map<string, number>();
  for (const [end, probability] of odds) {
    const isBound = isEndpoint(end) && own.kernel.links.isBound(hostOf(end));
    const met = flow.iif === undefined ? 'reject' : end.replace(masqueraded, '');
    if (isBound && met !== end) note('Endpoints at addresses that are bound');
    bare.set(isBound ? met : end, (bare.get(isBound ? met : end) ?? 0) + probability);
  }
  return bare;
}

function inUserspace(compared: Compared): Odds | undefined {
  const { flow, note, own } = compared;
  const taking = own.frontendAt(flow);
  const isBound = own.kernel.links.isBound(flow.daddr);
  const refused = isBound ? rejected : untouched;
  if (taking === undefined) {
    const odds = unclaimedWhereBound(compared);
    if (isBound || odds.has('untouched')) return odds;
    note('ServiceCIDRs mean nothing');
    return untouched;
  }
  const { forwarding, frontend } = taking;
  let odds = answerOfOther(compared, isBound ? taking : undefined);
  if (odds === undefined) return undefined;
  if (frontend.paths.pod.to === 'reject') {
    if (odds.has('drop')) note('Source ranges of load balancers without endpoints');
    else if (!isBound) note('Node ports without endpoints');
    return refused;
  }
  const isAnyhow = flow.iif === undefined || !isLetIn(taking, flow);
  if (isByClient(frontend.paths) && !isAnyhow) {
    const { local, cluster } = forwarding;
    const pool = isPodByCIDR(own, flow) ? cluster : local;
    const other = pool === cluster ? local : cluster;
    const next = pool.length === 0 ? dropped : ends(own, flow, pool, true);
    if (!other.equals(pool) && !same(masquerading(odds), masquerading(next)))
      note('Pods are known by CIDR only');
    odds = next;
  }
  if (odds.has('drop')) {
    if (flow.protocol === 'UDP') return dropped;
    note('A TCP client that policies or ranges keep out is reset or refused');
    return rejected;
  }
  note('Endpoints see the node');
  return masquerading(odds);
}

/**
 * With the answer at the primary address, where only that one has node ports. `bound`: what has the
 * address on this node, which comes from it where only that is let in.
 */
function answerOfOther({ flow: asked, note, other }: Compared, bound?: Taking): Odds | undefined {
  const fromThere = { ...asked, saddr: asked.daddr };
  const isByAddress =
    bound !== undefined &&
    asked.iif === undefined &&
    !isLetIn(bound, asked) &&
    isLetIn(bound, fromThere);
  if (isByAddress) note('Source ranges that hold the address itself');
  const flow = isByAddress ? fromThere : asked;
  if (other.frontendAt(flow) !== undefined) return other.answer(flow);
  const primary = { ...flow, daddr: flow.daddr.includes(':') ? '2001:db8::1' : '192.0.2.1' };
  // Another Service may have the port at that address.
  if (other.frontendAt(primary)?.frontend.kind !== 'nodePort') return undefined;
  note('Node ports without nodePortAddresses');
  return other.answer(primary);
}

/** Endpoints of which it is not known that they are here reach themselves. */
function withHairpin({ flow, note }: Compared, { forwarding }: Taking, odds: Odds): Odds {
  const maybe = forwarding.maybeLocal?.texts() ?? [];
  const found = new Map(odds);
  for (const [end, probability] of odds) {
    if (hostOf(end) !== flow.saddr || !maybe.includes(end)) continue;
    note('Connections to oneself are recognised after translation');
    found.delete(end);
    found.set(`${end} masqueraded`, probability);
  }
  return found;
}

function unclaimedWhereBound({ flow, note, other, own }: Compared): Odds {
  const odds = other.answer(flow);
  const isServed = other.frontendAt(flow) !== undefined;
  if (isServed) note('In modes ipvs and userspace, the address of another machine is not served');
  if (own.kernel.links.isBound(flow.daddr)) {
    if (!odds.has('reject')) note('Other ports of addresses that are bound');
    return rejected;
  }
  return isServed ? untouched : odds;
}

/** By the source ranges. */
function isLetIn({ forwarding, frontend }: Taking, { saddr }: Flow): boolean {
  if (!isGuarded(forwarding, frontend)) return true;
  return forwarding.sourceRanges.some((range) => cidrContains(range, address(saddr)));
}

function isPodByCIDR(node: ModeNode, { saddr }: Flow): boolean {
  const client = address(saddr);
  const { localDetector } = node.config(client.family);
  return localDetector.kind === 'cidr' && cidrContains(localDetector.cidr, client);
}

/** Whether it is a ClusterIP, also of a port that no Service has. */
function isClusterIP(node: ModeNode, daddr: string): boolean {
  return node.frontends(daddr).some(({ kind }) => kind === 'clusterIP');
}

/** Whether the Service that is met names the address more than once. */
function hasTwice(own: ModeNode, { forwarding: { servicePort } }: Taking, daddr: string): boolean {
  const { namespace, name } = servicePort;
  for (const { kind, metadata, spec, status } of own.objects) {
    const found = metadata as Raw;
    if (kind !== 'Service' || found.namespace !== namespace || found.name !== name) continue;
    const { clusterIPs, externalIPs } = spec as Raw;
    const all = JSON.stringify([clusterIPs, externalIPs, status]);
    return all.split(JSON.stringify(daddr)).length > 2;
  }
  return false;
}

const masqueraded = / masqueraded$/;

function isEndpoint(end: string): boolean {
  return /:\d+/.test(end);
}

/** `fd00::1` of `[fd00::1]:80`. */
function hostOf(end: string): string {
  return end
    .replace(masqueraded, '')
    .replace(/:\d+$/, '')
    .replace(/^\[|\]$/g, '');
}

/** All endpoints see the node. */
function masquerading(odds: Odds): Odds {
  const found = new Map<string, number>();
  for (const [end, probability] of odds) {
    const seen = isEndpoint(end) ? `${end.replace(masqueraded, '')} masqueraded` : end;
    found.set(seen, (found.get(seen) ?? 0) + probability);
  }
  return found;
}

/** A pool as rules lead to it: an endpoint that reaches itself sees the node. */
function ends(node: ModeNode, { iif, saddr }: Flow, pool: EndpointList, seesNode: boolean): Odds {
  const odds = new Map<string, number>();
  for (const text of pool.texts()) {
    const host = hostOf(text);
    // What comes in for the node itself is not masqueraded.
    const canBe = iif === undefined || !node.isLocal(host);
    const end = canBe && (seesNode || host === saddr) ? `${text} masqueraded` : text;
    odds.set(end, (odds.get(end) ?? 0) + 1 / pool.length);
  }
  return odds;
}

/** The same results, each about as often: draws among places leave 1 in 64 to half of a pool. */
export function same(a: Odds, b: Odds): boolean {
  if (a.size !== b.size) return false;
  return [...a].every(([end, probability]) => {
    return Math.abs((b.get(end) ?? -1) - probability) < probability / 50 + 1e-6;
  });
}
