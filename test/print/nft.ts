/**
 * Ops as text in nft's language, for people, golden files and `nft -f`. What is printed is what is
 * sent: rules are read back from their expressions.
 */

import {
  NFPROTO,
  NFT_SET,
  NFT_SET_ELEM_INTERVAL_END,
  NFT_TYPE,
  type NFTypeName,
  typeBytes,
} from '../../src/kernel/nft/constants.ts';
import { printRule } from '../../src/kernel/nft/print-rule.ts';
import { protocolName } from '../../src/kernel/nft/print-value.ts';
import { printComment, printVerdict } from '../../src/kernel/nft/print-verdict.ts';
import { familyWord } from '../../src/kernel/nft/words.ts';
import { ElementShape, type NftOp, nftOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import { unreachable } from '../../src/modes/nft-table/parts.ts';
import { formatAddress } from '../../src/net/address.ts';

/** Types of a set's key and data; undefined data = a set. */
export interface SetTypes {
  readonly key: readonly NFTypeName[];
  readonly data: readonly NFTypeName[] | 'verdict' | undefined;
}

/** Names the types of a set, by family (NFPROTO_*) and name. */
export type SetTypesOf = (family: number, set: string) => SetTypes;

/** The fields of an `elements` record that say what its entries hold. */
export type PackedEntries = Pick<
  Extract<NftOp, { kind: 'elementsAdd' }>,
  'shape' | 'keyLength' | 'count' | 'entries'
>;
type SetOp = Extract<NftOp, { kind: 'setAdd' }>;

const hookNames = ['prerouting', 'input', 'forward', 'output', 'postrouting'];

/** What nft calls objects, by NFT_OBJECT_*. */
const objectWords = [
  'flowtable',
  'counter',
  'quota',
  'ct helper',
  'limit',
  'connlimit',
  'tunnel',
  'ct timeout',
  'secmark',
  'ct expectation',
  'synproxy',
];

/** One command a line, in the order of the ops. */
export function printOps(ops: Uint8Array, typesOf: SetTypesOf): string {
  const lines: string[] = [];
  for (const op of readRecords(nftOps, ops)) lines.push(printOp(op, typesOf));
  return lines.map((line) => `${line}\n`).join('');
}

/** One op as one line. */
export function printOp(op: NftOp, typesOf: SetTypesOf): string {
  switch (op.kind) {
    case 'tableAdd':
      return `add table ${at(op)}${block(comment(op.comment))}`;
    case 'tableBorrow':
      return `add table ${at(op)}${block('flags owner ;', comment(op.comment))}`;
    case 'tableOwn':
      return `add table ${at(op)}${block('flags owner,persist ;', comment(op.comment))}`;
    case 'tableDelete':
      return `delete table ${at(op)}`;
    case 'chainAdd':
      return `add chain ${at(op)} ${op.chain}${block(comment(op.comment))}`;
    case 'baseChainAdd':
      return `add chain ${at(op)} ${op.chain}${block(...printHook(op), comment(op.comment))}`;
    case 'chainDelete':
      return `delete chain ${at(op)} ${op.chain}`;
    case 'chainFlush':
      return `flush chain ${at(op)} ${op.chain}`;
    case 'ruleAdd':
      return `add rule ${at(op)} ${op.chain} ${printRule(op.family, op.expressions)}`;
    case 'ruleDelete':
      return `delete rule ${at(op)} ${op.chain} handle ${op.handle}`;
    case 'xtRuleAdd':
    case 'xtRuleInsert':
      throw new RangeError(`${op.kind} is an op on the tables of iptables: see iptables.ts`);
    case 'setAdd':
      return printSet(op, typesOf(op.family, op.set));
    case 'objectDelete':
      return `delete ${objectWords[op.type] ?? `object of type ${op.type}`} ${at(op)} ${op.object}`;
    case 'flowtableAdd':
      return `add flowtable ${at(op)} ${op.flowtable} ${hookText(op)}`;
    case 'flowtableDevicesDelete':
      return `delete flowtable ${at(op)} ${op.flowtable} ${hookText(op)}`;
    case 'setDelete':
      return `delete set ${at(op)} ${op.set}`;
    case 'setFlush':
      return `flush set ${at(op)} ${op.set}`;
    case 'elementsAdd':
    case 'elementsDelete': {
      const verb = op.kind === 'elementsAdd' ? 'add' : 'delete';
      const entries = printEntries(op, typesOf(op.family, op.set)).join(' , ');
      return `${verb} element ${at(op)} ${op.set} { ${entries} }`;
    }
    default:
      return unreachable(op);
  }
}

function at({ family, table }: { family: number; table: string }): string {
  return `${familyWord(family)} ${table}`;
}

function hookText({ devices, priority }: { devices: string; priority: number }): string {
  const hook = `hook ingress priority ${priority} ;`;
  return `{ ${hook} devices = { ${devices.split(' ').join(', ')} } ; }`;
}

function comment(text: string): string {
  return text === '' ? '' : `comment "${text}" ;`;
}

function block(...parts: readonly string[]): string {
  const content = parts.filter((part) => part !== '');
  return content.length === 0 ? '' : ` { ${content.join(' ')} }`;
}

/** What follows the name of a base chain. */
export function printHook(
  chain: Pick<Extract<NftOp, { kind: 'baseChainAdd' }>, 'type' | 'hook' | 'priority' | 'policy'>,
): string[] {
  const hook = `type ${chain.type} hook ${hookNames[chain.hook]} priority ${chain.priority} ;`;
  return [hook, `policy ${chain.policy === 1 ? 'accept' : 'drop'} ;`];
}

function printSet(op: SetOp, types: SetTypes): string {
  const kind = types.data === undefined ? 'set' : 'map';
  return `add ${kind} ${at(op)} ${op.set}${block(...printSetBody(op, types))}`;
}

/** What follows the name of a set: types, size, flags, comment. */
export function printSetBody(
  op: Pick<SetOp, 'flags' | 'size' | 'timeoutMs' | 'statement' | 'comment'>,
  { key, data }: SetTypes,
): string[] {
  const flags = [
    (op.flags & NFT_SET.INTERVAL) !== 0 ? 'interval' : '',
    (op.flags & NFT_SET.EVAL) !== 0 ? 'dynamic' : '',
    (op.flags & NFT_SET.TIMEOUT) !== 0 ? 'timeout' : '',
  ].filter((flag) => flag !== '');
  return [
    printType(key, data),
    op.size === 0 ? '' : `size ${op.size} ;`,
    flags.length === 0 ? '' : `flags ${flags.join(',')} ;`,
    op.timeoutMs === 0 ? '' : `timeout ${op.timeoutMs / 1000}s ;`,
    op.statement.length === 0 ? '' : `${printRule(NFPROTO.IPv4, op.statement)} ;`,
    comment(op.comment),
  ];
}

/** Words that have each type. nft has no word for the type of an index, only `typeof` gives it. */
const typeofWords = {
  ipv4_addr: 'ip daddr',
  ipv6_addr: 'ip6 daddr',
  inet_proto: 'meta l4proto',
  inet_service: 'th dport',
  mark: 'numgen random mod 1',
  ifname: 'iifname',
} as const satisfies Record<NFTypeName, string>;

function printType(key: readonly NFTypeName[], data: SetTypes['data']): string {
  const indexed = key.includes('mark');
  const words = (types: readonly NFTypeName[]): string =>
    types.map((type) => (indexed ? typeofWords[type] : type)).join(' . ');
  const mapped = data === undefined ? '' : ` : ${data === 'verdict' ? data : words(data)}`;
  return `${indexed ? 'typeof' : 'type'} ${words(key)}${mapped} ;`;
}

/** The elements, one string each; the two edges of a range become one. */
export function printEntries(packed: PackedEntries, { key, data }: SetTypes): string[] {
  const { entries, shape, count, keyLength } = packed;
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  const printed: string[] = [];
  let offset = 0;
  let first: string | undefined;
  const take = (types: readonly NFTypeName[]): string[] => {
    const parts: string[] = [];
    for (const type of types) {
      parts.push(printValue(type, entries, offset));
      offset += (typeBytes[type] + 3) & ~3;
    }
    return parts;
  };
  const takeText = (): string => {
    const length = view.getUint32(offset, true);
    offset += 4 + ((length + 3) & ~3);
    const start = offset - ((length + 3) & ~3);
    return String.fromCharCode(...entries.subarray(start, start + length));
  };
  for (let i = 0; i < count; i += 1) {
    const keyAt = offset;
    const parts = take(key);
    // One value alone is not padded.
    offset = keyAt + keyLength;
    let text = parts.join(' . ');
    if ((shape & ElementShape.flags) !== 0) {
      const isEnd = view.getUint32(offset, true) === NFT_SET_ELEM_INTERVAL_END;
      offset += 4;
      if (!isEnd) {
        if (first !== undefined) printed.push(`${first}-${lastAddress(key)}`);
        first = text;
        continue;
      }
      const last = before(entries.subarray(offset - 4 - keyLength, offset - 4));
      text = first === last ? last : `${first ?? '?'}-${last}`;
      first = undefined;
    }
    let value = '';
    if ((shape & ElementShape.data) !== 0) {
      value = ` : ${take(data as readonly NFTypeName[]).join(' . ')}`;
    }
    if ((shape & ElementShape.verdict) !== 0) {
      offset += 4;
      value = ` : ${printVerdict(view.getInt32(offset - 4, true), takeText())}`;
    }
    const comment = (shape & ElementShape.comment) === 0 ? '' : takeText();
    printed.push(`${text}${printComment(comment)}${value}`);
  }
  if (first !== undefined) printed.push(`${first}-${lastAddress(key)}`);
  return printed;
}

/** An interval without an end goes up to the last address. */
function lastAddress(key: readonly NFTypeName[]): string {
  return formatAddress(new Uint8Array(typeBytes[key[0]!]).fill(0xff));
}

/** The address before `end`. */
function before(end: Uint8Array): string {
  const bytes = end.slice();
  for (let i = bytes.length - 1; i >= 0; i -= 1) {
    bytes[i] = bytes[i] === 0 ? 0xff : bytes[i]! - 1;
    if (bytes[i] !== 0xff) break;
  }
  return formatAddress(bytes);
}

function printValue(type: NFTypeName, bytes: Uint8Array, offset: number): string {
  switch (type) {
    case 'ipv4_addr':
    case 'ipv6_addr':
      return formatAddress(bytes.subarray(offset, offset + typeBytes[type]));
    case 'inet_proto':
      return protocolName(bytes[offset]!);
    case 'inet_service':
      return String((bytes[offset]! << 8) | bytes[offset + 1]!);
    case 'mark':
      return String(new DataView(bytes.buffer, bytes.byteOffset).getUint32(offset, true));
    case 'ifname':
      return JSON.stringify(nameOf(bytes.subarray(offset, offset + typeBytes[type])));
    default:
      return unreachable(type);
  }
}

function nameOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes).replace(/\0+$/, '');
}

/** The parts of a concatenation's number, as far as they have a name here. */
export function concatParts(type: number): NFTypeName[] {
  const parts: NFTypeName[] = [];
  for (let rest = type; rest > 0; rest = Math.floor(rest / 64)) {
    const known = Object.entries(NFT_TYPE).find(([, number]) => number === rest % 64);
    if (known === undefined) throw new RangeError(`nft's type ${rest % 64} has no name here`);
    parts.unshift(known[0] as NFTypeName);
  }
  return parts;
}
