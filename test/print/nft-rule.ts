/** Rule expressions as nft's words: the inverse of `rule.ts`. */

import {
  IPPROTO,
  NFPROTO,
  NFT_CMP,
  NFT_CT,
  NFT_META,
  NFT_PAYLOAD,
  NFT_REG_VERDICT,
  NFT_REG32_00,
  NFTA_FIB_F,
} from '../../src/kernel/nft/constants.ts';
import { printVerdict } from '../../src/kernel/nft/print-verdict.ts';
import { type Expression, expressions, noRegister } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { formatAddress } from '../../src/net/address.ts';

/** What a register holds: the words that load it, and what was done to it since. */
interface Value {
  readonly words: string;
  /** Bytes loaded; fewer than the field has when only a prefix is compared. */
  readonly length: number;
  readonly mask?: Uint8Array;
  readonly xor?: Uint8Array;
}

/** The words of a rule. Expressions that `rule.ts` never writes print as `[ kind ]`. */
export function printRule(family: number, bytes: Uint8Array): string {
  const printer = new RulePrinter(family);
  for (const expression of readRecords(expressions, bytes)) printer.read(expression);
  return printer.words.join(' ');
}

class RulePrinter {
  readonly words: string[] = [];
  readonly #ip: 'ip' | 'ip6';
  /** By 32-bit register, 0 … 15. */
  #registers = new Map<number, Value>();

  constructor(family: number) {
    this.#ip = family === NFPROTO.IPv4 ? 'ip' : 'ip6';
  }

  read(expression: Expression): void {
    switch (expression.kind) {
      case 'payload':
        this.#load(expression.register, this.#payload(expression), expression.length);
        return;
      case 'metaLoad':
        this.#load(expression.register, `meta ${metaName(expression.key)}`, 4);
        return;
      case 'ctLoad':
        this.#load(expression.register, this.#ct(expression), 4);
        return;
      case 'numgen':
        this.#load(expression.register, `numgen random mod ${expression.modulus}`, 4);
        return;
      case 'fib': {
        const field = expression.flags === NFTA_FIB_F.SADDR ? 'saddr' : 'daddr';
        this.#load(expression.register, `fib ${field} type`, 4);
        return;
      }
      case 'bitwise': {
        const { mask, xor, source, destination } = expression;
        this.#registers.set(slot(destination), { ...this.#at(source), mask, xor });
        return;
      }
      default:
        this.#statement(expression);
        this.#registers = new Map(this.#kept(expression));
    }
  }

  /** A lookup into a register feeds the next statement; any other statement ends the registers. */
  #kept(expression: Expression): [number, Value][] {
    if (expression.kind !== 'lookup' || expression.destination === noRegister) return [];
    if (expression.destination === NFT_REG_VERDICT) return [];
    const words = `${this.#concat(expression.source)} map @${expression.set}`;
    return [[slot(expression.destination), { words, length: 0 }]];
  }

  #load(register: number, words: string, length: number): void {
    this.#registers.set(slot(register), { words, length });
  }

  #at(register: number): Value {
    return this.#registers.get(slot(register)) ?? { words: '[ empty register ]', length: 0 };
  }

  /** The concatenation that begins at `register`, up to `before`. */
  #concat(register: number, before = Number.POSITIVE_INFINITY): string {
    return [...this.#registers]
      .filter(([at]) => at >= slot(register) && at < before)
      .sort(([a], [b]) => a - b)
      .map(([, { words }]) => words)
      .join(' . ');
  }

  #payload({ base, offset }: Extract<Expression, { kind: 'payload' }>): string {
    if (base === NFT_PAYLOAD.TRANSPORT_HEADER && offset === 2) return 'th dport';
    const source = this.#ip === 'ip' ? 12 : 8;
    return `${this.#ip} ${offset === source ? 'saddr' : 'daddr'}`;
  }

  #ct({ key }: Extract<Expression, { kind: 'ctLoad' }>): string {
    switch (key) {
      case NFT_CT.STATE:
        return 'ct state';
      case NFT_CT.STATUS:
        return 'ct status';
      case NFT_CT.PROTO_DST:
        return 'ct original proto-dst';
      default:
        return `ct original ${this.#ip} daddr`;
    }
  }

  #statement(expression: Expression): void {
    const words = this.#print(expression);
    if (words !== '') this.words.push(words);
  }

  #print(expression: Expression): string {
    switch (expression.kind) {
      case 'cmp':
        return this.#compare(expression);
      case 'metaSet':
        return `meta mark set ${markChange(this.#at(expression.register))}`;
      case 'lookup': {
        const key = this.#concat(expression.source);
        if (expression.destination === NFT_REG_VERDICT) return `${key} vmap @${expression.set}`;
        if (expression.destination !== noRegister) return '';
        return `${key} ${expression.flags === 0 ? '' : '!= '}@${expression.set}`;
      }
      case 'nat':
        return `dnat ${this.#ip} addr . port to ${this.#at(expression.addressMin).words}`;
      case 'masquerade':
        return 'masquerade fully-random';
      case 'reject':
        return 'reject';
      case 'immediateVerdict':
        return printVerdict(expression.code, expression.chain);
      case 'dynset': {
        const key = this.#concat(expression.key, slot(expression.data));
        const timeout =
          expression.timeoutMs === 0 ? '' : ` timeout ${expression.timeoutMs / 1000}s`;
        const data = expression.data === noRegister ? '' : ` : ${this.#concat(expression.data)}`;
        return `update @${expression.set} { ${key}${timeout}${data} }`;
      }
      default:
        return `[ ${expression.kind} ]`;
    }
  }

  #compare({ register, operation, data }: Extract<Expression, { kind: 'cmp' }>): string {
    const value = this.#at(register);
    const { words, mask } = value;
    const not = operation === NFT_CMP.NEQ ? '!= ' : '';
    if (words.endsWith('addr')) return `${words} ${not}${prefix(this.#ip, value, data)}`;
    if (words === 'meta l4proto') return `${words} ${not}${protocolName(data[0]!)}`;
    if (words === 'meta iifname') return `iifname ${not}"${interfaceName(data)}"`;
    if (words.startsWith('fib')) return `${words} ${not}local`;
    if (words === 'ct state') return 'ct state new';
    if (words === 'ct status') return 'ct status dnat';
    return `${words} & ${hex(mask!)} ${not}0`;
  }
}

/** The 32-bit register that a kernel register number begins at. */
function slot(register: number): number {
  return register >= NFT_REG32_00 ? register - NFT_REG32_00 : (register - 1) * 4;
}

function metaName(key: number): string {
  switch (key) {
    case NFT_META.L4PROTO:
      return 'l4proto';
    case NFT_META.IIFNAME:
      return 'iifname';
    default:
      return 'mark';
  }
}

function markChange({ mask, xor }: Value): string {
  const keepsAll = mask!.every((byte) => byte === 0xff);
  return `meta mark ${keepsAll ? '^' : '|'} ${hex(xor!)}`;
}

/** A 32-bit value in host order, as nft prints marks. */
function hex(bytes: Uint8Array): string {
  const value = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  return `0x${value.toString(16).padStart(8, '0')}`;
}

function prefix(ip: 'ip' | 'ip6', { length, mask }: Value, data: Uint8Array): string {
  const full = new Uint8Array(ip === 'ip' ? 4 : 16);
  full.set(data);
  const bits = mask === undefined ? length * 8 : maskBits(mask);
  const address = formatAddress(full);
  return bits === full.length * 8 ? address : `${address}/${bits}`;
}

function maskBits(mask: Uint8Array): number {
  return mask.reduce((bits, byte) => bits + byte.toString(2).replaceAll('0', '').length, 0);
}

function interfaceName(data: Uint8Array): string {
  const name = new TextDecoder().decode(data);
  const end = name.indexOf('\0');
  return end < 0 ? `${name}*` : name.slice(0, end);
}

export function protocolName(number: number): string {
  const known = Object.entries(IPPROTO).find(([, value]) => value === number);
  return known === undefined ? String(number) : known[0].toLowerCase();
}
