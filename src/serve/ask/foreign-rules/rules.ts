/** Reads rules as conditions on a packet's destination, and what they lead to. */
import type { Clause, ClauseOf, Value } from '../../../kernel/nft/clauses.ts';
import {
  NFPROTO,
  NFT_CMP,
  NFT_CT,
  NFT_FIB_RESULT_ADDRTYPE,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_PAYLOAD,
  NFTA_FIB_F,
  RTN_LOCAL,
  VERDICT,
} from '../../../kernel/nft/constants.ts';
import type { Expression } from '../../../kernel/ops.ts';
import {
  asksStateOnly,
  type ConntrackState,
  readConntrack,
} from '../../../kernel/xt/matches/conntrack.ts';
import { isUntracking } from '../../../kernel/xt/untracking.ts';
import type { Family } from '../../../net/address.ts';
import type { Members } from './sets.ts';
import type { Action, Condition, FirstPacket, WalkedRule } from './walk.ts';

/** Bytes of a packet, or of what is known of it; undefined: not known. */
type Load = (packet: FirstPacket) => Uint8Array | undefined;

const unknown: Condition = () => undefined;
const nothing: Load = () => undefined;
/** NF_CT_STATE_INVALID_BIT, and NF_CT_STATE_BIT(IP_CT_NEW). */
const ctState = { invalid: Uint8Array.of(1, 0, 0, 0), new: Uint8Array.of(8, 0, 0, 0) } as const;

/** Where the header of each family has the fields. */
const header = {
  IPv4: { protocol: 9, saddr: 12, daddr: 16, length: 4, ethertype: Uint8Array.of(0x08, 0x00) },
  IPv6: { protocol: 6, saddr: 8, daddr: 24, length: 16, ethertype: Uint8Array.of(0x86, 0xdd) },
} as const satisfies Record<Family, unknown>;

/** Kernel expressions that records do not decode, after which the next rule applies. */
const harmless: ReadonlySet<string> = new Set(['log', 'dup', 'last']);
const redirecting: ReadonlySet<string> = new Set(['redir', 'tproxy']);
const leaving: ReadonlySet<string> = new Set(['queue', 'synproxy', 'fwd']);

/** `sets`: those of the table whose elements were read. */
export function readRule(
  clauses: readonly Clause[],
  sets: ReadonlyMap<string, Members>,
): Pick<WalkedRule, 'action' | 'conditions' | 'senders'> {
  const reader = new Reader(sets);
  for (const one of clauses) reader.read(one);
  return reader;
}

class Reader {
  readonly conditions: Condition[] = [];
  readonly senders: Uint8Array[] = [];
  action: Action = { kind: 'none' };
  readonly #sets: ReadonlyMap<string, Members>;

  constructor(sets: ReadonlyMap<string, Members>) {
    this.#sets = sets;
  }

  read(clause: Clause): void {
    switch (clause.kind) {
      case 'cmp':
        this.conditions.push(comparison(clause));
        if (isSender(clause.value, clause.data.length) && clause.operation === NFT_CMP.EQ) {
          this.senders.push(clause.data);
        }
        break;
      case 'lookup':
        if (clause.for === 'verdict') this.action = { kind: 'unsure' };
        else this.conditions.push(this.#membership(clause));
        break;
      case 'connlimit':
      case 'dynset':
      case 'limit':
        this.conditions.push(unknown);
        break;
      case 'match':
        this.conditions.push(...readMatch(clause));
        break;
      case 'immediateVerdict':
        this.action = verdict(clause.code, clause.chain);
        break;
      case 'reject':
        this.action = { kind: 'reject' };
        break;
      case 'nat':
        this.action = { kind: clause.type === NFT_NAT_DNAT ? 'redirect' : 'accept' };
        break;
      case 'masquerade':
        this.action = { kind: 'accept' };
        break;
      case 'target':
        this.action = targetAction(clause);
        break;
      case 'unknown':
        this.#unknown(clause.name);
        break;
      case 'metaSet':
      case 'counter':
      case 'flowOffload':
        break;
      default:
        // A new kind of clause has to say what it means.
        clause satisfies never;
    }
  }

  #membership({ for: what, parts, set }: ClauseOf<'lookup'>): Condition {
    const members = this.#sets.get(set);
    if (what === 'value' || members === undefined) return unknown;
    const [first, ...further] = parts;
    if (first && further.length === 0 && isSender(first, members.keyLength)) {
      this.senders.push(...members.singles);
    }
    const load = concatenated(parts, members.keyLength);
    return (packet) => {
      const value = load(packet);
      return value === undefined ? undefined : members.has(value) === (what === 'presence');
    };
  }

  #unknown(name: string): void {
    if (harmless.has(name)) return;
    if (name === 'notrack') this.action = { kind: 'untrack' };
    else if (redirecting.has(name)) this.action = { kind: 'redirect' };
    else if (leaving.has(name)) this.action = { kind: 'unsure' };
    else this.conditions.push(unknown);
  }
}

/** Whether it is the whole address of the sender. */
function isSender(value: Value, length: number): boolean {
  if (value.kind !== 'payload' || value.base !== NFT_PAYLOAD.NETWORK_HEADER) return false;
  return Object.values(header).some((at) => value.offset === at.saddr && length === at.length);
}

/** IFNAMSIZ */
const nameBytes = 16;

/** `data` ends with a zero, unless it stands for all names that begin so. */
function isInput({ data, operation }: ClauseOf<'cmp'>): Condition {
  const isNamed = (name: string): boolean =>
    Buffer.from(name.padEnd(nameBytes, '\0')).subarray(0, data.length).equals(data);
  const isLoopback = data.includes(0) && isNamed('lo');
  return ({ devices, isFromOutside }) => {
    const all = devices === undefined ? [] : Array.from(devices, isNamed);
    if (devices === undefined && isFromOutside && isLoopback) all.push(false);
    const is = all.includes(true);
    // They differ, or are not known.
    if (all.length === 0 || is === all.includes(false)) return undefined;
    return is === (operation === NFT_CMP.EQ);
  };
}

function comparison(clause: ClauseOf<'cmp'>): Condition {
  const { data, operation, value } = clause;
  const isName = value.kind === 'metaLoad' && value.key === NFT_META.IIFNAME;
  if (isName && (operation === NFT_CMP.EQ || operation === NFT_CMP.NEQ)) return isInput(clause);
  const load = loadOf(value);
  return (packet) => {
    const bytes = load(packet)?.subarray(0, data.length);
    if (bytes === undefined || bytes.length < data.length) return undefined;
    const order = Buffer.compare(bytes, data);
    switch (operation) {
      case NFT_CMP.EQ:
        return order === 0;
      case NFT_CMP.NEQ:
        return order !== 0;
      case NFT_CMP.LT:
        return order < 0;
      case NFT_CMP.LTE:
        return order <= 0;
      case NFT_CMP.GT:
        return order > 0;
      case NFT_CMP.GTE:
        return order >= 0;
      default:
        return undefined;
    }
  };
}

/** The parts of a key of `length` bytes, each padded to 4. */
function concatenated(parts: readonly Value[], length: number): Load {
  const loads = parts.map(loadOf);
  return (packet) => {
    const key = new Uint8Array((length + 3) & ~3);
    let at = 0;
    for (const load of loads) {
      const value = load(packet);
      if (value === undefined || at + value.length > length) return undefined;
      key.set(value, at);
      at += (value.length + 3) & ~3;
    }
    return at >= length ? key.subarray(0, length) : undefined;
  };
}

function loadOf(value: Value): Load {
  switch (value.kind) {
    case 'payload':
      return payload(value);
    case 'metaLoad':
      return meta(value.key);
    case 'ctLoad':
      return ct(value.key);
    case 'fib':
      return fib(value);
    case 'immediateData':
      return () => value.data;
    case 'bitwise':
      return masked(value);
    default:
      return nothing;
  }
}

const local = Uint8Array.of(RTN_LOCAL, 0, 0, 0);

/** `fib daddr type`: packets to a node port are for an address of the node. */
function fib({ flags, result }: Extract<Value, { kind: 'fib' }>): Load {
  if (flags !== NFTA_FIB_F.DADDR || result !== NFT_FIB_RESULT_ADDRTYPE) return nothing;
  return ({ daddr }) => (daddr === undefined ? local : undefined);
}

function masked({ mask, of, xor }: Extract<Value, { kind: 'bitwise' }>): Load {
  const isMark = of.kind === 'metaLoad' && of.key === NFT_META.MARK;
  const load: Load = isMark ? (packet) => clearBits(packet, mask) : loadOf(of);
  return (packet) => load(packet)?.map((byte, i) => (byte & (mask[i] ?? 0xff)) ^ (xor[i] ?? 0));
}

function verdict(code: number, chain: string): Action {
  switch (code) {
    case VERDICT.drop:
      return { kind: 'drop' };
    case VERDICT.accept:
      return { kind: 'accept' };
    case VERDICT.return:
      return { kind: 'return' };
    case VERDICT.jump:
      return { kind: 'jump', chain };
    case VERDICT.goto:
      return { kind: 'goto', chain };
    default:
      return { kind: 'unsure' };
  }
}

function payload({ base, length, offset }: Extract<Value, { kind: 'payload' }>): Load {
  if (base === NFT_PAYLOAD.TRANSPORT_HEADER) {
    if (offset !== 2 || length !== 2) return nothing;
    return ({ dport }) => Uint8Array.of(dport >> 8, dport & 0xff);
  }
  if (base !== NFT_PAYLOAD.NETWORK_HEADER) return nothing;
  return ({ daddr, family, protocol, saddr }) => {
    const at = header[family];
    if (offset === at.protocol && length === 1) return Uint8Array.of(protocol);
    const [address, from] =
      offset < at.daddr ? [saddr, offset - at.saddr] : [daddr, offset - at.daddr];
    if (from < 0 || from + length > at.length) return undefined;
    return address?.subarray(from, from + length);
  };
}

/** The mark, if all bits of the mask are known to be 0. */
function clearBits({ clearMark }: FirstPacket, mask: Uint8Array): Uint8Array | undefined {
  const bits = Buffer.from(mask).readUInt32LE(0);
  return (bits & ~clearMark) === 0 ? new Uint8Array(4) : undefined;
}

function meta(key: number): Load {
  switch (key) {
    case NFT_META.L4PROTO:
      return ({ protocol }) => Uint8Array.of(protocol);
    case NFT_META.NFPROTO:
      return ({ family }) => Uint8Array.of(NFPROTO[family]);
    case NFT_META.PROTOCOL:
      return ({ family }) => header[family].ethertype;
    default:
      return nothing;
  }
}

function ct(key: number): Load {
  if (key !== NFT_CT.STATE) return nothing;
  return ({ isTracked }) => (isTracked ? ctState.new : ctState.invalid);
}

/** Targets after which the next rule applies. */
const harmlessTargets: ReadonlySet<string> = new Set([
  ...['AUDIT', 'CHECKSUM', 'CLASSIFY', 'CONNMARK', 'CONNSECMARK', 'CT', 'DSCP', 'ECN', 'HL'],
  ...['LOG', 'MARK', 'NFLOG', 'SECMARK', 'SET', 'TCPMSS', 'TOS', 'TRACE', 'TTL'],
]);
const redirectingTargets: ReadonlySet<string> = new Set(['DNAT', 'REDIRECT', 'TPROXY']);

function targetAction(target: Extract<Expression, { kind: 'target' }>): Action {
  const { name } = target;
  if (name === 'REJECT') return { kind: 'reject' };
  if (isUntracking(target)) return { kind: 'untrack' };
  if (redirectingTargets.has(name)) return { kind: 'redirect' };
  return { kind: harmlessTargets.has(name) ? 'none' : 'unsure' };
}

type Match = Extract<Expression, { kind: 'match' }>;

/** No condition: it says nothing. */
function readMatch({ info, name, revision }: Match): Condition[] {
  if (name === 'comment') return [];
  const view = new DataView(info.buffer, info.byteOffset, info.byteLength);
  if ((name === 'tcp' || name === 'udp') && revision === 0) return [ports(name, view)];
  if (name === 'multiport' && revision === 1) return [multiport(view)];
  if (name === 'conntrack' && revision === 3) return [connectionState(info)];
  if (name === 'addrtype' && revision === 1) return [addressType(view)];
  return [unknown];
}

/** struct xt_tcp, struct xt_udp: ports in host order. */
function ports(name: 'tcp' | 'udp', view: DataView): Condition {
  const isTCP = name === 'tcp';
  const [inverted, flags] = isTCP ? [view.getUint8(11), view.getUint8(9)] : [view.getUint8(8), 0];
  const option = isTCP ? view.getUint8(8) : 0;
  const isAnySource = view.getUint16(0, true) === 0 && view.getUint16(2, true) === 0xffff;
  const [min, max] = [view.getUint16(4, true), view.getUint16(6, true)];
  const isPlain = isAnySource && flags === 0 && option === 0 && (inverted & ~2) === 0;
  return ({ dport }) => {
    const isIn = dport >= min && dport <= max;
    if (isIn === ((inverted & 2) !== 0)) return false;
    return isPlain ? true : undefined;
  };
}

const statesOfFirst: readonly ConntrackState[] = ['INVALID', 'NEW', 'RELATED', 'ESTABLISHED'];

function connectionState(info: Uint8Array): Condition {
  const { operator, states } = readConntrack(info);
  const isPlain = asksStateOnly(info);
  if (!isPlain || !states.every((state) => statesOfFirst.includes(state))) return unknown;
  return ({ isTracked }) => states.includes(isTracked ? 'NEW' : 'INVALID') === (operator === '==');
}

/** XT_ADDRTYPE_LOCAL */
const localType = 4;

/** struct xt_addrtype_info_v1: the types of both addresses, and flags. */
function addressType(view: DataView): Condition {
  const [source, destination] = [view.getUint16(0, true), view.getUint16(2, true)];
  const isPlain = source === 0 && view.getUint32(4, true) === 0;
  if (!isPlain || destination !== localType) return unknown;
  return ({ daddr }) => (daddr === undefined ? true : undefined);
}

/** XT_MULTIPORT_DESTINATION */
const destinationPorts = 1;

/** struct xt_multiport_v1: up to 15 ports; a port whose flag is set begins a range. */
function multiport(view: DataView): Condition {
  const [kind, count] = [view.getUint8(0), view.getUint8(1)];
  if (kind !== destinationPorts || count > 15) return unknown;
  const ranges: (readonly [number, number])[] = [];
  const port = (index: number): number => view.getUint16(2 + 2 * index, true);
  for (let i = 0; i < count; i += 1) {
    const isRange = view.getUint8(32 + i) !== 0 && i + 1 < count;
    ranges.push([port(i), port(isRange ? i + 1 : i)]);
    if (isRange) i += 1;
  }
  const isInverted = view.getUint8(47) !== 0;
  return ({ dport }) => ranges.some(([min, max]) => dport >= min && dport <= max) !== isInverted;
}
