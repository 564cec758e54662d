/**
 * Prints rule expressions in nft's syntax: the inverse of `rule.ts`. Rules of other programs are
 * printed as far as possible without their sets. Unknown expressions are printed in brackets:
 * `[ limit ]`.
 */
import { formatAddress } from '../../net/address.ts';
import { noRegister } from '../ops.ts';
import { readRule } from '../xt/compile.ts';
import { printRule as printXtRule } from '../xt/print.ts';
import { type Clause, type ClauseOf, readClauses, type Value } from './clauses.ts';
import {
  NF_NAT_RANGE,
  NFPROTO,
  NFT_CONNLIMIT_F_INV,
  NFT_DYNSET_OP,
  NFT_LIMIT_F_INV,
  NFT_META,
  NFT_NAT_DNAT,
  NFT_NG,
  NFT_REJECT_TCP_RST,
  NFT_RT_XFRM,
  NFTA_FIB_F,
} from './constants.ts';
import {
  ctSelector,
  formatValue,
  metaSelector,
  operatorWord,
  payloadSelector,
  type Selector,
} from './print-value.ts';
import { printVerdict } from './print-verdict.ts';
import { familyWord } from './words.ts';

/** The words of a rule of a table of the family. */
export function printRule(family: number, bytes: Uint8Array): string {
  const printer = new RulePrinter(family);
  const words = readClauses(bytes).map((clause) => printer.print(clause));
  return words.filter((one) => one !== '').join(' ');
}

class RulePrinter {
  /** A rule of a table of both families says which it is for. */
  #ip: 'ip' | 'ip6';

  constructor(family: number) {
    this.#ip = family === NFPROTO.IPv6 ? 'ip6' : 'ip';
  }

  print(clause: Clause): string {
    switch (clause.kind) {
      case 'cmp':
        return this.#compare(clause);
      case 'metaSet':
        return this.#setMeta(clause);
      case 'lookup':
        return this.#lookUp(clause);
      case 'nat':
        return this.#translate(clause);
      case 'flowOffload':
        return `flow add @${clause.flowtable}`;
      case 'masquerade':
        return (clause.flags & NF_NAT_RANGE.PROTO_RANDOM_FULLY) === 0
          ? 'masquerade'
          : 'masquerade fully-random';
      case 'reject':
        return clause.type === NFT_REJECT_TCP_RST ? 'reject with tcp reset' : 'reject';
      case 'immediateVerdict':
        return printVerdict(clause.code, clause.chain);
      case 'dynset':
        return this.#updateSet(clause);
      case 'match':
      case 'target':
      case 'unknown':
        return `[ ${clause.name} ]`;
      case 'connlimit':
        return `ct count ${overWord(clause.flags & NFT_CONNLIMIT_F_INV)}${clause.count}`;
      case 'limit':
        return printLimit(clause);
      case 'counter':
        return 'counter';
    }
  }

  /** What loads the value. Which way round a number is does not show in its text. */
  #selector(value: Value): Selector {
    switch (value.kind) {
      case 'payload':
        return payloadSelector(this.#ip, value);
      case 'metaLoad':
        return metaSelector(value.key);
      case 'ctLoad':
        return ctSelector(this.#ip, value);
      case 'numgen': {
        const type = value.type === NFT_NG.RANDOM ? 'random' : 'inc';
        return { words: `numgen ${type} mod ${value.modulus}`, kind: 'number' };
      }
      case 'rtLoad':
        return { words: value.key === NFT_RT_XFRM ? 'rt ipsec' : 'rt', kind: 'presence' };
      case 'fib': {
        const field = value.flags === NFTA_FIB_F.SADDR ? 'saddr' : 'daddr';
        return { words: `fib ${field} type`, kind: 'address type' };
      }
      case 'immediateData': {
        const kind = value.data.length === 1 ? 'number' : 'bytes';
        return { words: formatValue(kind, value.data), kind: 'bytes' };
      }
      case 'bitwise':
      case 'byteorder':
        return this.#selector(value.of);
      case 'hash': {
        const { modulus, parts, seed } = value;
        const words = `jhash ${this.#words(parts)} mod ${modulus} seed 0x${seed.toString(16)}`;
        return { words, kind: 'number' };
      }
      case 'lookup':
        return { words: `${this.#words(value.parts)} map @${value.set}`, kind: 'bytes' };
      case 'nothing':
        return { words: '[ empty register ]', kind: 'bytes' };
    }
  }

  /** A concatenation. */
  #words(values: readonly Value[]): string {
    const words = values.map((one) => {
      const { kind, words } = this.#selector(one);
      return one.kind === 'bitwise' ? `${words} & ${formatValue(kind, one.mask)}` : words;
    });
    return words.join(' . ');
  }

  #lookUp({ for: what, parts, set }: ClauseOf<'lookup'>): string {
    // The statement that takes the value says it.
    if (what === 'value') return '';
    const words = { presence: '', absence: '!= ', verdict: 'vmap ' }[what];
    return `${this.#words(parts)} ${words}@${set}`;
  }

  #compare({ data, operation, value }: ClauseOf<'cmp'>): string {
    const { kind, words } = this.#selector(value);
    const loaded = unturned(value);
    const mask = loaded.kind === 'bitwise' ? loaded.mask : undefined;
    if (words === 'meta nfproto') this.#ip = data[0] === NFPROTO.IPv6 ? 'ip6' : 'ip';
    // An interface is known by its name alone.
    const subject = kind === 'interface' ? words.replace('meta ', '') : words;
    const operator = operatorWord(operation);
    if (mask === undefined || kind.endsWith('address')) {
      return `${subject} ${operator}${formatValue(kind, data, mask)}`;
    }
    const isBits = kind === 'state' || kind === 'status';
    const isAny = operation === 1 && data.every((byte) => byte === 0);
    if (isBits && isAny) return `${subject} ${formatValue(kind, mask)}`;
    const [bits, own] = [formatValue('bits', mask), formatValue('bits', data)];
    return `${subject} & ${bits} ${operator || '== '}${Number(own) === 0 ? '0' : own}`;
  }

  #setMeta({ key, value }: ClauseOf<'metaSet'>): string {
    const { words } = metaSelector(key);
    const from = this.#selector(value).words;
    const loaded = unturned(value);
    if (key !== NFT_META.MARK || loaded.kind !== 'bitwise') return `${words} set ${from}`;
    const keepsAll = loaded.mask.every((byte) => byte === 0xff);
    return `${words} set ${from} ${keepsAll ? '^' : '|'} ${formatValue('bits', loaded.xor)}`;
  }

  #translate({ address, port, type }: ClauseOf<'nat'>): string {
    const verb = type === NFT_NAT_DNAT ? 'dnat' : 'snat';
    if (address?.kind === 'lookup') {
      return `${verb} ${this.#ip} addr . port to ${this.#selector(address).words}`;
    }
    const host = address?.kind === 'immediateData' ? ` ${formatAddress(address.data)}` : '';
    const at = port?.kind === 'immediateData' ? ` port ${formatValue('port', port.data)}` : '';
    return `${verb} to${host}${at}`;
  }

  #updateSet({ dataParts, operation, over, parts, set, timeoutMs }: ClauseOf<'dynset'>): string {
    const verb =
      operation === NFT_DYNSET_OP.UPDATE
        ? 'update'
        : operation === NFT_DYNSET_OP.ADD
          ? 'add'
          : 'delete';
    const timeout = timeoutMs === 0 ? '' : ` timeout ${timeoutMs / 1000}s`;
    const value = dataParts === undefined ? '' : ` : ${this.#words(dataParts)}`;
    const limit = over === noRegister ? '' : ` ct count over ${over}`;
    return `${verb} @${set} { ${this.#words(parts)}${timeout}${limit}${value} }`;
  }
}

function overWord(inverted: number): string {
  return inverted === 0 ? '' : 'over ';
}

/** Of bytes, or for another time than a second: as far as that goes. */
function printLimit({ burst, flags, rate, type, unit }: ClauseOf<'limit'>): string {
  const per = new Map([
    [1, 'second'],
    [60, 'minute'],
  ]).get(unit);
  if (type !== 0 || per === undefined) return '[ limit ]';
  return `limit rate ${overWord(flags & NFT_LIMIT_F_INV)}${rate}/${per} burst ${burst} packets`;
}

function unturned(value: Value): Value {
  return value.kind === 'byteorder' ? unturned(value.of) : value;
}

/** `inet firewalld filter_FORWARD`; `family` is NFPROTO_*. */
export function chainText({
  chain,
  family,
  table,
}: {
  readonly family: number;
  readonly table: string;
  readonly chain: string;
}): string {
  return `${familyWord(family)} ${table} ${chain}`;
}

/** `tcp dport 8080 drop`; `family` is NFPROTO_* of the table, `bytes` records of `expressions`. */
export function ruleText(family: number, bytes: Uint8Array): string {
  const isXt = readClauses(bytes).some(({ kind }) => kind === 'match' || kind === 'target');
  const of = family === NFPROTO.IPv6 ? 'IPv6' : 'IPv4';
  const xt = isXt ? readRule(of, bytes) : undefined;
  return xt === undefined ? printRule(family, bytes) : printXtRule(of, xt);
}
