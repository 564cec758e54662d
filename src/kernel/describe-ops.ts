/** Ops in the words of the tools that would do the same: nft, ipvsadm, ip. */
import { type Family, formatAddress } from '../net/address.ts';
import { IPPROTO, NFPROTO, type NFTypeName, typeBytes } from './nft/constants.ts';
import { printVerdict } from './nft/print-verdict.ts';
import type { SetDefinition } from './nft/sets.ts';
import { ElementShape, kernelOps } from './ops.ts';
import { type RecordOf, readRecords } from './records.ts';

type Op = RecordOf<typeof kernelOps>;
type Elements = Extract<Op, { kind: 'elementsAdd' | 'elementsDelete' }>;

/** What keys and data of a set are; undefined: it is not known. */
export type TypesOf = (
  family: Family,
  table: string,
  set: string,
) => Pick<SetDefinition, 'key' | 'data'> | undefined;

export function* describeOps(ops: Uint8Array, typesOf: TypesOf): Generator<string> {
  for (const op of readRecords(kernelOps, ops)) {
    if (op.kind === 'elementsAdd' || op.kind === 'elementsDelete') {
      yield* describeElements(op, typesOf);
    } else yield describe(op);
  }
}

const verbs = { Add: 'add', Delete: 'delete', Flush: 'flush', Set: 'set', Own: 'own' } as const;

/** `add chain ip fairlead cluster-2-e`; what no tool has a word for keeps the name of the op. */
function describe(op: Op): string {
  const [, noun = op.kind, verb = ''] = /^(.*?)(Add|Delete|Flush|Set|Own)$/.exec(op.kind) ?? [];
  const word = verbs[verb as keyof typeof verbs] ?? verb;
  if ('destination' in op)
    return `${word} destination ${at(op)} -> ${peer(op.destination, op.destinationPort)}`;
  if ('address' in op && 'protocol' in op) return `${word} virtual service ${at(op)}`;
  if ('addresses' in op) {
    const width = op.family === NFPROTO.IPv4 ? 4 : 16;
    return `${word} address ${formatAddress(op.addresses.subarray(0, width))} dev ${op.link}`;
  }
  if (!('table' in op)) return `${word} ${noun}`;
  const name = 'chain' in op ? op.chain : 'set' in op ? op.set : 'object' in op ? op.object : '';
  const what = { baseChain: 'chain', xtRule: 'rule', xtRuleInsert: 'rule' }[noun] ?? noun;
  return `${word} ${what} ${familyWord(op.family)} ${op.table} ${name}`.trimEnd();
}

function at(op: {
  readonly protocol: number;
  readonly address: Uint8Array;
  readonly port: number;
}) {
  return `${protocolWord(op.protocol)} ${peer(op.address, op.port)}`;
}

function peer(address: Uint8Array, port: number): string {
  const text = formatAddress(address);
  return address.length === 4 ? `${text}:${port}` : `[${text}]:${port}`;
}

function familyWord(family: number): string {
  return family === NFPROTO.IPv4 ? 'ip' : family === NFPROTO.IPv6 ? 'ip6' : `family ${family}`;
}

function protocolWord(number: number): string {
  const known = Object.entries(IPPROTO).find(([, value]) => value === number);
  return known?.[0].toLowerCase() ?? String(number);
}

function* describeElements(op: Elements, typesOf: TypesOf): Generator<string> {
  const { count, dataLength, entries, family, keyLength, set, shape, table } = op;
  const verb = op.kind === 'elementsAdd' ? 'add' : 'delete';
  const where = `${verb} element ${familyWord(family)} ${table} ${set}`;
  const types = typesOf(family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6', table, set);
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength);
  let from = 0;
  for (let i = 0; i < count; i += 1) {
    const key = types && formatValue(types.key, entries.subarray(from, from + keyLength));
    from += keyLength;
    if ((shape & ElementShape.keyEnd) !== 0) from += keyLength;
    if ((shape & ElementShape.flags) !== 0) from += 4;
    if ((shape & ElementShape.timeout) !== 0) from += 8;
    if ((shape & ElementShape.expiration) !== 0) from += 8;
    let data = '';
    if ((shape & ElementShape.data) !== 0) {
      if (Array.isArray(types?.data)) {
        data = ` : ${formatValue(types.data, entries.subarray(from, from + dataLength))}`;
      }
      from += dataLength;
    }
    if ((shape & ElementShape.verdict) !== 0) {
      const length = view.getUint32(from + 4, true);
      const name = Buffer.from(entries.subarray(from + 8, from + 8 + length)).toString();
      data = ` : ${printVerdict(view.getInt32(from, true), name)}`;
      from += 8 + ((length + 3) & ~3);
    }
    yield key === undefined ? where : `${where} { ${key}${data} }`;
  }
}

/** A value, or a concatenation, each part of which is padded to a register. */
function formatValue(types: readonly NFTypeName[], bytes: Uint8Array): string {
  let from = 0;
  const parts = types.map((type) => {
    const part = bytes.subarray(from, from + typeBytes[type]);
    from += (typeBytes[type] + 3) & ~3;
    return formatPart(type, part);
  });
  return parts.join(' . ');
}

function formatPart(type: NFTypeName, bytes: Uint8Array): string {
  switch (type) {
    case 'ipv4_addr':
    case 'ipv6_addr':
      return formatAddress(bytes);
    case 'inet_proto':
      return protocolWord(bytes[0]!);
    case 'inet_service':
      return String((bytes[0]! << 8) | bytes[1]!);
    case 'mark':
      return String(new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true));
  }
}
