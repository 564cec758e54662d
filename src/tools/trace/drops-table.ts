/**
 * The table that finds packets which do not get through this node. Its owner is the socket that
 * creates it, as that of a trace.
 *
 * A rule before all others notes the first packet of a connection to a Service, by its client and
 * destination, and one after all others takes the note away: what keeps its note was dropped or
 * refused. Only the next packet of that client to that destination is traced, once in ten
 * seconds. Sets of limited size bound what is noted and traced.
 */
import type { ChainDefinition, Rule } from '../../kernel/nft/chain.ts';
import { writeChain, writeRules } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO, NFT_SET, protocolOf } from '../../kernel/nft/constants.ts';
import { writeKeys } from '../../kernel/nft/own-table.ts';
import {
  connectionProtocol,
  daddr,
  deleteFromSet,
  dport,
  inSet,
  l4proto,
  matchProtocol,
  matchSyn,
  originalDaddr,
  originalDport,
  originalSaddr,
  returnToCaller,
  type Statement,
  saddr,
  setTrace,
  stateNew,
  statusUnconfirmed,
  updateSet,
} from '../../kernel/nft/rule.ts';
import { fieldsOfSet, type SetDefinition } from '../../kernel/nft/sets.ts';
import { ipHooks } from '../../kernel/nft/words.ts';
import type { nftOps } from '../../kernel/ops.ts';
import type { RecordWriter } from '../../kernel/records.ts';
import { addressBytes, type Family } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import { beginnings, chain, endChain, first } from './marking-table.ts';

/** Clients with destinations whose packets are noted, and those of which one is traced. */
const notedMax = 4096;
const tracedMax = 64;
const forgetAfterMs = 10_000;

/** After connection tracking (NF_IP_PRI_CONNTRACK), before translation. */
const afterTracking = -199;

/** The addresses and node ports of Services, of one family: keys as `writeKeys` has them. */
export interface ServiceAddresses {
  readonly addresses: ReadonlySet<string>;
  readonly nodePorts: ReadonlySet<string>;
}

type Writer = RecordWriter<typeof nftOps>;

/** Writes ops that create the table. */
export function writeDropsTable(writer: Writer, table: string, family: Family): void {
  const inTable = { family: NFPROTO[family], table };
  writer.write('tableBorrow', { ...inTable, comment: 'finds drops, while fairlead drops runs' });
  for (const set of Object.values(setsOf(family))) {
    writer.write('setAdd', fieldsOfSet(family, table, set));
  }
  for (const one of chains(family)) {
    writeChain(writer, inTable, one);
    writeRules(writer, inTable, one);
  }
}

/** Writes ops that add Services. */
export function writeServices(
  writer: Writer,
  table: string,
  family: Family,
  { addresses, nodePorts }: ServiceAddresses,
): void {
  const sets = setsOf(family);
  const add = (set: SetDefinition, keys: ReadonlySet<string>): void =>
    writeKeys(writer, 'elementsAdd', fieldsOfSet(family, table, set), [...keys]);
  add(sets.addresses, addresses);
  add(sets.nodePorts, nodePorts);
}

/** A client, and where its connections do not get. */
export interface Noted {
  readonly protocol: Protocol;
  readonly client: Uint8Array;
  readonly address: Uint8Array;
  readonly port: number;
}

/** The set of notes, to be dumped. */
export function notesOf(table: string, family: Family) {
  const { keyLength, set } = fieldsOfSet(family, table, setsOf(family).notes);
  const shape = { shape: 0, keyLength, dataLength: 0 };
  return { kind: 'elementsDump', family: NFPROTO[family], table, set, ...shape } as const;
}

/** Reads a key of the notes. */
export function readNote(family: Family, key: Uint8Array): Noted {
  const length = addressBytes[family];
  const at = 4 + 2 * length;
  return {
    protocol: protocolOf(key[0])!,
    client: key.slice(4, 4 + length),
    address: key.slice(4 + length, at),
    port: (key[at]! << 8) | key[at + 1]!,
  };
}

function setsOf(family: Family) {
  const ip = family === 'IPv4' ? 'ipv4_addr' : 'ipv6_addr';
  const noted = ['inet_proto', ip, ip, 'inet_service'] as const;
  const expires = {
    ...{ key: noted, data: undefined, flags: NFT_SET.EVAL | NFT_SET.TIMEOUT },
    timeoutMs: forgetAfterMs,
  };
  const fixed = { data: undefined, flags: 0, size: 0 };
  return {
    addresses: { name: 'addresses', key: [ip], ...fixed, comment: 'of Services' },
    nodePorts: {
      ...{ name: 'node-ports', key: ['inet_proto', 'inet_service'], ...fixed },
      comment: 'of Services',
    },
    notes: { name: 'notes', ...expires, size: notedMax, comment: 'of packets on their way' },
    traced: { name: 'traced', ...expires, size: tracedMax, comment: 'of packets that were traced' },
  } as const satisfies Record<string, SetDefinition>;
}

function chains(family: Family): ChainDefinition[] {
  const sent = [l4proto, saddr(family), daddr(family), dport];
  const asked = [
    ...[connectionProtocol, originalSaddr(family), originalDaddr(family), originalDport],
  ];
  const begin = Object.entries(beginnings).flatMap(([name, hook]) => [
    chain(name, hook, first, noting(family, [matchProtocol('TCP'), matchSyn])),
    chain(`${name}-tracked`, hook, afterTracking, [
      ...noting(family, [matchProtocol('UDP'), stateNew, statusUnconfirmed]),
      ...noting(family, [matchProtocol('SCTP'), stateNew, statusUnconfirmed]),
    ]),
  ]);
  const through: Rule[] = [
    [stateNew, deleteFromSet('notes', asked)],
    // Of what connection tracking does not see.
    [matchProtocol('TCP'), matchSyn, deleteFromSet('notes', sent)],
  ];
  const isLast = (hook: number): boolean =>
    hook === NF_INET.POST_ROUTING || hook === NF_INET.LOCAL_IN;
  return [...begin, ...ipHooks.map((hook) => endChain(hook, isLast(hook) ? through : []))];
}

function noting(family: Family, isFirst: readonly Statement[]): Rule[] {
  const key = [l4proto, saddr(family), daddr(family), dport];
  return [
    [
      ...isFirst,
      inSet([daddr(family)], 'addresses', '!='),
      inSet([l4proto, dport], 'node-ports', '!='),
      returnToCaller,
    ],
    [
      ...isFirst,
      ...[inSet(key, 'notes'), inSet(key, 'traced', '!='), updateSet('traced', key), setTrace],
    ],
    [...isFirst, updateSet('notes', key)],
  ];
}
