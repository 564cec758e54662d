/** Reads expressions of rules as conditions on a packet's destination, and what they lead to. */
import {
  NFPROTO,
  NFT_CMP,
  NFT_CT,
  NFT_LOOKUP_F_INV,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_PAYLOAD,
  NFT_REG_VERDICT,
  slotOf,
  VERDICT,
} from '../../../kernel/nft/constants.ts';
import { type Expression, noRegister } from '../../../kernel/ops.ts';
import type { Family } from '../../../net/address.ts';
import type { Members } from './sets.ts';
import type { Action, Condition, FirstPacket } from './walk.ts';
import { readMatch, targetAction } from './xt.ts';

/** Bytes of a packet, or of what is known of it; undefined: not known. */
type Load = (packet: FirstPacket) => Uint8Array | undefined;

interface Register {
  readonly load: Load;
  /** It has the mark, of which some bits may be known. */
  readonly isMark?: boolean;
  readonly length: number;
}

const unknown: Condition = () => undefined;
const nothing: Load = () => undefined;
const inputName: Load = () => undefined;
const loopbackName = Buffer.from('lo\0');

/** NFT_META_*, beyond those of constants.ts. */
const META = { PROTOCOL: 1, NFPROTO: 15 } as const;
/** NFT_CMP_*, likewise. */
const CMP = { LT: 2, LTE: 3, GTE: 5 } as const;
/** NF_CT_STATE_INVALID_BIT, and NF_CT_STATE_BIT(IP_CT_NEW). */
const ctState = { invalid: Uint8Array.of(1, 0, 0, 0), new: Uint8Array.of(8, 0, 0, 0) } as const;

/** Where the header of each family has the fields. */
const header = {
  IPv4: { protocol: 9, saddr: 12, daddr: 16, length: 4, ethertype: Uint8Array.of(0x08, 0x00) },
  IPv6: { protocol: 6, saddr: 8, daddr: 24, length: 16, ethertype: Uint8Array.of(0x86, 0xdd) },
} as const satisfies Record<Family, unknown>;

/** Kernel expressions that records do not decode, after which the next rule applies. */
const harmless: ReadonlySet<string> = new Set(['log', 'notrack', 'dup', 'last']);
const redirecting: ReadonlySet<string> = new Set(['redir', 'tproxy']);
const leaving: ReadonlySet<string> = new Set(['queue', 'synproxy', 'fwd']);

/** `sets`: those of the table whose elements were read. */
export function readRule(
  expressions: readonly Expression[],
  sets: ReadonlyMap<string, Members>,
): { readonly conditions: readonly Condition[]; readonly action: Action } {
  const reader = new Reader(sets);
  for (const one of expressions) reader.read(one);
  return reader;
}

class Reader {
  readonly conditions: Condition[] = [];
  action: Action = { kind: 'none' };
  readonly #sets: ReadonlyMap<string, Members>;
  /** By 32-bit register, 0 … 15. */
  readonly #registers = new Map<number, Register>();

  constructor(sets: ReadonlyMap<string, Members>) {
    this.#sets = sets;
  }

  read(expression: Expression): void {
    switch (expression.kind) {
      case 'payload':
        this.#load(expression.register, payload(expression), expression.length);
        break;
      case 'metaLoad':
        this.#load(expression.register, meta(expression.key), 4, expression.key === NFT_META.MARK);
        break;
      case 'ctLoad':
        this.#load(expression.register, ct(expression.key), 4);
        break;
      case 'immediateData':
        this.#load(expression.register, () => expression.data, expression.data.length);
        break;
      case 'bitwise':
        this.#bitwise(expression);
        break;
      case 'cmp':
        this.conditions.push(this.#compare(expression));
        break;
      case 'lookup':
        this.#lookup(expression);
        break;
      case 'match':
        this.conditions.push(...readMatch(expression));
        break;
      case 'unknown':
        this.#unknown(expression.name);
        break;
      default:
        this.#statement(expression);
    }
  }

  #statement(expression: Expression): void {
    switch (expression.kind) {
      case 'immediateVerdict':
        this.action = verdict(expression.code, expression.chain);
        break;
      case 'reject':
        this.action = { kind: 'reject' };
        break;
      case 'nat':
        this.action = { kind: expression.type === NFT_NAT_DNAT ? 'redirect' : 'accept' };
        break;
      case 'masquerade':
        this.action = { kind: 'accept' };
        break;
      case 'target':
        this.action = targetAction(expression.name);
        break;
      case 'counter':
      case 'metaSet':
      case 'flowOffload':
        break;
      case 'dynset':
        this.conditions.push(unknown);
        break;
      case 'byteorder':
        this.#load(expression.destination, nothing, expression.length);
        break;
      default:
        if ('register' in expression) this.#load(expression.register, nothing, 4);
    }
  }

  #load(register: number, load: Load, length: number, isMark = false): void {
    this.#registers.set(slotOf(register), { load, length, isMark });
  }

  #at(register: number): Register {
    return this.#registers.get(slotOf(register)) ?? { load: nothing, length: 4 };
  }

  #bitwise({ destination, length, mask, source, xor }: Extract<Expression, { kind: 'bitwise' }>) {
    const { isMark, load } = this.#at(source);
    const masked: Load = (packet) =>
      (isMark ? clearBits(packet, mask) : load(packet))?.map(
        (byte, i) => (byte & (mask[i] ?? 0xff)) ^ (xor[i] ?? 0),
      );
    this.#load(destination, masked, length);
  }

  #compare({ data, operation, register }: Extract<Expression, { kind: 'cmp' }>): Condition {
    const { load } = this.#at(register);
    const isLoopback =
      load === inputName && Buffer.compare(data.subarray(0, 3), loopbackName) === 0;
    if (isLoopback && operation === NFT_CMP.EQ) {
      return ({ isFromOutside }) => (isFromOutside ? false : undefined);
    }
    return (packet) => {
      const value = load(packet)?.subarray(0, data.length);
      if (value === undefined || value.length < data.length) return undefined;
      const order = Buffer.compare(value, data);
      switch (operation) {
        case NFT_CMP.EQ:
          return order === 0;
        case NFT_CMP.NEQ:
          return order !== 0;
        case CMP.LT:
          return order < 0;
        case CMP.LTE:
          return order <= 0;
        case NFT_CMP.GT:
          return order > 0;
        case CMP.GTE:
          return order >= 0;
        default:
          return undefined;
      }
    };
  }

  #lookup({ destination, flags, set, source }: Extract<Expression, { kind: 'lookup' }>): void {
    if (destination === NFT_REG_VERDICT) {
      this.action = { kind: 'unsure' };
      return;
    }
    if (destination !== noRegister) {
      this.#load(destination, nothing, 4);
      this.conditions.push(unknown);
      return;
    }
    const members = this.#sets.get(set);
    if (members === undefined) {
      this.conditions.push(unknown);
      return;
    }
    const key = this.#key(source, members.keyLength);
    const isInverted = (flags & NFT_LOOKUP_F_INV) !== 0;
    this.conditions.push((packet) => {
      const value = key(packet);
      return value === undefined ? undefined : members.has(value) !== isInverted;
    });
  }

  /** The parts of a concatenation, each padded to 4 bytes. */
  #key(source: number, length: number): Load {
    const parts: Register[] = [];
    for (let at = 0; at < length; ) {
      const part = this.#registers.get(slotOf(source) + at / 4);
      if (part === undefined) return nothing;
      parts.push(part);
      at += (part.length + 3) & ~3;
    }
    return (packet) => {
      const key = new Uint8Array((length + 3) & ~3);
      let at = 0;
      for (const { length: size, load } of parts) {
        const value = load(packet);
        if (value === undefined || at + value.length > key.length) return undefined;
        key.set(value, at);
        at += (size + 3) & ~3;
      }
      return key.subarray(0, length);
    };
  }

  #unknown(name: string): void {
    if (harmless.has(name)) return;
    if (redirecting.has(name)) this.action = { kind: 'redirect' };
    else if (leaving.has(name)) this.action = { kind: 'unsure' };
    else this.conditions.push(unknown);
  }
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

function payload({ base, length, offset }: Extract<Expression, { kind: 'payload' }>): Load {
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
    case META.NFPROTO:
      return ({ family }) => Uint8Array.of(NFPROTO[family]);
    case META.PROTOCOL:
      return ({ family }) => header[family].ethertype;
    case NFT_META.IIFNAME:
      return inputName;
    default:
      return nothing;
  }
}

function ct(key: number): Load {
  if (key !== NFT_CT.STATE) return nothing;
  return ({ isTracked }) => (isTracked ? ctState.new : ctState.invalid);
}
