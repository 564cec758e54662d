/** Finds packets to Services that do not get through this node, and the rules that stop them. */
import type { Kernel } from '../../kernel/kernel.ts';
import { type ChainDefinition, type Rule, writeChain, writeRules } from '../../kernel/nft/chain.ts';
import { NF_INET, NFPROTO, NFT_SET, protocolOf } from '../../kernel/nft/constants.ts';
import { readEntries } from '../../kernel/nft/entries.ts';
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
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { addressBytes, type Family, families } from '../../net/address.ts';
import type { Protocol } from '../../net/protocol.ts';
import { Explained } from './explained.ts';
import type { Headers } from './headers.ts';
import { beginnings, chain, endChain, first } from './marking-table.ts';
import { describePacket, isOfServices } from './packet-description.ts';
import { type Packet, Packets } from './packets.ts';
import type { FindFault } from './routing-fault.ts';
import { Ruleset } from './ruleset.ts';
import { borrowTable, readEvents } from './tracer.ts';

export interface Drop extends Noted {
  /** The interface that it came in by; undefined: this node sent it, or that is not known. */
  readonly interface: string | undefined;
  /** `unknown`: no packet was traced, since the client sent no second one. */
  readonly outcome: 'dropped' | 'rejected' | 'lost' | 'unknown';
  /** What stopped it. */
  readonly because: string | undefined;
  /** By a rule of Services; undefined: that is not known. */
  readonly isOurs: boolean | undefined;
}

interface DropsOptions {
  readonly kernel: Kernel;
  /** A second socket, which waits for events. */
  readonly events: Kernel;
  readonly table: string;
  readonly services: () => Promise<Readonly<Record<Family, ServiceAddresses>>>;
  readonly interfaceName: (index: number) => string;
  readonly findFault: FindFault;
  readonly signal: AbortSignal;
  readonly started: () => void;
  readonly report: (drop: Drop) => Promise<void>;
}

/** A packet without an event for this time has reached its end. */
const quietMs = 300;
const lookMs = 200;
const readNotesMs = 1000;
const readServicesMs = 60_000;
/** A note in this number of readings in a row: its client has sent no second packet. */
const readingsLeast = 3;

/** Until the signal aborts. Rejects with KernelError and `NoTracingError`. */
export async function watchDrops(options: DropsOptions): Promise<void> {
  const { events, signal, started, table } = options;
  const watch = new DropsWatch(options);
  // The kernel notifies listeners when a packet arrives.
  await readEvents(events, 0);
  await watch.begin();
  started();
  const packets = new Packets(table);
  while (!signal.aborted) {
    const { records } = await readEvents(events, lookMs);
    const nowMs = performance.now();
    for (const one of records) if (one.kind === 'nftraceEvent') packets.take(one, nowMs);
    for (const packet of [...packets.all]) {
      if (nowMs - packet.lastMs < quietMs) continue;
      packets.forget(packet);
      await watch.traced(packet);
    }
    await watch.look(nowMs);
  }
}

class DropsWatch {
  readonly #options: DropsOptions;
  readonly #rules: Ruleset;
  /** In how many readings in a row each note was there; 0: it was reported. */
  #noted = new Map<string, number>();
  #notesMs = 0;
  #servicesMs = 0;

  constructor(options: DropsOptions) {
    this.#options = options;
    this.#rules = new Ruleset(options.kernel);
  }

  /** Creates the tables, in one transaction. */
  async begin(): Promise<void> {
    const { kernel, table } = this.#options;
    const writer = new RecordWriter(nftOps);
    for (const family of families) writeDropsTable(writer, table, family);
    await borrowTable(kernel, writer.finish());
    await this.#readServices();
  }

  /** Reports the packet if it did not get through. */
  async traced(packet: Packet): Promise<void> {
    const { findFault, interfaceName, report } = this.#options;
    const stage = { ruleset: this.#rules, explained: new Explained([]), interfaceName, findFault };
    const { because, outcome } = await describePacket(packet, stage);
    if (outcome !== 'dropped' && outcome !== 'rejected' && outcome !== 'lost') return;
    const { inputInterface } = packet.visits[0]!;
    const name = inputInterface === 0 ? undefined : interfaceName(inputInterface);
    const noted = notedOf(packet.headers);
    this.#noted.set(textOf(noted), 0);
    const last = packet.visits.at(-1)!.events.at(-1)!;
    const isOurs = outcome === 'lost' ? undefined : isOfServices(last);
    await report({ ...noted, interface: name, outcome, because, isOurs });
  }

  /** Reads what is due. */
  async look(nowMs: number): Promise<void> {
    if (nowMs - this.#servicesMs >= readServicesMs) await this.#readServices();
    if (nowMs - this.#notesMs < readNotesMs) return;
    this.#notesMs = nowMs;
    const before = this.#noted;
    this.#noted = new Map();
    for (const family of families) await this.#readNotes(family, before);
  }

  async #readNotes(family: Family, before: ReadonlyMap<string, number>): Promise<void> {
    const { kernel, report, table } = this.#options;
    const { records } = await kernel.dump(notesOf(table, family));
    for (const record of records) {
      if (record.kind !== 'elements') continue;
      for (const { key } of readEntries(record)) {
        const noted = readNote(family, key);
        const text = textOf(noted);
        const times = before.get(text);
        this.#noted.set(text, times === 0 ? 0 : (times ?? 0) + 1);
        if (this.#noted.get(text) !== readingsLeast) continue;
        this.#noted.set(text, 0);
        const unseen = { interface: undefined, because: undefined, isOurs: undefined };
        await report({ ...noted, ...unseen, outcome: 'unknown' });
      }
    }
  }

  /** Adds those that are new. Those that have gone stay: their addresses are refused. */
  async #readServices(): Promise<void> {
    const { kernel, services, table } = this.#options;
    const all = await services();
    this.#servicesMs = performance.now();
    const writer = new RecordWriter(nftOps);
    for (const family of families) writeServices(writer, table, family, all[family]);
    if (writer.count > 0) await borrowTable(kernel, writer.finish());
  }
}

function notedOf({ destination, destinationPort, protocol, source }: Headers): Noted {
  return {
    protocol: protocolOf(protocol)!,
    client: source,
    address: destination,
    port: destinationPort,
  };
}

function textOf({ address, client, port, protocol }: Noted): string {
  return [protocol, client.join('.'), address.join('.'), port].join(' ');
}

/** Clients with destinations whose packets are noted, and those of which one is traced. */
const notedMax = 4096;
const tracedMax = 64;
const forgetAfterMs = 10_000;

/** After connection tracking (NF_IP_PRI_CONNTRACK), before translation. */
const afterTracking = -199;

/** The addresses and node ports of Services, of one family: keys as `writeKeys` has them. */
interface ServiceAddresses {
  readonly addresses: ReadonlySet<string>;
  readonly nodePorts: ReadonlySet<string>;
}

type Writer = RecordWriter<typeof nftOps>;

/**
 * Writes ops that create the table, which finds packets that do not get through this node. Its
 * owner is the socket that creates it, as that of a trace.
 *
 * A rule before all others notes the first packet of a connection to a Service, by its client and
 * destination, and one after all others takes the note away: what keeps its note was dropped or
 * refused. Only the next packet of that client to that destination is traced, once in ten
 * seconds. Sets of limited size bound what is noted and traced.
 */
function writeDropsTable(writer: Writer, table: string, family: Family): void {
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
function writeServices(
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
interface Noted {
  readonly protocol: Protocol;
  readonly client: Uint8Array;
  readonly address: Uint8Array;
  readonly port: number;
}

/** The set of notes, to be dumped. */
function notesOf(table: string, family: Family) {
  const { keyLength, set } = fieldsOfSet(family, table, setsOf(family).notes);
  const shape = { shape: 0, keyLength, dataLength: 0 };
  return { kind: 'elementsDump', family: NFPROTO[family], table, set, ...shape } as const;
}

/** Reads a key of the notes. */
function readNote(family: Family, key: Uint8Array): Noted {
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
