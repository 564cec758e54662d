/** Matches and targets of iptables (nft_compat), as far as our modes use them. */
import { IPPROTO, NFPROTO } from '../../src/kernel/nft/constants.ts';
import type { Expression } from '../../src/kernel/ops.ts';
import { matchReaders, targetReaders } from '../../src/kernel/xt/codecs.ts';
import type { ConntrackMatch } from '../../src/kernel/xt/matches/conntrack.ts';
import { readNfacct } from '../../src/kernel/xt/matches/nfacct.ts';
import type { PortMatch } from '../../src/kernel/xt/matches/port.ts';
import type { RecentMatch } from '../../src/kernel/xt/matches/recent.ts';
import type { Match, Target } from '../../src/kernel/xt/rule.ts';
import { type Family, formatAddress } from '../../src/net/address.ts';
import type { PacketState } from './nft-machine.ts';
import type { Table } from './nft-state.ts';
import { Refusal } from './refusal.ts';

type Structure = Extract<Expression, { kind: 'match' | 'target' }>;

interface Extension {
  readonly revision: number;
  /** The size of the structure, padded to a multiple of 8. */
  readonly bytes: Readonly<Record<Family, number>>;
  /** IPPROTO_* that a rule must ask for. */
  readonly protocol?: number;
  /** Name of the only table that it may be used in. */
  readonly table?: string;
}

const both = (bytes: number) => ({ IPv4: bytes, IPv6: bytes });

const extensions: Readonly<Record<Structure['kind'], Readonly<Record<string, Extension>>>> = {
  match: {
    addrtype: { revision: 1, bytes: both(8) },
    comment: { revision: 0, bytes: both(256) },
    conntrack: { revision: 3, bytes: both(168) },
    nfacct: { revision: 1, bytes: both(40) },
    recent: { revision: 1, bytes: both(232) },
    sctp: { revision: 0, bytes: both(296), protocol: IPPROTO.SCTP },
    statistic: { revision: 0, bytes: both(24) },
    tcp: { revision: 0, bytes: both(16), protocol: IPPROTO.TCP },
    udp: { revision: 0, bytes: both(16), protocol: IPPROTO.UDP },
  },
  target: {
    CT: { revision: 2, bytes: both(72) },
    DNAT: { revision: 2, bytes: both(48), table: 'nat' },
    MARK: { revision: 2, bytes: both(8) },
    MASQUERADE: { revision: 0, bytes: { IPv4: 24, IPv6: 40 }, table: 'nat' },
    REJECT: { revision: 0, bytes: both(8), table: 'filter' },
  },
};

/** What nft_compat uses in addition to the rule's expressions. */
export interface Compat {
  /** IPPROTO_* in the op; 0 = any. */
  readonly protocol: number;
  /** Names of matches and targets that this kernel lacks. */
  readonly missing: ReadonlySet<string>;
  /** Named counters, by name. */
  readonly counters: ReadonlyMap<string, number>;
}

/** Checks as nft_match_select_ops, xt_check_match and xt_check_target do. */
export function checkExtension(
  { kind, name, revision, info }: Structure,
  table: Table,
  { protocol, missing, counters }: Compat,
): void {
  const family = table.family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6';
  const known = extensions[kind][name];
  if (known?.revision !== revision || missing.has(name)) throw new Refusal('ENOENT');
  if (info.length !== known.bytes[family]) throw new Refusal('EINVAL');
  if (known.protocol !== undefined && known.protocol !== protocol) throw new Refusal('EINVAL');
  if (name === 'nfacct' && !counters.has(readNfacct(info).counter)) throw new Refusal('ENOENT');
  if (known.table !== undefined && known.table !== table.name) throw new Refusal('EINVAL');
}

export function matches({ name, info }: Structure, table: Table, packet: PacketState): boolean {
  const match = (matchReaders[name] as (typeof matchReaders)[string])(info, packet.family);
  return isMatch(match, table, packet);
}

function isMatch(match: Match, table: Table, packet: PacketState): boolean {
  switch (match.kind) {
    case 'comment':
    case 'nfacct':
      return true;
    case 'addrtype':
      return packet.isLocal(match.local === 'source' ? packet.saddr : packet.daddr);
    case 'conntrack':
      return isInState(match, packet);
    case 'port':
      return isAtPort(match, packet.dport);
    case 'recent':
      return isRecent(match, table, packet);
    case 'statistic':
      return packet.chance.hits(match.probability);
    case 'mark':
      throw new Error('a mark is no structure');
  }
}

function isAtPort({ dport: first, lastPort = first }: PortMatch, port: number): boolean {
  return first === undefined || (port >= first && port <= lastPort!);
}

function isInState({ operator, states }: ConntrackMatch, { translated }: PacketState): boolean {
  const found = states.includes('NEW') || (states.includes('DNAT') && translated);
  return found === (operator === '==');
}

/** Packets write without a transaction. */
function isRecent(match: RecentMatch, table: Table, packet: PacketState): boolean {
  const source = formatAddress(packet.saddr);
  const list = table.recent.get(match.list) ?? new Set();
  if (match.action === 'rcheck') return list.has(source);
  if (packet.isTrial) return true;
  table.recent.set(match.list, list.add(source));
  return true;
}

/** undefined = continue with the next rule. */
export function hit(
  { name, info }: Structure,
  packet: PacketState,
): 'accept' | 'reject' | undefined {
  const target: Target = (targetReaders[name] as (typeof targetReaders)[string])(
    info,
    packet.family,
  );
  switch (target.kind) {
    case 'mark':
      packet.mark = ((packet.mark & ~target.mask) ^ target.value) >>> 0;
      return undefined;
    case 'masquerade':
      packet.masqueraded = true;
      return 'accept';
    case 'reject':
      return 'reject';
    case 'dnat':
      packet.daddr = target.address.bytes;
      packet.dport = target.port ?? packet.dport;
      packet.translated = true;
      return 'accept';
    default:
      throw new Error(`${target.kind} is no structure`);
  }
}
