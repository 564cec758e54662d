/** The Forwardings of one family that have changed and are not planned yet. */
import { inOrderOf } from '../state/pool.ts';
import type { Clock } from '../time/clock.ts';
import type { Cause } from './cause.ts';
import { type Causes, DirtyForwardings } from './dirty.ts';
import type { Handover } from './handover.ts';
import type { SyncSettings } from './settings.ts';
import type { Tracked } from './tracked.ts';

interface ChangesOptions {
  readonly handover: Handover;
  readonly clock: Clock;
  readonly settings: Pick<SyncSettings, 'minSyncPeriodMs'>;
}

/** What is left to do. */
export interface Backlog {
  /** Services that have changed and are not written yet. */
  readonly waiting: number;
  /**
   * How long the change has waited that is written next, where that is longer than a sync and the
   * pause after it: changes come faster than they can be written. Otherwise undefined.
   */
  readonly behindMs: number | undefined;
}

/** A sync plans for no longer than this. */
const syncLongestMs = 1000;

export class Changes {
  readonly #clock: Clock;
  readonly #dirty = new DirtyForwardings();
  readonly #handover: Handover;
  readonly #minSyncPeriodMs: number;
  #isCut = false;
  /** `Clock.now` before which no sync begins. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(options: ChangesOptions) {
    this.#clock = options.clock;
    this.#handover = options.handover;
    this.#minSyncPeriodMs = options.settings.minSyncPeriodMs;
  }

  /** Whether anything is dirty. */
  get any(): boolean {
    return this.#dirty.any;
  }

  get backlog(): Backlog {
    const { nextReceivedMs = Number.POSITIVE_INFINITY, services: waiting } = this.#dirty;
    const waitedMs = this.#clock.now() - nextReceivedMs;
    const isBehind = waitedMs > syncLongestMs + this.#minSyncPeriodMs;
    return { waiting, behindMs: isBehind ? waitedMs : undefined };
  }

  /** The last sync ended before it had planned all. */
  get isCut(): boolean {
    return this.#isCut;
  }

  get notBeforeMs(): number {
    return this.#notBeforeMs;
  }

  /** No sync begins before this time of `Clock.now`. */
  rest(untilMs: number): void {
    this.#notBeforeMs = untilMs;
  }

  /** `service`: its `namespace/name`, where that is known. */
  mark(record: Tracked, cause: Cause | undefined, service?: string): void {
    this.#dirty.mark(record, cause, service);
  }

  has(record: Tracked): boolean {
    return this.#dirty.has(record);
  }

  unmark(record: Tracked): void {
    this.#dirty.delete(record);
  }

  /** Takes all: a recovery is going to look at everything. */
  takeDirty(): Causes {
    return this.#dirty.takeAll();
  }

  /** Whether the one that `due` has yielded has many elements, or belongs to many others. */
  readonly isLarge = (): boolean => this.#dirty.isNextLarge;

  /**
   * Those to `plan`, including those that become dirty during the sync, until `syncLongestMs` is
   * over. One that is not planned is asked about again, after smaller ones that have come since.
   */
  readonly due = (): Iterable<Tracked> => this.#due(this.#clock.now() + syncLongestMs);

  *#due(endMs: number): Generator<Tracked> {
    for (;;) {
      const record = this.#dirty.next;
      this.#isCut = record !== undefined && this.#clock.now() >= endMs;
      if (record === undefined || this.#isCut) return;
      yield record;
    }
  }

  readonly plan = (record: Tracked): void => {
    const cause = this.#dirty.take();
    const { desired, planned } = record;
    const next = desired && inOrderOf(planned, desired);
    this.#handover.plan({ record, next, cause });
  };
}
