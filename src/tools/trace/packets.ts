/** Groups events by packet, and by the base chains that the packet has traversed. */
import {
  NF_QUEUE,
  NF_VERDICT_MASK,
  NFT_CONTINUE,
  NFT_TRACETYPE,
  VERDICT,
} from '../../kernel/nft/constants.ts';
import {
  destinationText,
  type Headers,
  headersOf,
  sourceText,
  type TraceEvent,
} from './headers.ts';
import { isBeginning } from './marking-table.ts';

/** The verdict of a base chain for a packet; undefined = the packet is still in it. */
type Ending = 'accepted' | 'dropped' | 'queued' | 'stolen';

/** A base chain that a packet has traversed, with the chains that it jumped to. */
export interface Visit {
  /** Of the base chain: NFPROTO_* and name of its table, and its name. */
  readonly family: number;
  readonly table: string;
  readonly chain: string;
  readonly events: TraceEvent[];
  /** The headers when the packet arrived at the chain. */
  readonly headers: Headers | undefined;
  /** Indexes of the input and output interface; 0 = none, or not known yet. */
  readonly inputInterface: number;
  readonly outputInterface: number;
  ending: Ending | undefined;
}

export interface Packet {
  /** The headers as sent. */
  readonly headers: Headers;
  readonly visits: Visit[];
  /** The time of its last event. */
  lastMs: number;
}

export class Packets {
  /** In the order of their events. */
  readonly all: Packet[] = [];
  readonly #table: string;
  readonly #byId = new Map<number, Packet>();

  /** `table` is the table that marks packets. */
  constructor(table: string) {
    this.#table = table;
  }

  take(event: TraceEvent, nowMs: number): void {
    const packet = this.#packetOf(event);
    if (packet === undefined) return;
    packet.lastMs = nowMs;
    const open = packet.visits.at(-1);
    const visit = open === undefined || open.ending !== undefined ? visitOf(event) : open;
    if (visit !== open) packet.visits.push(visit);
    visit.events.push(event);
    visit.ending = endingOf(event);
  }

  /** It was described: later events of its number are of another packet. */
  forget(packet: Packet): void {
    this.all.splice(this.all.indexOf(packet), 1);
    for (const [id, one] of this.#byId) if (one === packet) this.#byId.delete(id);
  }

  /** Undefined: another program traces packets, too. */
  #packetOf(event: TraceEvent): Packet | undefined {
    const headers = headersOf(event);
    if (headers !== undefined && this.#isMark(event)) {
      const packet: Packet = { headers, visits: [], lastMs: 0 };
      this.all.push(packet);
      this.#byId.set(event.id, packet);
      return packet;
    }
    const known = this.#byId.get(event.id);
    if (known !== undefined || headers === undefined) return known;
    // A packet that re-enters through loopback has another number; so may one whose addresses
    // changed.
    const same = this.all.findLast(({ visits }) => isSame(headers, visits.at(-1)?.headers));
    if (same !== undefined) this.#byId.set(event.id, same);
    return same;
  }

  /** The end of a chain is reported like a rule that continues, but without a number. */
  #isMark({ chain, rule, table, type, verdict }: TraceEvent): boolean {
    const goesOn = type === NFT_TRACETYPE.RULE && rule !== 0 && verdict === NFT_CONTINUE;
    return goesOn && table === this.#table && isBeginning(chain);
  }
}

/** One of both ends may differ: only one is translated at a time. */
function isSame(a: Headers, b: Headers | undefined): boolean {
  if (b === undefined || a.protocol !== b.protocol) return false;
  if (sourceText(a) === sourceText(b)) return true;
  return destinationText(a) === destinationText(b) && a.sourcePort === b.sourcePort;
}

function visitOf(event: TraceEvent): Visit {
  const { chain, family, inputInterface, outputInterface, table } = event;
  const headers = headersOf(event);
  const where = { family, table, chain, inputInterface, outputInterface };
  return { ...where, headers, events: [], ending: undefined };
}

function endingOf({ policy, type, verdict }: TraceEvent): Ending | undefined {
  if (type === NFT_TRACETYPE.POLICY) return policy === VERDICT.drop ? 'dropped' : 'accepted';
  if (type !== NFT_TRACETYPE.RULE) return undefined;
  // The code of a verdict that continues is negative; a queue number may make others negative, too.
  if (verdict < 0 && verdict >= VERDICT.return) return undefined;
  switch (verdict & NF_VERDICT_MASK) {
    case VERDICT.drop:
      return 'dropped';
    case VERDICT.accept:
      return 'accepted';
    case NF_QUEUE:
      return 'queued';
    default:
      return 'stolen';
  }
}
