/** Finds packets to Services that do not get through this node, and the rules that stop them. */
import type { Kernel } from '../../kernel/kernel.ts';
import { protocolOf } from '../../kernel/nft/constants.ts';
import { readEntries } from '../../kernel/nft/entries.ts';
import { nftOps } from '../../kernel/ops.ts';
import { RecordWriter } from '../../kernel/records.ts';
import { type Family, families } from '../../net/address.ts';
import {
  type Noted,
  notesOf,
  readNote,
  type ServiceAddresses,
  writeDropsTable,
  writeServices,
} from './drops-table.ts';
import { Explained } from './explained.ts';
import type { Headers } from './headers.ts';
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
