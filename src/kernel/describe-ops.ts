/** Ops in the words of the tools that would do the same: nft, ipvsadm, ip. */
import { type Family, formatAddress, formatEndpoint } from '../net/address.ts';
import { NFPROTO, type NFTypeName, typeBytes } from './nft/constants.ts';
import { type Entry, readEntries } from './nft/entries.ts';
import { formatValue, type Kind, protocolName } from './nft/print-value.ts';
import { printVerdict } from './nft/print-verdict.ts';
import type { SetDefinition } from './nft/sets.ts';
import { familyWord } from './nft/words.ts';
import { kernelOps } from './ops.ts';
import { type RecordOf, readRecords } from './records.ts';

type Op = RecordOf<typeof kernelOps>;
type Elements = Extract<Op, { kind: 'elementsAdd' | 'elementsDelete' }>;

/** What keys and data of a set are. */
type Types = Pick<SetDefinition, 'key' | 'data'>;

/** Undefined: it is not known. */
export type TypesOf = (family: Family, table: string, set: string) => Types | undefined;

export function* describeOps(ops: Uint8Array, typesOf: TypesOf): Generator<string> {
  for (const op of readRecords(kernelOps, ops)) {
    if (op.kind === 'elementsAdd' || op.kind === 'elementsDelete') {
      yield* describeElements(op, typesOf);
    } else yield describe(op);
  }
}

/**
 * Formats an op as its tool does: `add chain ip fairlead cluster-2-e`. Every kind of op ends with
 * its verb. An op without a command of a tool keeps the words of its kind.
 */
function describe(op: Op): string {
  const [, noun = '', last = ''] = /^(.*)([A-Z][a-z]+)$/.exec(op.kind) ?? [];
  const verb = last.toLowerCase();
  if ('destination' in op)
    return `${verb} destination ${at(op)} -> ${formatEndpoint(op.destination, op.destinationPort)}`;
  if ('address' in op && 'protocol' in op) return `${verb} virtual service ${at(op)}`;
  if ('addresses' in op) {
    const width = op.family === NFPROTO.IPv4 ? 4 : 16;
    return `${verb} address ${formatAddress(op.addresses.subarray(0, width))} dev ${op.link}`;
  }
  if (!('table' in op)) return `${verb} ${noun}`;
  const { chain, flowtable, object, set }: Partial<Record<string, unknown>> = { ...op };
  const name = chain ?? set ?? flowtable ?? object ?? '';
  const what = { baseChain: 'chain', xtRule: 'rule' }[noun] ?? noun;
  return `${verb} ${what} ${familyWord(op.family)} ${op.table} ${name}`.trimEnd();
}

function at(op: {
  readonly protocol: number;
  readonly address: Uint8Array;
  readonly port: number;
}) {
  return `${protocolName(op.protocol)} ${formatEndpoint(op.address, op.port)}`;
}

function* describeElements(op: Elements, typesOf: TypesOf): Generator<string> {
  const { family, set, table } = op;
  const verb = op.kind === 'elementsAdd' ? 'add' : 'delete';
  const where = `${verb} element ${familyWord(family)} ${table} ${set}`;
  const types = typesOf(family === NFPROTO.IPv4 ? 'IPv4' : 'IPv6', table, set);
  for (const entry of readEntries(op)) {
    yield types === undefined ? where : `${where} { ${describeEntry(entry, types)} }`;
  }
}

function describeEntry({ key, data, verdict }: Entry, types: Types): string {
  const from = formatValues(types.key, key);
  if (verdict !== undefined) return `${from} : ${printVerdict(verdict.code, verdict.chain)}`;
  if (data.length === 0 || !Array.isArray(types.data)) return from;
  return `${from} : ${formatValues(types.data, data)}`;
}

const kinds = {
  ipv4_addr: 'ip address',
  ipv6_addr: 'ip6 address',
  inet_proto: 'protocol',
  inet_service: 'port',
  mark: 'number',
  ifname: 'interface',
} as const satisfies Record<NFTypeName, Kind>;

/** A value, or a concatenation, each part of which is padded to a register. */
function formatValues(types: readonly NFTypeName[], bytes: Uint8Array): string {
  let from = 0;
  const parts = types.map((type) => {
    const part = bytes.subarray(from, from + typeBytes[type]);
    from += (typeBytes[type] + 3) & ~3;
    return formatValue(kinds[type], part);
  });
  return parts.join(' . ');
}
