/**
 * What does not belong to single Services: jumps from built-in chains, chains that are always
 * there, and the way to node ports (behaviour document 7.2, 7.4, 7.6, 7.7).
 */

import { counterNames } from '../../kernel/acct.ts';
import { localAddress } from '../../kernel/xt/matches/addrtype.ts';
import { type CommentMatch, comment } from '../../kernel/xt/matches/comment.ts';
import { type ConntrackState, ctState } from '../../kernel/xt/matches/conntrack.ts';
import { markIs } from '../../kernel/xt/matches/mark.ts';
import { countedIn } from '../../kernel/xt/matches/nfacct.ts';
import { is, isNot, type XtRule } from '../../kernel/xt/rule.ts';
import { orMark, xorMark } from '../../kernel/xt/targets/mark.ts';
import { masquerade } from '../../kernel/xt/targets/masquerade.ts';
import { accept, drop, jump, returnToCaller } from '../../kernel/xt/targets/verdict.ts';
import { type Address, addressBits, type CIDR } from '../../net/address.ts';
import { localhost, loopbackBlocks } from '../../net/special-address.ts';
import type { Environment, ModeConfig } from '../mode.ts';
import { isServiceChain, servicePrefixes, type TableName } from './names.ts';

/** Which chains are kept, and made where they are missing. */
export interface Part {
  readonly tables: readonly TableName[];
  /** Chains to which each Service adds rules. */
  readonly shared: readonly TableChain[];
  /** Whether the chain is one of them. */
  has(table: TableName, chain: string): boolean;
}

/** What the rules of this mode depend on. */
export interface IptablesConfig extends ModeConfig {
  readonly part: Part;
  /** The kernel has named counters, and kube-proxy's are there (`acct.ts`). */
  readonly counted: boolean;
}

/** Endpoints of this node that reach themselves: see README.md. */
export const hairpinChain = 'KUBE-HAIRPIN';
export const markChain = 'KUBE-MARK-MASQ';
/** Shared with the kubelet: we never delete it, nor what others put into it. */
export const firewallChain = 'KUBE-FIREWALL';

export interface TableChain {
  readonly table: TableName;
  readonly chain: string;
}

export const tableNames = ['nat', 'filter', 'mangle'] as const satisfies readonly TableName[];

/** Identifies a chain; usable as a Map key. */
export function chainId({ table, chain }: TableChain): string {
  return `${table} ${chain}`;
}

/** A rule with the chain that it is in. */
export interface ChainRule extends TableChain {
  readonly rule: XtRule;
  /** Single ports come before it. */
  readonly isRange?: true;
}

const acceptChain: TableChain = { table: 'filter', chain: 'KUBE-NODEPORTS' };

export const sharedChains: readonly TableChain[] = [
  { table: 'nat', chain: 'KUBE-SERVICES' },
  { table: 'nat', chain: 'KUBE-NODEPORTS' },
  { table: 'nat', chain: hairpinChain },
  { table: 'filter', chain: 'KUBE-SERVICES' },
  { table: 'filter', chain: 'KUBE-EXTERNAL-SERVICES' },
  acceptChain,
  { table: 'filter', chain: 'KUBE-PROXY-FIREWALL' },
];

const forwardChain: TableChain = { table: 'filter', chain: 'KUBE-FORWARD' };
const postroutingChain: TableChain = { table: 'nat', chain: 'KUBE-POSTROUTING' };
const marking: TableChain = { table: 'nat', chain: markChain };
/** Empty chains. When one is missing, others have flushed the table. */
const canaries = tableNames.map((table): TableChain => ({ table, chain: 'KUBE-PROXY-CANARY' }));

const fixed = [...sharedChains, forwardChain, postroutingChain, marking, ...canaries];
const ownChainIds: ReadonlySet<string> = new Set(fixed.map(chainId));

/** Whether the chain is this mode's. kube-proxy's iptables mode uses the same names. */
export function isOurs(table: TableName, chain: string): boolean {
  return ownChainIds.has(chainId({ table, chain })) || (table === 'nat' && isServiceChain(chain));
}

export const wholeMode: Part = { tables: tableNames, shared: sharedChains, has: isOurs };

/**
 * The chains that accept packets past a firewall of the host, and drop INVALID ones: those that
 * another mode cannot replace, because a drop in any table is final.
 */
export const filterPart: Part = {
  tables: ['filter'],
  shared: [acceptChain],
  has: (table, chain) =>
    [acceptChain, forwardChain].some((one) => one.table === table && one.chain === chain),
};

export interface FixedChain extends TableChain {
  readonly rules: readonly XtRule[];
}

/** Chains whose rules we alone decide, whatever Services there are. */
export function fixedChains(config: IptablesConfig): FixedChain[] {
  const all: FixedChain[] = [
    { ...marking, rules: [{ target: orMark(config.masqueradeMark) }] },
    { ...postroutingChain, rules: postrouting(config.masqueradeMark) },
    { ...forwardChain, rules: forward(config) },
    ...canaries.map((canary) => ({ ...canary, rules: [] })),
  ];
  return all.filter(({ table, chain }) => config.part.has(table, chain));
}

/** Without the mark, the packet is not masqueraded again after encapsulation. */
function postrouting(mark: number): XtRule[] {
  const unmarked = markIs(mark, '!=');
  return [
    { matches: [unmarked, ctState(['DNAT'])], target: jump(hairpinChain) },
    { matches: [unmarked], target: returnToCaller },
    { target: xorMark(mark) },
    {
      matches: [comment('kubernetes service traffic requiring SNAT')],
      target: masquerade,
    },
  ];
}

/**
 * The first rule drops packets that connection tracking calls INVALID: it does not translate them,
 * so that the receiver would answer with a reset. Where `nf_conntrack_tcp_be_liberal` is set, the
 * rule is not needed.
 */
function forward({ counted, masqueradeMark, dropInvalid }: IptablesConfig): XtRule[] {
  const established: readonly ConntrackState[] = ['RELATED', 'ESTABLISHED'];
  const counting = counted ? [countedIn(counterNames.invalidDropped)] : [];
  return [
    ...(dropInvalid ? [{ matches: [ctState(['INVALID']), ...counting], target: drop }] : []),
    {
      matches: [comment('kubernetes forwarding rules'), markIs(masqueradeMark)],
      target: accept,
    },
    {
      matches: [comment('kubernetes forwarding conntrack rule'), ctState(established)],
      target: accept,
    },
  ];
}

interface Jump extends TableChain {
  readonly to: string;
  readonly comment: string;
  readonly newOnly?: true;
}

/** Each is inserted at the head of its chain, so that the last one here comes first. */
const jumps: readonly Jump[] = [
  ...(['INPUT', 'FORWARD'] as const).map((chain) => ({
    ...newTo('KUBE-EXTERNAL-SERVICES', 'kubernetes externally-visible service portals'),
    chain,
  })),
  {
    table: 'filter',
    chain: 'INPUT',
    to: 'KUBE-NODEPORTS',
    comment: 'kubernetes health check service ports',
  },
  ...(['FORWARD', 'OUTPUT'] as const).map((chain) => ({
    ...newTo('KUBE-SERVICES', 'kubernetes service portals'),
    chain,
  })),
  { table: 'filter', chain: 'FORWARD', to: 'KUBE-FORWARD', comment: 'kubernetes forwarding rules' },
  ...(['INPUT', 'OUTPUT', 'FORWARD'] as const).map((chain) => ({
    ...newTo('KUBE-PROXY-FIREWALL', 'kubernetes load balancer firewall'),
    chain,
  })),
  ...(['OUTPUT', 'PREROUTING'] as const).map((chain) => ({
    table: 'nat' as const,
    chain,
    to: 'KUBE-SERVICES',
    comment: 'kubernetes service portals',
  })),
  {
    table: 'nat',
    chain: 'POSTROUTING',
    to: 'KUBE-POSTROUTING',
    comment: 'kubernetes postrouting rules',
  },
];

/** What the names of chains begin with that hold rules of ours. */
export const watchedChains: readonly string[] = [
  ...servicePrefixes,
  ...new Set([...fixed, ...jumps].map(({ chain }) => chain)),
  firewallChain,
];

function newTo(to: string, text: string) {
  return { table: 'filter', to, comment: text, newOnly: true } as const;
}

/** The ways from built-in chains into ours. */
export function jumpRules({ localhostNodePorts, part }: IptablesConfig): ChainRule[] {
  const kept = jumps.filter(({ table, to }) => part.has(table, to));
  const ours = kept.map(({ table, chain, to, comment: text, newOnly }) => ({
    table,
    chain,
    rule: {
      matches: [...(newOnly ? [ctState(['NEW'])] : []), comment(text)],
      target: jump(to),
    },
  }));
  if (!localhostNodePorts) return ours;
  const guard = { table: 'filter', rule: { target: jump(firewallChain) } } as const;
  return [...ours, { ...guard, chain: 'INPUT' }, { ...guard, chain: 'OUTPUT' }];
}

/**
 * The rules of KUBE-FIREWALL that we need. With node ports on loopback addresses the kernel routes
 * packets to them (sysctl route_localnet): without these rules, other machines could reach what
 * listens only on loopback.
 */
export function firewallRules({ localhostNodePorts }: ModeConfig): XtRule[] {
  if (!localhostNodePorts) return [];
  const known = ctState(['RELATED', 'ESTABLISHED', 'DNAT'], '!=');
  return [
    {
      source: isNot(loopbackBlocks.IPv4),
      destination: is(loopbackBlocks.IPv4),
      matches: [comment('block incoming localnet connections'), known],
      target: drop,
    },
  ];
}

const nodePortComment = comment(
  'kubernetes service nodeports; NOTE: this must be the last rule in this chain',
);

/** The last rules of KUBE-SERVICES: they send packets for this node to KUBE-NODEPORTS. */
export function nodePortRules(
  { family, localhostNodePorts }: ModeConfig,
  { nodePortAddresses }: Environment,
): XtRule[] {
  const target = jump('KUBE-NODEPORTS');
  if (nodePortAddresses === 'all') {
    const matches = [nodePortComment, localAddress('destination')];
    const destination = isNot(loopbackBlocks[family]);
    return [{ ...(localhostNodePorts ? {} : { destination }), matches, target }];
  }
  const local = localhostNodePorts ? [localhost] : [];
  return [...nodePortAddresses, ...local].map((address) => ({
    destination: is(hostOf(address)),
    matches: [nodePortComment],
    target,
  }));
}

/** The block of one address. */
export function hostOf(address: Address): CIDR {
  return { address, prefixLength: addressBits(address) };
}

/** What a comment may hold, in bytes (struct xt_comment_info). */
const commentMax = 255;

/** A comment about a Service, cut to what a comment may hold. */
export function remark(text: string): CommentMatch {
  return comment(text.slice(0, commentMax));
}
