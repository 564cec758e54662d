/** Puts events together to packets, and to the base chains that each of them has met. */
import {
  NF_QUEUE,
  NF_VERDICT_MASK,
  NFT_CONTINUE,
  NFT_TRACETYPE,
  VERDICT,
} from '../kernel/nft/constants.ts';
import {
  destinationText,
  type Headers,
  headersOf,
  sourceText,
  type TraceEvent,
} from './headers.ts';
import { isBeginning } from './marking-table.ts';

/** How a base chain ended for a packet; undefined = it is there yet. */
type Ending = 'accepted' | 'dropped' | 'queued' | 'stolen';

/** One base chain that a packet has met, with the chains that it led to. */
export interface Visit {
  /** Of the base chain: NFPROTO_* of its table, and names. */
  readonly family: number;
  readonly table: string;
  readonly chain: string;
  readonly events: TraceEvent[];
  /** What they were when the packet came. */
  readonly headers: Headers | undefined;
  /** Index of the interface that it came by, and that it leaves by; 0 = none, or not known yet. */
  readonly inputInterface: number;
  readonly outputInterface: number;
  ending: Ending | undefined;
}

export interface Packet {
  /** As it was sent. */
  readonly headers: Headers;
  readonly visits: Visit[];
  /** When something was last told of it. */
  lastMs: number;
}

export class Packets {
  /** In the order in which they came. */
  readonly all: Packet[] = [];
  readonly #table: string;
  readonly #byId = new Map<number, Packet>();

  /** `table` is the one that marks packets. */
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

  /** Undefined: another program has packets traced, too. */
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
    // Loopback gives a packet that comes in again another number; so may a change of addresses.
    const same = this.all.findLast(({ visits }) => isSame(headers, visits.at(-1)?.headers));
    if (same !== undefined) this.#byId.set(event.id, same);
    return same;
  }

  /** The end of a chain is told as a rule that goes on, too, but has no number. */
  #isMark({ chain, rule, table, type, verdict }: TraceEvent): boolean {
    const goesOn = type === NFT_TRACETYPE.RULE && rule !== 0 && verdict === NFT_CONTINUE;
    return goesOn && table === this.#table && isBeginning(chain);
  }
}

/** One end may be another since: either is translated at a time. */
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
  // The code of a verdict that goes on is negative; the number of a queue may make it so, too.
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
