/**
 * Which events to send to the API server. Repetitions are not sent, and an object with a recurring
 * problem gets a few events, not thousands.
 *
 * All nodes see the same Services, so all of them have the same events about a Service. The name of
 * such an event follows from what it says, and each node waits for a random time: the first node
 * creates it, and the API server refuses those of all others.
 */
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from '../../time/clock.ts';

/** An event that users see with `kubectl describe` (behaviour document 11.1). */
export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning';
  /** Why, in one word: `Starting`. */
  readonly reason: string;
  /** The action: `StartKubeProxy`. */
  readonly action: string;
  readonly regarding: Regarding;
  readonly note: string;
  /**
   * What the notes of several nodes have in common, if they report the same. Of all events about a
   * Service with the same reason and topic the API server keeps one. Default: the note.
   */
  readonly topic?: string;
}

export type Regarding =
  | { readonly kind: 'Node'; readonly name: string }
  | {
      readonly kind: 'Service';
      readonly namespace: string;
      readonly name: string;
      /** Empty if it is not known. */
      readonly uid: string;
    };

/** Why an event is dropped. */
export type DropReason = 'rate-limited' | 'too-many' | 'undelivered';

/** A repetition after this time without one is a new event, as with client-go. */
const silenceMs = 360_000;
/** So is a repetition of an event of this age, which by default the API server deletes then. */
const lifetimeMs = 3_600_000;
/** An event about a Service waits for a random part of this time. */
const delayMs = 60_000;
/**
 * For each namespace, and for the Node: how many requests may follow one another, then one per
 * refill. A request for an event that another node has created counts as one, and as twice as many
 * each time in a row: what a tenant changes must not become thousands of requests a second in a
 * large cluster. After `staleMs` an event is not sent any more, and what a namespace has paid for
 * is forgotten.
 */
const paces = { burst: 10, refillMs: 10_000, doublings: 6, staleMs: 900_000 } as const;
/** The most events that are kept. */
const rememberedMax = 1000;
/** The most events that may wait to be sent: of one namespace, and of all. */
const waitingMax = { namespace: 100, all: 1000 } as const;

/** An event that was recorded. It is kept so that its repetitions are not sent. */
interface MutableEntry {
  readonly event: ClusterEvent;
  /** Of the object; empty for a Node. */
  readonly namespace: string;
  /** metadata.name. */
  readonly name: string;
  readonly firstMs: number;
  lastMs: number;
  /** When it may be sent; undefined: it was. */
  dueMs: number | undefined;
}

export type Entry = Readonly<MutableEntry>;

/** What a namespace owes for its requests. */
interface Debt {
  /** When all of them are paid for, at one request per refill. */
  readonly paidMs: number;
  /** How many of the last ones were for events that other nodes had created. */
  readonly inVain: number;
}

interface EventQueueOptions {
  readonly dropped: (reason: DropReason) => void;
  readonly clock: Pick<Clock, 'random' | 'wallMs'>;
}

/** Times are milliseconds of a single monotonic clock. */
export class EventQueue {
  readonly #options: EventQueueOptions;
  readonly #entries = new Map<string, MutableEntry>();
  /** By namespace. */
  readonly #debts = new Map<string, Debt>();

  constructor(options: EventQueueOptions) {
    this.#options = options;
  }

  /** Adds an event, or drops it. */
  add(event: ClusterEvent, nowMs: number): void {
    const key = JSON.stringify(event);
    const known = this.#entries.get(key);
    if (known !== undefined && isRepeated(known, nowMs)) {
      known.lastMs = nowMs;
      return;
    }
    this.#forget(nowMs);
    const namespace = namespaceOf(event);
    if (!this.#hasRoom(namespace)) {
      this.#options.dropped('too-many');
      return;
    }
    const times = { firstMs: nowMs, lastMs: nowMs, dueMs: this.#firstDueMs(event, nowMs) };
    this.#entries.set(key, { event, namespace, name: this.#nameFor(event), ...times });
  }

  /**
   * The event to send now: that of the namespace that owes least, and of these the one that has
   * waited longest. A client may send five a second: without turns, those of one tenant would keep
   * others waiting.
   */
  next(nowMs: number): Entry | undefined {
    let next: Waiting | undefined;
    for (const one of this.#entries.values()) {
      if (!isWaiting(one) || this.#dueMs(one) > nowMs) continue;
      if (next === undefined || this.#order(one, next) < 0) next = one;
    }
    return next;
  }

  /** When `next` will have an event; undefined = none waits. */
  dueMs(): number | undefined {
    let dueMs: number | undefined;
    for (const one of this.#entries.values()) {
      if (!isWaiting(one)) continue;
      const ownMs = this.#dueMs(one);
      dueMs = Math.min(dueMs ?? ownMs, ownMs);
    }
    return dueMs;
  }

  /** It was sent. `in vain`: another node had created it. */
  sent({ event, namespace }: Entry, nowMs: number, how?: 'in vain'): void {
    const one = this.#entries.get(JSON.stringify(event));
    if (one !== undefined) one.dueMs = undefined;
    this.#hadTurn(namespace, nowMs, how);
  }

  /** Drops an event that cannot be sent. */
  drop(entry: Entry, nowMs: number): void {
    this.#entries.delete(JSON.stringify(entry.event));
    this.#hadTurn(entry.namespace, nowMs);
  }

  #hadTurn(namespace: string, nowMs: number, how?: 'in vain'): void {
    const { paidMs, inVain } = this.#debts.get(namespace) ?? { paidMs: nowMs, inVain: 0 };
    const owedMs = Math.max(nowMs, paidMs) + paces.refillMs * (how === undefined ? 1 : 2 ** inVain);
    const next = how === undefined ? 0 : Math.min(inVain + 1, paces.doublings);
    this.#debts.set(namespace, { paidMs: owedMs, inVain: next });
  }

  #paidMs({ namespace }: Entry): number {
    return this.#debts.get(namespace)?.paidMs ?? 0;
  }

  #order(a: Waiting, b: Waiting): number {
    return this.#paidMs(a) - this.#paidMs(b) || a.dueMs - b.dueMs;
  }

  #dueMs(one: Waiting): number {
    return Math.max(one.dueMs, this.#paidMs(one) - (paces.burst - 1) * paces.refillMs);
  }

  /** Whether another event of the namespace may wait. */
  #hasRoom(namespace: string): boolean {
    let [own, all] = [0, 0];
    for (const one of this.#entries.values()) {
      if (!isWaiting(one)) continue;
      all += 1;
      if (one.namespace === namespace) own += 1;
    }
    return own < waitingMax.namespace && all < waitingMax.all;
  }

  /** Drops events that were not repeated for long, and then the oldest ones. */
  #forget(nowMs: number): void {
    for (const [key, one] of this.#entries) {
      const silentMs = nowMs - one.lastMs;
      if (isWaiting(one)) {
        if (silentMs < paces.staleMs) continue;
        this.#options.dropped('rate-limited');
      } else if (silentMs < silenceMs && this.#entries.size < rememberedMax) continue;
      this.#entries.delete(key);
    }
    for (const [namespace, { paidMs }] of this.#debts) {
      if (nowMs - paidMs >= paces.staleMs) this.#debts.delete(namespace);
    }
  }

  #firstDueMs({ regarding }: ClusterEvent, nowMs: number): number {
    if (regarding.kind === 'Node') return nowMs;
    return nowMs + this.#options.clock.random() * delayMs;
  }

  /** Like client-go: the object's name and a suffix. Those about a Service begin again in time. */
  #nameFor({ note, reason, regarding, topic = note }: ClusterEvent): string {
    const { name } = regarding;
    if (regarding.kind === 'Node') return `${name}.${randomBytes(8).toString('hex')}`;
    const period = Math.floor(this.#options.clock.wallMs() / silenceMs);
    const what = JSON.stringify([regarding.uid, reason, topic, period]);
    return `${name}.${createHash('sha256').update(what).digest('hex').slice(0, 16)}`;
  }
}

type Waiting = MutableEntry & { readonly dueMs: number };

function isWaiting(entry: MutableEntry): entry is Waiting {
  return entry.dueMs !== undefined;
}

/** Whether what happens now is a repetition of the event. */
function isRepeated(entry: MutableEntry, nowMs: number): boolean {
  const { firstMs, lastMs } = entry;
  return isWaiting(entry) || (nowMs - lastMs < silenceMs && nowMs - firstMs < lifetimeMs);
}

function namespaceOf({ regarding }: ClusterEvent): string {
  return regarding.kind === 'Service' ? regarding.namespace : '';
}
