/**
 * Prints rule expressions in nft's syntax: the inverse of `rule.ts`. Rules of other programs are
 * printed as far as possible without their sets. Unknown expressions are printed in brackets:
 * `[ limit ]`.
 */
import { formatAddress } from '../../net/address.ts';
import { type Expression, expressions, noRegister } from '../ops.ts';
import { readRecords } from '../records.ts';
import {
  NF_NAT_RANGE,
  NFPROTO,
  NFT_DYNSET_OP,
  NFT_LOOKUP_F_INV,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_NG,
  NFT_REG_VERDICT,
  NFT_REJECT_TCP_RST,
  NFT_RT_XFRM,
  NFTA_FIB_F,
  slotOf,
} from './constants.ts';
import {
  ctSelector,
  formatValue,
  type Kind,
  metaSelector,
  operatorWord,
  payloadSelector,
} from './print-value.ts';
import { printVerdict } from './print-verdict.ts';

/** What a register holds: the words that load it, and what was done to it since. */
interface Value {
  readonly words: string;
  readonly kind: Kind;
  /** Bytes loaded; fewer than the field has when only a prefix is compared. */
  readonly length: number;
  readonly mask?: Uint8Array;
  readonly xor?: Uint8Array;
  /** A constant. */
  readonly data?: Uint8Array;
}

const nothing: Value = { words: '[ empty register ]', kind: 'bytes', length: 0 };

/** The words of a rule of a table of the family. */
export function printRule(family: number, bytes: Uint8Array): string {
  const printer = new RulePrinter(family);
  for (const expression of readRecords(expressions, bytes)) printer.read(expression);
  return printer.words.join(' ');
}

class RulePrinter {
  readonly words: string[] = [];
  /** A rule of a table of both families says which it is for. */
  #ip: 'ip' | 'ip6';
  /** By 32-bit register, 0 … 15. */
  #registers = new Map<number, Value>();

  constructor(family: number) {
    this.#ip = family === NFPROTO.IPv6 ? 'ip6' : 'ip';
  }

  read(expression: Expression): void {
    // Which way round a number is does not show in its text.
    if (expression.kind === 'byteorder') return;
    if (expression.kind === 'bitwise') {
      const { mask, xor, source, destination } = expression;
      this.#registers.set(slotOf(destination), { ...this.#at(source), mask, xor });
      return;
    }
    if (expression.kind === 'hash') {
      this.#hash(expression);
      return;
    }
    const loaded = this.#loaded(expression);
    if (loaded !== undefined && 'register' in expression) {
      const length = 'length' in expression ? expression.length : 4;
      this.#registers.set(slotOf(expression.register), { ...loaded, length });
      return;
    }
    this.#statement(expression);
    this.#registers = new Map(this.#kept(expression));
  }

  /** Removes the hashed registers, which then belong to no concatenation. */
  #hash({ source, destination, length, modulus, seed }: Extract<Expression, { kind: 'hash' }>) {
    const end = slotOf(source) + Math.ceil(length / 4);
    const words = `jhash ${this.#concat(source, end)} mod ${modulus} seed 0x${seed.toString(16)}`;
    for (const at of [...this.#registers.keys()]) {
      if (at >= slotOf(source) && at < end) this.#registers.delete(at);
    }
    this.#registers.set(slotOf(destination), { words, kind: 'number', length: 4 });
  }

  /** What it loads; undefined: it loads nothing. */
  #loaded(expression: Expression): Pick<Value, 'words' | 'kind' | 'data'> | undefined {
    switch (expression.kind) {
      case 'payload':
        return payloadSelector(this.#ip, expression);
      case 'metaLoad':
        return metaSelector(expression.key);
      case 'ctLoad':
        return ctSelector(this.#ip, expression);
      case 'numgen': {
        const type = expression.type === NFT_NG.RANDOM ? 'random' : 'inc';
        return { words: `numgen ${type} mod ${expression.modulus}`, kind: 'number' };
      }
      case 'rtLoad':
        return { words: expression.key === NFT_RT_XFRM ? 'rt ipsec' : 'rt', kind: 'presence' };
      case 'fib': {
        const field = expression.flags === NFTA_FIB_F.SADDR ? 'saddr' : 'daddr';
        return { words: `fib ${field} type`, kind: 'address type' };
      }
      case 'immediateData': {
        const { data } = expression;
        return {
          words: formatValue(data.length === 1 ? 'number' : 'bytes', data),
          kind: 'bytes',
          data,
        };
      }
      default:
        return undefined;
    }
  }

  /** A lookup into a register feeds the next statement; any other statement ends the registers. */
  #kept(expression: Expression): [number, Value][] {
    if (expression.kind !== 'lookup' || expression.destination === noRegister) return [];
    if (expression.destination === NFT_REG_VERDICT) return [];
    const words = `${this.#concat(expression.source)} map @${expression.set}`;
    return [[slotOf(expression.destination), { words, kind: 'bytes', length: 0 }]];
  }

  #at(register: number): Value {
    return this.#registers.get(slotOf(register)) ?? nothing;
  }

  /** The concatenation that begins at `register`, up to `before`. */
  #concat(register: number, before = Number.POSITIVE_INFINITY): string {
    return [...this.#registers]
      .filter(([at]) => at >= slotOf(register) && at < before)
      .sort(([a], [b]) => a - b)
      .map(([, { words }]) => words)
      .join(' . ');
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
        return this.#setMeta(expression);
      case 'lookup': {
        const key = this.#concat(expression.source);
        if (expression.destination === NFT_REG_VERDICT) return `${key} vmap @${expression.set}`;
        if (expression.destination !== noRegister) return '';
        return `${key} ${(expression.flags & NFT_LOOKUP_F_INV) === 0 ? '' : '!= '}@${expression.set}`;
      }
      case 'nat':
        return this.#translate(expression);
      case 'flowOffload':
        return `flow add @${expression.flowtable}`;
      case 'masquerade':
        return (expression.flags & NF_NAT_RANGE.PROTO_RANDOM_FULLY) === 0
          ? 'masquerade'
          : 'masquerade fully-random';
      case 'reject':
        return expression.type === NFT_REJECT_TCP_RST ? 'reject with tcp reset' : 'reject';
      case 'immediateVerdict':
        return printVerdict(expression.code, expression.chain);
      case 'dynset':
        return this.#updateSet(expression);
      case 'match':
      case 'target':
      case 'unknown':
        return `[ ${expression.name} ]`;
      default:
        return `[ ${expression.kind} ]`;
    }
  }

  #compare({ register, operation, data }: Extract<Expression, { kind: 'cmp' }>): string {
    const { kind, length, mask, words } = this.#at(register);
    if (words === 'meta nfproto') this.#ip = data[0] === NFPROTO.IPv6 ? 'ip6' : 'ip';
    // An interface is known by its name alone.
    const subject = kind === 'interface' ? words.replace('meta ', '') : words;
    const operator = operatorWord(operation);
    if (mask === undefined || kind.endsWith('address')) {
      return `${subject} ${operator}${formatValue(kind, data, mask, length)}`;
    }
    const isBits = kind === 'state' || kind === 'status';
    const isAny = operation === 1 && data.every((byte) => byte === 0);
    if (isBits && isAny) return `${subject} ${formatValue(kind, mask)}`;
    const [bits, value] = [formatValue('bits', mask), formatValue('bits', data)];
    return `${subject} & ${bits} ${operator || '== '}${Number(value) === 0 ? '0' : value}`;
  }

  #setMeta({ key, register }: Extract<Expression, { kind: 'metaSet' }>): string {
    const { words } = metaSelector(key);
    const value = this.#at(register);
    if (key !== NFT_META.MARK || value.mask === undefined || value.xor === undefined) {
      return `${words} set ${value.words}`;
    }
    const keepsAll = value.mask.every((byte) => byte === 0xff);
    return `${words} set ${value.words} ${keepsAll ? '^' : '|'} ${formatValue('bits', value.xor)}`;
  }

  #translate({ type, addressMin, portMin }: Extract<Expression, { kind: 'nat' }>): string {
    const verb = type === NFT_NAT_DNAT ? 'dnat' : 'snat';
    const { data, words } = this.#at(addressMin);
    if (words.includes(' map @')) return `${verb} ${this.#ip} addr . port to ${words}`;
    const address = data === undefined ? '' : ` ${formatAddress(data)}`;
    const port = portMin === noRegister ? undefined : this.#at(portMin).data;
    return `${verb} to${address}${port === undefined ? '' : ` port ${formatValue('port', port)}`}`;
  }

  #updateSet(expression: Extract<Expression, { kind: 'dynset' }>): string {
    const { data, key, operation, set, timeoutMs } = expression;
    const verb =
      operation === NFT_DYNSET_OP.UPDATE
        ? 'update'
        : operation === NFT_DYNSET_OP.ADD
          ? 'add'
          : 'delete';
    const timeout = timeoutMs === 0 ? '' : ` timeout ${timeoutMs / 1000}s`;
    const value = data === noRegister ? '' : ` : ${this.#concat(data)}`;
    return `${verb} @${set} { ${this.#concat(key, slotOf(data))}${timeout}${value} }`;
  }
}
