/** The desired Forwardings of one family, and those of them that are not planned yet. */
import { inOrderOf } from '../state/pool.ts';
import type { Forwarding } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import type { Applier } from './applier.ts';
import type { Cause, Causes } from './cause.ts';
import { DirtyKeys } from './dirty-keys.ts';
import type { Handover } from './handover.ts';
import type { SyncSettings } from './settings.ts';

interface ChangesOptions {
  readonly applier: Applier;
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
  readonly #applier: Applier;
  readonly #clock: Clock;
  readonly #desired = new Map<string, Forwarding>();
  readonly #dirty = new DirtyKeys();
  readonly #handover: Handover;
  readonly #minSyncPeriodMs: number;
  #isCut = false;
  /** `Clock.now` before which no sync begins. */
  #notBeforeMs = Number.NEGATIVE_INFINITY;

  constructor(options: ChangesOptions) {
    this.#applier = options.applier;
    this.#clock = options.clock;
    this.#handover = options.handover;
    this.#minSyncPeriodMs = options.settings.minSyncPeriodMs;
  }

  /** By key. It depends on the cluster only: pools have the order that resolving gives them. */
  get desired(): ReadonlyMap<string, Forwarding> {
    return this.#desired;
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

  /** `next` undefined = no longer desired. */
  setDesired(key: string, next: Forwarding | undefined): void {
    if (next === undefined) this.#desired.delete(key);
    else this.#desired.set(key, next);
  }

  /** `service`: its `namespace/name`, where that is known. */
  mark(key: string, cause: Cause | undefined, service?: string): void {
    this.#dirty.mark(key, cause, service);
  }

  unmark(key: string): void {
    this.#dirty.delete(key);
  }

  /** Takes all dirty keys: a recovery is going to look at everything. */
  takeDirty(): Causes {
    return this.#dirty.takeAll();
  }

  /**
   * The keys to `plan`, each before the next one is asked for, including those that become dirty
   * during the sync, until `syncLongestMs` is over.
   */
  readonly due = (): Iterable<string> => this.#due(this.#clock.now() + syncLongestMs);

  *#due(endMs: number): Generator<string> {
    for (;;) {
      const key = this.#dirty.next();
      this.#isCut = key !== undefined && this.#clock.now() >= endMs;
      if (key === undefined || this.#isCut) return;
      yield key;
    }
  }

  readonly plan = (key: string): void => {
    const cause = this.#dirty.take();
    const desired = this.#desired.get(key);
    const previous = this.#applier.expected(key);
    const next = desired && inOrderOf(previous, desired);
    this.#handover.plan({ key, previous, next, cause });
  };
}
