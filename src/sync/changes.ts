/** The Forwardings of one family that have changed and are not planned yet. */
import { inOrderOf } from '../state/pool.ts';
import type { Clock } from '../time/clock.ts';
import type { Cause } from './cause.ts';
import { DirtyForwardings, serviceOf } from './dirty.ts';
import type { Handover } from './handover.ts';
import { Pace, type Urgency } from './pace.ts';
import type { Parts } from './parts.ts';
import { RecentCosts } from './recent-costs.ts';
import type { Tracked } from './tracked.ts';

/** What is left to do. */
export interface Backlog {
  /** Services that have changed and are not written yet. */
  readonly waiting: number;
  /**
   * How long the change has waited that is written next, or what others have changed, where that
   * is longer than a sync and the pause after it: changes come faster than they can be written.
   * Otherwise undefined.
   */
  readonly behindMs: number | undefined;
}

/** A sync plans for no longer than this. */
const syncLongestMs = 1000;

export class Changes {
  readonly #clock: Clock;
  readonly dirty = new DirtyForwardings();
  readonly #handover: Handover;
  readonly #minSyncPeriodMs: number;
  /** Undefined: syncs rest for a fixed time. */
  readonly #pace: Pace | undefined;
  readonly #costs: RecentCosts;
  /** Of the most urgent change that is dirty. */
  #urgency: Urgency = 'all';
  /** A large one is among those that go first. */
  #isLargeFirst = false;
  /** Of the least urgent change that the sync has planned. */
  #planned: Urgency = 'first';
  #isCut = false;
  /** `Clock.now` before which no sync begins. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor({ clock, settings }: Parts, handover: Handover) {
    this.#clock = clock;
    this.#costs = new RecentCosts(clock);
    this.#handover = handover;
    const { longestRestMs, minSyncPeriodMs } = settings;
    this.#minSyncPeriodMs = minSyncPeriodMs;
    if (minSyncPeriodMs === 0) this.#pace = new Pace({ clock, longestRestMs });
  }

  /** `damagedMs`: how long what others have changed has waited for its repair. */
  backlog(damagedMs: number): Backlog {
    const { nextReceivedMs = Number.POSITIVE_INFINITY, services: waiting } = this.dirty;
    const waitedMs = Math.max(damagedMs, this.#clock.now() - nextReceivedMs);
    const isBehind = waitedMs > syncLongestMs + this.#minSyncPeriodMs;
    return { waiting, behindMs: isBehind ? waitedMs : undefined };
  }

  /** The last sync ended before it had planned all. */
  get isCut(): boolean {
    return this.#isCut;
  }

  /** `Clock.now` when the next sync is due, of what is dirty or of something else. */
  get notBeforeMs(): number {
    if (this.#pace === undefined || this.#isCut) return this.#notBeforeMs;
    return Math.max(this.#notBeforeMs, this.#pace.dueMs(this.dirty.any ? this.#urgency : 'first'));
  }

  /** No sync begins before this time of `Clock.now`. */
  rest(untilMs: number): void {
    this.#notBeforeMs = untilMs;
  }

  /**
   * A sync begins: `due` yields all that is dirty if `isOfAll`, or if that is due. Otherwise it
   * yields small changes only, unless a large one goes first.
   */
  begin(isOfAll: boolean): void {
    const now = this.#clock.now();
    const isPart = this.#pace !== undefined && now < this.#pace.dueMs('all');
    this.dirty.isOnlySmall = isPart && !isOfAll && !this.#isCut && !this.#isLargeFirst;
    this.#planned = 'first';
  }

  /** A sync is over that began at `beganMs` of `Clock.now`, and what it cost. */
  spent(costMs: number, beganMs: number): void {
    const isAll = !this.dirty.isOnlySmall || !this.dirty.any;
    this.#costs.spent(costMs, beganMs);
    this.#pace?.spent({ beganMs, costMs, urgency: this.#planned, isAll });
  }

  /** `service`: its `namespace/name`, where that is known. */
  mark(record: Tracked, cause: Cause | undefined, service = serviceOf(record.key)): void {
    const isSmall = this.dirty.mark(record, cause, service);
    if (this.#pace === undefined) return;
    const isLargeFirst = !isSmall && this.#costs.isLow(service) && losesEndpoints(record);
    this.#isLargeFirst ||= isLargeFirst;
    if (isLargeFirst || (isSmall && this.#costs.goesFirst(service))) this.#urgency = 'first';
    else if (isSmall && this.#urgency === 'all') this.#urgency = 'small';
  }

  /** Whether the one that `due` has yielded has many elements, or belongs to many others. */
  readonly isLarge = (): boolean => this.dirty.isNextLarge;

  /**
   * Those to `plan`, including those that become dirty during the sync, until `syncLongestMs` is
   * over. One that is not planned is asked about again, after smaller ones that have come since.
   */
  readonly due = (): Iterable<Tracked> => this.#due(this.#clock.now() + syncLongestMs);

  *#due(endMs: number): Generator<Tracked> {
    for (;;) {
      const record = this.dirty.next;
      this.#isCut = record !== undefined && this.#clock.now() >= endMs;
      if (record === undefined) this.#noteDone();
      if (record === undefined || this.#isCut) return;
      yield record;
    }
  }

  readonly plan = (record: Tracked): void => {
    const isLarge = this.dirty.isNextLarge;
    const elements = this.dirty.take();
    if (this.#pace !== undefined) this.#notePlanned(serviceOf(record.key), elements, isLarge);
    const { desired, planned } = record;
    const next = desired && inOrderOf(planned, desired);
    this.#handover.plan({ record, next, cause: record.takeCause() });
  };

  /** All that the sync is for is planned, also what came during it. */
  #noteDone(): void {
    this.#isLargeFirst &&= this.dirty.isOnlySmall;
    this.#urgency = this.#isLargeFirst ? 'first' : 'all';
  }

  #notePlanned(service: string, elements: number, isLarge: boolean): void {
    const isFirst = !isLarge && this.#costs.goesFirst(service);
    this.#costs.planned(service, elements, isFirst);
    if (isLarge) this.#planned = 'all';
    else if (!isFirst && this.#planned === 'first') this.#planned = 'small';
  }
}

/** Whether it is to have fewer endpoints than it is planned to have. */
function losesEndpoints({ desired, planned }: Tracked): boolean {
  if (planned === undefined) return false;
  return desired === undefined || desired.cluster.length < planned.cluster.length;
}
