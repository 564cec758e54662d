/**
 * The sync loop. Events mark Services dirty, the loop resolves them at its own pace, and each
 * family brings its part of the kernel up to date.
 */
import { type Clock, isDue, Wakeup } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Desired, type DesiredOptions } from './desired.ts';
import type { FamilySync } from './family.ts';
import { Refresher } from './refresher.ts';

interface SyncLoopOptions extends DesiredOptions {
  /** The event loop is released after this much work. */
  readonly sliceMs: number;
}

/** Services taken from the state at a time. */
const chunkServices = 256;

/**
 * This many Services wait while lists stream in, because they may still get slices (`takeArrived`).
 */
const sparedServices = 64;

/** While events arrive, reading gets this many times the time of resolving. */
const readingShare = 8;

/** While lists stream in, families are notified of resolved Services at least this often. */
const resolveLongestMs = 100;

export class SyncLoop {
  readonly #options: SyncLoopOptions;
  readonly #clock: Clock;
  readonly #families: readonly FamilySync[];
  readonly #desired: Desired;
  readonly #refresher: Refresher;
  readonly #wakeup: Wakeup;
  /** `Clock.now` of the first change that is not resolved yet. */
  #receivedMs: number | undefined;
  #resolving = false;

  constructor(options: SyncLoopOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#families = options.families;
    this.#desired = new Desired(options);
    const { clock, sliceMs } = options;
    const refresh = (name: string, receivedMs: number) => this.#desired.refresh(name, receivedMs);
    this.#refresher = new Refresher({ clock, refresh, shareMs: sliceMs / 2 });
    this.#wakeup = new Wakeup(options.clock);
  }

  /** The state has changed. It is cheap enough to be called for each of thousands of events. */
  wake(): void {
    this.#receivedMs ??= this.#clock.now();
    this.#wakeup.wake();
  }

  /** Services that ask for more than one Service gets. */
  get overLimit(): number {
    return this.#desired.overLimit;
  }

  /** All that `wake` announced is in force in every family (see `FamilySync.upToDate`). */
  get upToDate(): boolean {
    const resolved = this.#receivedMs === undefined && !this.#resolving;
    return resolved && this.#families.every((family) => family.upToDate);
  }

  /**
   * Runs until `signal` aborts. Packets notice nothing before the state is synced, because a
   * missing list is not an empty list. While lists still stream in, Services are resolved, and the
   * families do what packets do not notice (see `FamilySync.listed`).
   */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => this.#wakeup.wake();
    signal.addEventListener('abort', stop, { once: true });
    await Promise.all([this.#lead(signal), ...this.#families.map((f) => f.run(signal))]);
  }

  async #lead(signal: AbortSignal): Promise<void> {
    await this.#resolveAhead(signal);
    if (signal.aborted) return;
    // Only what is dirty now, and what depends on that: changes may never end, and the families
    // wait for `listed`.
    await this.#resolve(signal, 2);
    await this.#awaitAnswers(signal);
    this.#desired.listed();
    for (const family of this.#families) family.listed();
    await this.#keepResolving(signal);
  }

  /** A restart must find as desired what is in force, also where the kernel's answers decide. */
  async #awaitAnswers(signal: AbortSignal): Promise<void> {
    const answers = this.#options.balances?.answers;
    if (answers === undefined) return;
    await answers;
    if (!signal.aborted) await this.#resolve(signal, 1);
  }

  /** Resolves Services until the lists are complete. A Service that changes is resolved again. */
  async #resolveAhead(signal: AbortSignal): Promise<void> {
    const { clock, sliceMs, state } = this.#options;
    const pacer = new Pacer(clock, sliceMs);
    /** When to notify the families of resolved Services; undefined = they know all. */
    let notifyAtMs: number | undefined;
    while (!state.synced && !signal.aborted) {
      const receivedMs = this.#received();
      const names = state.takeArrived(chunkServices, sparedServices);
      for (const name of names) this.#refresher.add(name, receivedMs);
      if (!this.#refresher.idle) {
        await this.#work(pacer);
        notifyAtMs ??= clock.now() + resolveLongestMs;
      }
      // Also while more arrives all the time: the families write what is known.
      if (isDue(notifyAtMs, clock.now())) {
        this.#notify();
        notifyAtMs = undefined;
      }
      if (names.length > 0 || !this.#refresher.idle) continue;
      await pacer.rest();
      await this.#wakeup.wait(notifyAtMs && notifyAtMs - clock.now());
    }
  }

  async #keepResolving(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#wakeup.wait();
      // All events of this turn of the event loop are one piece of work.
      await this.#clock.turn();
      await this.#resolve(signal);
    }
  }

  /**
   * Resolves what is dirty, and what becomes dirty since, in rounds: the Services of a round
   * were dirty when it began.
   */
  async #resolve(signal: AbortSignal, roundsMax = Number.POSITIVE_INFINITY): Promise<void> {
    this.#resolving = true;
    const { state } = this.#options;
    const pacer = new Pacer(this.#clock, this.#options.sliceMs);
    let rounds = 0;
    let round = { receivedMs: 0, left: 0 };
    while (!signal.aborted) {
      if (round.left === 0 && rounds < roundsMax) {
        // Makes Services dirty that depend on what has changed of this node.
        this.#options.context();
        round = { receivedMs: this.#received(), left: state.dirtyCount };
        rounds += 1;
      }
      const names = state.takeDirty(Math.min(round.left, chunkServices));
      round.left -= names.length;
      for (const name of names) this.#refresher.add(name, round.receivedMs);
      if (this.#refresher.idle) break;
      await this.#work(pacer);
      this.#notify();
    }
    this.#notify();
    this.#resolving = false;
  }

  /** Refreshes Services that were added, for one slice. */
  async #work(pacer: Pacer): Promise<void> {
    this.#refresher.work(pacer);
    if (pacer.due) await this.#rest(pacer);
  }

  /**
   * Once all is listed, reading comes first: a turn of the event loop reads little of what a server
   * sends, and what changes twice before it is resolved is resolved once.
   */
  async #rest(pacer: Pacer): Promise<void> {
    const { clock, sliceMs, state } = this.#options;
    const untilMs = clock.now() + readingShare * sliceMs;
    let revision: number;
    do {
      revision = state.revision;
      await pacer.rest();
    } while (state.synced && state.revision !== revision && clock.now() < untilMs);
  }

  /** `Clock.now` of the first change since this was last asked. */
  #received(): number {
    const receivedMs = this.#receivedMs ?? this.#clock.now();
    this.#receivedMs = undefined;
    return receivedMs;
  }

  #notify(): void {
    for (const sync of this.#families) sync.wake();
  }
}
