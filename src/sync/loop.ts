/**
 * The sync loop. It resolves the Services that changed at its own pace, and each family brings its
 * part of the kernel up to date.
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

/** Services that are released at a time while lists stream in. */
const chunkServices = 256;

/** This many Services wait while lists stream in, because they may still get slices. */
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
  /** Something has changed, perhaps what all Services depend on. */
  #isAwake = false;

  constructor(options: SyncLoopOptions) {
    this.#options = options;
    this.#clock = options.clock;
    this.#families = options.families;
    this.#desired = new Desired(options);
    const { clock, sliceMs, state } = options;
    const refresh = this.#desired.refresh.bind(this.#desired);
    this.#refresher = new Refresher({ clock, state, refresh, sliceMs });
    this.#wakeup = new Wakeup(options.clock);
    state.changed.wake = () => this.wake();
  }

  /** What Services depend on has changed; the state calls it when Services have. */
  wake(): void {
    this.#isAwake = true;
    this.#wakeup.wake();
  }

  /** Services that ask for more than one Service gets. */
  get overLimit(): number {
    return this.#desired.overLimit;
  }

  /** All that `wake` announced is in force in every family (see `FamilySync.upToDate`). */
  get upToDate(): boolean {
    const isResolved = !this.#isAwake && this.#options.state.changed.size === 0;
    return isResolved && this.#families.every((family) => family.upToDate);
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
    // What depends on what has changed by now, too.
    await this.#resolveUntilNow(signal);
    await this.#resolveUntilNow(signal);
    await this.#awaitAnswers(signal);
    this.#desired.listed();
    this.#refresher.listed();
    for (const family of this.#families) family.listed();
    await this.#keepResolving(signal);
  }

  /** A restart must find as desired what is in force, also where the kernel's answers decide. */
  async #awaitAnswers(signal: AbortSignal): Promise<void> {
    const answers = this.#options.balances?.answers;
    if (answers === undefined) return;
    await answers;
    await this.#resolveUntilNow(signal);
  }

  /** Resolves what has changed by now: changes may never end, and the families wait for `listed`. */
  async #resolveUntilNow(signal: AbortSignal): Promise<void> {
    this.#options.context();
    await this.#resolve(signal, this.#options.state.changes);
  }

  /** Resolves Services until the lists are complete. A Service that changes is resolved again. */
  async #resolveAhead(signal: AbortSignal): Promise<void> {
    const { clock, sliceMs, state } = this.#options;
    const pacer = new Pacer(clock, sliceMs);
    /** When to notify the families of resolved Services; undefined = they know all. */
    let notifyAtMs: number | undefined;
    while (!state.synced && !signal.aborted) {
      state.release(chunkServices, sparedServices);
      if (!this.#refresher.idle) {
        await this.#work(pacer);
        notifyAtMs ??= clock.now() + resolveLongestMs;
      }
      // Also while more arrives all the time: the families write what is known.
      if (isDue(notifyAtMs, clock.now())) {
        this.#notify();
        notifyAtMs = undefined;
      }
      if (!this.#refresher.idle) continue;
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

  /** Resolves what was among the first `changes`; default: until nothing waits. */
  async #resolve(signal: AbortSignal, changes = Number.POSITIVE_INFINITY): Promise<void> {
    const { state } = this.#options;
    const pacer = new Pacer(this.#clock, this.#options.sliceMs);
    while (!signal.aborted) {
      this.#isAwake = false;
      // Touches Services that depend on what has changed of this node.
      this.#options.context();
      if (!state.waits(changes)) break;
      await this.#work(pacer);
      if (state.changed.size === 0) continue;
      this.#notify();
      if (this.#refresher.idle) await this.#wakeup.wait(this.#refresher.restMs);
    }
    this.#notify();
  }

  /** Refreshes Services for one slice. */
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

  #notify(): void {
    for (const sync of this.#families) sync.wake();
  }
}
