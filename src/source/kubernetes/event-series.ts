/**
 * Which events to send to the API server. Repetitions become a count, and an object with a
 * recurring problem gets a few events, not thousands.
 */
import { randomBytes } from 'node:crypto';

/** An event that users see with `kubectl describe` (behaviour document 11.1). */
export interface ClusterEvent {
  readonly type: 'Normal' | 'Warning';
  /** Why, in one word: `Starting`. */
  readonly reason: string;
  /** The action: `StartKubeProxy`. */
  readonly action: string;
  readonly regarding: Regarding;
  readonly note: string;
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

/** A repetition after this time is a new event, as with client-go. */
const seriesEndsMs = 360_000;
/** A growing count is sent no more often than this. */
const resendMs = 60_000;
/** For each object and reason: the size of the burst, then one event per refill. */
const burst = 5;
const refillMs = 60_000;
/**
 * For each namespace: how many requests may follow one another, then one per refill. Each node of a
 * cluster sends its own: what a tenant changes must not become thousands of writes a second.
 */
const paces = { burst: 10, refillMs: 10_000 } as const;
/** The most series and buckets that are kept. */
const rememberedMax = 1000;
/** The most series that may wait to be sent: of one namespace, and of all. */
const waitingMax = { namespace: 100, all: 1000 } as const;

/** An event and its repetitions. */
interface MutableSeries {
  readonly event: ClusterEvent;
  /** Of the object; empty for a Node. */
  readonly namespace: string;
  /** metadata.name. */
  name: string;
  readonly firstMs: number;
  lastMs: number;
  count: number;
  /** The count at the server; 0 = the server does not have the event. */
  sent: number;
  /** When it may be sent (again). */
  dueMs: number;
}

export type Series = Readonly<MutableSeries>;

interface Bucket {
  tokens: number;
  filledMs: number;
}

/** Times are milliseconds of a single clock. */
export class EventSeries {
  readonly #series = new Map<string, MutableSeries>();
  readonly #buckets = new Map<string, Bucket>();
  /** Namespaces of which an event was sent, the last one at the end: all have their turn. */
  readonly #served = new Set<string>();
  /** By namespace: when all that was sent would be paid for at one request per refill. */
  readonly #paidMs = new Map<string, number>();

  /** Adds an event; returns the reason if it is dropped. */
  add(event: ClusterEvent, nowMs: number): DropReason | undefined {
    const key = JSON.stringify(event);
    const known = this.#series.get(key);
    if (known !== undefined && (known.sent === 0 || nowMs - known.lastMs < seriesEndsMs)) {
      known.count += 1;
      known.lastMs = nowMs;
      return undefined;
    }
    if (!this.#pay(event, nowMs)) return 'rate-limited';
    this.#forget(nowMs);
    const namespace = namespaceOf(event);
    if (!this.#hasRoom(namespace)) return 'too-many';
    const times = { firstMs: nowMs, lastMs: nowMs, dueMs: nowMs };
    const one = { event, namespace, name: nameFor(event), ...times, count: 1, sent: 0 };
    this.#series.set(key, one);
    return undefined;
  }

  /**
   * The series to send now: that of the namespace whose last turn is longest ago, and of these the
   * one that has waited longest. A client may send five a second: without turns, those of one
   * tenant would keep others waiting.
   */
  next(nowMs: number): Series | undefined {
    const firsts = new Map<string, MutableSeries>();
    for (const one of this.#series.values()) {
      if (one.sent === one.count || this.#dueMs(one) > nowMs) continue;
      const first = firsts.get(one.namespace);
      if (first === undefined || one.dueMs < first.dueMs) firsts.set(one.namespace, one);
    }
    let next: MutableSeries | undefined;
    for (const [namespace, one] of firsts) {
      if (this.#served.has(namespace)) continue;
      if (next === undefined || one.dueMs < next.dueMs) next = one;
    }
    for (const namespace of this.#served) next ??= firsts.get(namespace);
    return next && { ...next };
  }

  /** When `next` will have a series; undefined = none waits. */
  dueMs(): number | undefined {
    let dueMs: number | undefined;
    for (const one of this.#series.values()) {
      if (one.sent === one.count) continue;
      const ownMs = this.#dueMs(one);
      dueMs = Math.min(dueMs ?? ownMs, ownMs);
    }
    return dueMs;
  }

  /** Records the count at the server; 0 = the server has deleted the event. */
  sent({ event }: Series, count: number, nowMs: number): void {
    const one = this.#series.get(JSON.stringify(event));
    if (one === undefined) return;
    this.#hadTurn(one.namespace, nowMs);
    one.sent = count;
    one.dueMs = count === 0 ? nowMs : nowMs + resendMs;
    if (count === 0) one.name = nameFor(one.event);
  }

  /** Drops a series that cannot be sent. */
  drop({ event }: Series, nowMs: number): void {
    this.#series.delete(JSON.stringify(event));
    this.#hadTurn(namespaceOf(event), nowMs);
  }

  #hadTurn(namespace: string, nowMs: number): void {
    this.#served.delete(namespace);
    this.#served.add(namespace);
    const [first = ''] = this.#served;
    if (this.#served.size > rememberedMax) this.#served.delete(first);
    // Those about the Node are this process's own.
    if (namespace === '') return;
    const paidMs = Math.max(nowMs, this.#paidMs.get(namespace) ?? nowMs);
    this.#paidMs.set(namespace, paidMs + paces.refillMs);
  }

  #dueMs({ dueMs, namespace }: MutableSeries): number {
    const paidMs = this.#paidMs.get(namespace);
    if (paidMs === undefined) return dueMs;
    return Math.max(dueMs, paidMs - (paces.burst - 1) * paces.refillMs);
  }

  /** Whether another series of the namespace may wait. */
  #hasRoom(namespace: string): boolean {
    let [own, all] = [0, 0];
    for (const one of this.#series.values()) {
      if (one.sent === one.count) continue;
      all += 1;
      if (one.namespace === namespace) own += 1;
    }
    return own < waitingMax.namespace && all < waitingMax.all;
  }

  /** Takes a token from the object's and reason's bucket, if there is one. */
  #pay({ regarding, reason }: ClusterEvent, nowMs: number): boolean {
    const key = JSON.stringify([regarding, reason]);
    const { tokens, filledMs } = this.#buckets.get(key) ?? { tokens: burst, filledMs: nowMs };
    const filled = Math.min(burst, tokens + (nowMs - filledMs) / refillMs);
    const paid = filled >= 1;
    this.#buckets.delete(key);
    this.#buckets.set(key, { tokens: paid ? filled - 1 : filled, filledMs: nowMs });
    return paid;
  }

  /** Drops series that ended long ago, and then the oldest ones. */
  #forget(nowMs: number): void {
    for (const [key, { sent, count, lastMs }] of this.#series) {
      const over = nowMs - lastMs >= seriesEndsMs || this.#series.size >= rememberedMax;
      if (over && sent === count) this.#series.delete(key);
    }
    for (const [key, { filledMs }] of this.#buckets) {
      const full = nowMs - filledMs >= burst * refillMs;
      if (full || this.#buckets.size > rememberedMax) this.#buckets.delete(key);
    }
    for (const [namespace, paidMs] of this.#paidMs) {
      if (paidMs <= nowMs) this.#paidMs.delete(namespace);
    }
  }
}

function namespaceOf({ regarding }: ClusterEvent): string {
  return regarding.kind === 'Service' ? regarding.namespace : '';
}

/** Like client-go: the object's name and a unique suffix. */
function nameFor({ regarding }: ClusterEvent): string {
  return `${regarding.name}.${randomBytes(8).toString('hex')}`;
}
