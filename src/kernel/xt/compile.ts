/**
 * Compiles rules to expressions, as iptables-nft 1.8.9 writes them: interface, protocol and
 * addresses, then the matches in their order, a counter, the target. Also reads expressions back.
 */
import {
  Address,
  addressBytes,
  type CIDR,
  type Family,
  maskBits,
  prefixMask,
} from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import {
  IPPROTO,
  NFT_CMP,
  NFT_META,
  NFT_PAYLOAD,
  NFT_REG_1,
  protocolOf,
} from '../nft/constants.ts';
import { type Expression, expressions } from '../ops.ts';
import { RecordWriter, readRecords } from '../records.ts';
import { type Context, Cursor, type Operator, type Writer } from './codec.ts';
import { matchCodec, matchReaders, targetCodec, targetReaders } from './codecs.ts';
import { readMark } from './matches/mark.ts';
import { readPort } from './matches/port.ts';
import type { AddressMatch, InterfaceMatch, Match, Target, XtRule } from './rule.ts';
import { readVerdict } from './targets/verdict.ts';

/** The fields of an op `xtRule…` that define the rule. */
export interface CompiledRule {
  /** IPPROTO_*; 0 = any. */
  readonly protocol: number;
  /** Records of `expressions`. */
  readonly expressions: Uint8Array;
}

const register = NFT_REG_1;
const fields = {
  IPv4: { source: 12, destination: 16 },
  IPv6: { source: 8, destination: 24 },
} as const satisfies Record<Family, unknown>;

/** Throws RangeError when a name or a comment is too long. */
export function compileRule(family: Family, rule: XtRule): CompiledRule {
  const out = new RecordWriter(expressions, 768);
  const { protocol, inputInterface, source, destination, matches, target } = rule;
  const context: Context = { family, protocol };
  if (inputInterface !== undefined) writeInterface(inputInterface, out);
  if (protocol !== undefined) writeProtocol(protocol, out);
  if (source !== undefined) writeAddress(source, fields[family].source, out);
  if (destination !== undefined) writeAddress(destination, fields[family].destination, out);
  for (const match of matches ?? []) matchCodec(match).write(match, out, context);
  out.write('counter', {});
  if (target !== undefined) targetCodec(target).write(target, out, context);
  return {
    protocol: protocol === undefined ? 0 : IPPROTO[protocol],
    expressions: out.finish(),
  };
}

function compare(operator: Operator, data: Uint8Array, out: Writer): void {
  out.write('cmp', { register, operation: NFT_CMP[operator === '==' ? 'EQ' : 'NEQ'], data });
}

/** Compared with its NUL, unless only the beginning of the name counts. */
function writeInterface({ operator, name }: InterfaceMatch, out: Writer): void {
  out.write('metaLoad', { register, key: NFT_META.IIFNAME });
  const compared = name.endsWith('+') ? name.slice(0, -1) : `${name}\0`;
  compare(operator, new TextEncoder().encode(compared), out);
}

function writeProtocol(protocol: Protocol, out: Writer): void {
  out.write('metaLoad', { register, key: NFT_META.L4PROTO });
  compare('==', Uint8Array.of(IPPROTO[protocol]), out);
}

/** Whole bytes are compared without a mask, and no more of them than the prefix has. */
function writeAddress({ operator, cidr }: AddressMatch, offset: number, out: Writer): void {
  const { address, prefixLength } = cidr;
  if (prefixLength === 0) return;
  const base = NFT_PAYLOAD.NETWORK_HEADER;
  const isWhole = prefixLength % 8 === 0;
  const length = isWhole ? prefixLength / 8 : address.bytes.length;
  out.write('payload', { register, base, offset, length });
  if (!isWhole) {
    const xor = new Uint8Array(length);
    const mask = prefixMask(length, prefixLength);
    out.write('bitwise', { source: register, destination: register, length, mask, xor });
  }
  compare(operator, address.bytes.subarray(0, length), out);
}

/** The rule that has exactly these expressions; undefined when no `XtRule` has. */
export function readRule(family: Family, bytes: Uint8Array): XtRule | undefined {
  const cursor = new Cursor([...readRecords(expressions, bytes)]);
  const inputInterface = cursor.attempt(readInterface);
  const protocol = cursor.attempt(readProtocol);
  const source = cursor.attempt((at) => readAddress(at, family, fields[family].source));
  const destination = cursor.attempt((at) => readAddress(at, family, fields[family].destination));
  const matches: Match[] = [];
  for (let match = readMatch(cursor, family); match; match = readMatch(cursor, family)) {
    matches.push(match);
  }
  cursor.take('counter');
  const target = readTarget(cursor, family);
  const rule: XtRule = {
    ...(inputInterface === undefined ? {} : { inputInterface }),
    ...(protocol === undefined ? {} : { protocol }),
    ...(source === undefined ? {} : { source }),
    ...(destination === undefined ? {} : { destination }),
    ...(matches.length === 0 ? {} : { matches }),
    ...(target === undefined ? {} : { target }),
  };
  // Finds all that was left out, or not checked, above.
  return isSame(family, rule, bytes) ? rule : undefined;
}

function isSame(family: Family, rule: XtRule, bytes: Uint8Array): boolean {
  const needsProtocol = rule.matches?.some(({ kind }) => kind === 'port') === true;
  if (needsProtocol && rule.protocol === undefined) return false;
  return Buffer.compare(compileRule(family, rule).expressions, bytes) === 0;
}

function operatorOf({ operation }: Extract<Expression, { kind: 'cmp' }>): Operator {
  return operation === NFT_CMP.EQ ? '==' : '!=';
}

function readInterface(cursor: Cursor): InterfaceMatch | undefined {
  if (cursor.take('metaLoad')?.key !== NFT_META.IIFNAME) return undefined;
  const cmp = cursor.take('cmp');
  if (cmp === undefined) return undefined;
  const name = new TextDecoder().decode(cmp.data);
  const isWhole = name.endsWith('\0');
  return { operator: operatorOf(cmp), name: isWhole ? name.slice(0, -1) : `${name}+` };
}

function readProtocol(cursor: Cursor): Protocol | undefined {
  if (cursor.take('metaLoad')?.key !== NFT_META.L4PROTO) return undefined;
  return protocolOf(cursor.take('cmp')?.data[0]);
}

function readAddress(cursor: Cursor, family: Family, offset: number): AddressMatch | undefined {
  const payload = cursor.take('payload');
  if (payload?.base !== NFT_PAYLOAD.NETWORK_HEADER || payload.offset !== offset) return undefined;
  const mask = cursor.take('bitwise')?.mask;
  const cmp = cursor.take('cmp');
  if (cmp === undefined || cmp.data.length > addressBytes[family]) return undefined;
  const bytes = new Uint8Array(addressBytes[family]);
  bytes.set(cmp.data);
  const prefixLength = mask === undefined ? cmp.data.length * 8 : maskBits(mask);
  const cidr: CIDR = { address: Address.from(bytes), prefixLength };
  return { operator: operatorOf(cmp), cidr };
}

function readMatch(cursor: Cursor, family: Family): Match | undefined {
  const match = cursor.take('match');
  if (match !== undefined) return readStructure(matchReaders, match, family);
  return cursor.attempt(readMark) ?? cursor.attempt(readPort);
}

function readTarget(cursor: Cursor, family: Family): Target | undefined {
  const target = cursor.take('target');
  if (target !== undefined) return readStructure(targetReaders, target, family);
  return cursor.attempt(readVerdict);
}

function readStructure<Part>(
  readers: Readonly<Record<string, (info: Uint8Array, family: Family) => Part>>,
  { name, info }: { readonly name: string; readonly info: Uint8Array },
  family: Family,
): Part | undefined {
  try {
    return readers[name]?.(info, family);
  } catch (error) {
    // Shorter than the structure: another revision.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
