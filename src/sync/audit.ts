/**
 * The audit finds and repairs what others changed in our objects. The generation of the ruleset
 * shows at little cost whether others have committed. Only then everything is read and compared.
 */
import { isKernelError } from '../kernel/errors.ts';
import type { Committer, Kernel } from '../kernel/kernel.ts';
import type { Drift, Observation, Planner, Repair } from '../modes/mode.ts';
import type { Clock } from '../time/clock.ts';
import { Debt } from '../time/debt.ts';
import type { Pacer } from '../time/pacer.ts';
import { type Applier, type Failure, unknownFailure } from './applier.ts';
import { addDrift, isDrift, type Observer } from './events.ts';
import { RetryingReader } from './retrying-reader.ts';
import type { Moment, Ruleset, Writers } from './ruleset.ts';
import type { Tracked, TrackedForwardings } from './tracked.ts';
import { Watch } from './watch.ts';

export interface AuditSettings {
  /** How often the generation is read. */
  readonly checkMs: number;
  /** Longest time between two comparisons, even if the generation shows no change. */
  readonly fullMs: number;
  /**
   * After a comparison that took t, at least `restFactor * t` passes before the next one: others
   * may commit all the time, and comparing must stay a small part of our work. What is known to
   * have changed rules of ours does not wait for that (see `repairShare`).
   */
  readonly restFactor: number;
}

interface AuditOptions extends AuditSettings {
  readonly planner: Planner;
  readonly applier: Applier;
  readonly tracked: TrackedForwardings;
  readonly newPacer: () => Pacer;
  /** Reads only. */
  readonly reader: Kernel;
  readonly clock: Clock;
  readonly ruleset: Ruleset;
  readonly observer: Observer;
  /** Is called when `nextMs` has become earlier. */
  readonly wake: () => void;
}

/** So soon after a suspicion elements are counted, once for all suspicions until then. */
const suspectMs = 5000;

/**
 * What others are known to have changed of ours is repaired immediately. A program that changes it
 * again and again makes us work for this time in advance, and then for this part of the time.
 */
const repairAllowanceMs = 120_000;
const repairShare = 0.2;

type State =
  | { readonly kind: 'resting' }
  | {
      readonly kind: 'observing';
      readonly reader: RetryingReader;
      result: Observed | undefined;
    }
  | {
      readonly kind: 'comparing';
      readonly repair: Repair;
      readonly records: Iterator<Tracked>;
      readonly writers: Writers;
      readonly by: Committer | undefined;
      drift: Drift;
      /** How long the last batch took. */
      commitMs: number;
    };

type Observed = Observation | 'stale' | Error;

/**
 * In a mode whose batches make an observation stale, syncs wait for the next one after this many
 * stale ones.
 */
const staleMax = 2;
/** Syncs wait for no longer observation than this: drift is rare, and changes are not. */
const holdMaxMs = 500;

export class Audit {
  readonly #options: AuditOptions;
  #state: State = { kind: 'resting' };
  #base: Moment = { generation: undefined, commits: 0 };
  readonly #watch: Watch;
  #checkAtMs: number;
  #fullAtMs: number;
  /** A comparison is needed if the kernel does not count elements (see `suspect`). */
  #suspected = false;
  /** A comparison is needed, but not before `notBeforeMs`. */
  #needed = false;
  #notBeforeMs = 0;
  readonly #repairs: Debt;
  /** A table of ours may have been changed since the generation was read. */
  #isTouched = false;
  /** `Clock.now` since when others have changed what is ours, and it is not repaired. */
  #damagedAtMs: number | undefined;
  #startedMs = 0;
  /** See `takeCommitter`. */
  #by: Committer | undefined;
  #stale = 0;
  /** How long the last observation took. */
  #observeMs = 0;

  constructor(options: AuditOptions) {
    this.#options = options;
    this.#repairs = new Debt(options.clock, repairShare);
    this.#watch = new Watch(options, {
      changed: (by) => this.#disturbed(by),
      ended: () => this.verify(),
    });
    this.#checkAtMs = options.clock.now() + options.checkMs;
    this.#fullAtMs = options.clock.now() + options.fullMs;
  }

  /** All is read from now on: what was asked for until now needs no other comparison. */
  reading(): void {
    this.#needed = false;
    this.#suspected = false;
    this.#isTouched = false;
    this.#checkAtMs = this.#options.clock.now() + this.#options.checkMs;
  }

  /** At that moment all was read, and is now as desired. */
  verified(base: Moment): void {
    this.#base = base;
    this.#watch.update();
    this.#fullAtMs = this.#options.clock.now() + this.#options.fullMs;
  }

  /** `Clock.now` from which a repair of what others have changed is due. */
  get repairAtMs(): number {
    return this.#repairs.dueMs(repairAllowanceMs);
  }

  /** How long changes of ours by others have waited for their repair; 0 = there are none. */
  get damagedMs(): number {
    return this.#damagedAtMs === undefined ? 0 : this.#options.clock.now() - this.#damagedAtMs;
  }

  /** A repair is over, or was given up, that began at `beganMs` of `Clock.now`. */
  spent(beganMs: number): void {
    this.#repairs.spent(this.#options.clock.now() - beganMs, beganMs);
  }

  /** All that others had changed when `reading` was called is repaired. */
  repaired(): void {
    this.#damagedAtMs = undefined;
  }

  /** Who has changed our tables since the last observation began, as far as the kernel said. */
  takeCommitter(): Committer | undefined {
    const by = this.#by;
    this.#by = undefined;
    return by;
  }

  /** Who has written since `verified`. */
  writers(): Promise<Writers> {
    return this.#options.ruleset.writersSince(this.#base, this.#options.reader);
  }

  /** Asks for a comparison, unless the kernel's counts of elements show that none is needed. */
  suspect(): void {
    this.#suspected = true;
    const soonMs = this.#options.clock.now() + Math.min(suspectMs, this.#options.checkMs);
    this.#checkAtMs = Math.min(this.#checkAtMs, soonMs);
  }

  /**
   * Asks for a comparison now. Events report its result: `drift`, if there is any, then `audited`.
   */
  verify(): void {
    this.request(0);
    this.#options.wake();
  }

  /** Asks for a comparison after `delayMs`, whatever the generation says. */
  request(delayMs: number): void {
    this.#needed = true;
    this.#notBeforeMs = Math.max(this.#notBeforeMs, this.#options.clock.now() + delayMs);
  }

  /** Stops watching for changes by others. */
  end(): void {
    this.#watch.end();
  }

  /** Others may have changed something of ours: reads the generation at the next step. */
  #disturbed(by: Committer | undefined): void {
    this.#by = by;
    this.#isTouched = true;
    if (this.#damagedAtMs === undefined || !this.#needed) {
      this.#checkAtMs = this.#options.clock.now();
    }
    this.#options.wake();
  }

  /**
   * Gives up the comparison that is under way, because the planner was reset, and asks for another.
   */
  cancel(): void {
    if (this.#state.kind !== 'resting') this.#needed = true;
    if (this.#state.kind === 'comparing') this.#by ??= this.#state.by;
    this.#state = { kind: 'resting' };
  }

  /** `Clock.now` of the next step; undefined while an observation is under way. */
  nextMs(): number | undefined {
    if (this.#state.kind === 'comparing') return 0;
    if (this.#state.kind === 'observing') return this.#state.result && 0;
    return Math.min(this.#checkAtMs, this.#dueMs);
  }

  get #dueMs(): number {
    if (!this.#needed) return this.#fullAtMs;
    return this.#damagedAtMs === undefined ? this.#notBeforeMs : this.repairAtMs;
  }

  /**
   * Does what is due for at most one slice of the event loop; where commits are dear, for as long
   * as the last one took. No batch may be in flight. A comparison reports its findings when it is
   * over.
   */
  async step(): Promise<Failure | undefined> {
    switch (this.#state.kind) {
      case 'resting':
        return this.#begin();
      case 'observing':
        return this.#observed(this.#state.result, this.#state.reader.commits);
      case 'comparing':
        return this.#compare(this.#state);
    }
  }

  async #begin(): Promise<Failure | undefined> {
    const now = this.#options.clock.now();
    if (now >= this.#checkAtMs) await this.#check(now);
    if (now < this.#dueMs) return undefined;
    this.reading();
    this.#startedMs = now;
    if (this.#stale >= staleMax && this.#observeMs <= holdMaxMs) {
      return this.#observed(await this.#observeAlone(), this.#options.ruleset.completed);
    }
    this.#observeDuringSyncs();
    return undefined;
  }

  async #check(now: number): Promise<void> {
    const { checkMs, reader, ruleset } = this.#options;
    this.#checkAtMs = now + checkMs;
    const isTouched = this.#isTouched;
    this.#isTouched = false;
    if (this.#needed && !isTouched) return;
    const isMoved = await ruleset.movedByOthers(this.#base, reader);
    if (isMoved && isTouched) this.#damagedAtMs ??= now;
    // Never set to false here: a comparison may be asked for in the meantime.
    if (isMoved || (!this.#needed && (await this.#isMiscounted()))) this.#needed = true;
  }

  /** Whether the kernel counts other numbers of elements than there should be. */
  async #isMiscounted(): Promise<boolean> {
    const { observer, planner, reader } = this.#options;
    const miscounts = await planner.miscounts(reader).catch(() => undefined);
    if (miscounts === undefined) return this.#suspected;
    if (miscounts.length === 0) return false;
    observer({ kind: 'miscounted', family: planner.family, miscounts });
    return true;
  }

  /**
   * Reads the kernel while syncs continue. It is repeated when their batches make it stale.
   */
  #observeDuringSyncs(): void {
    const { clock, newPacer, planner, ruleset, wake } = this.#options;
    const reader = new RetryingReader(this.#options.reader, ruleset);
    const state: State = { kind: 'observing', reader, result: undefined };
    this.#state = state;
    const settle = (result: Observation | Error): void => {
      this.#observeMs = clock.now() - this.#startedMs;
      const isStale = 'isStale' in result && result.isStale;
      state.result = isStale ? 'stale' : result;
      if (isStale) result.drop();
      wake();
    };
    planner.observe(reader, newPacer().pause).then(settle, settle);
  }

  #observeAlone(): Promise<Observed> {
    const { newPacer, planner, reader, ruleset } = this.#options;
    const read = () => planner.observe(reader, newPacer().pause);
    return ruleset.readAlone(read).catch((error: Error) => error);
  }

  async #observed(result: Observed | undefined, commits: number): Promise<Failure | undefined> {
    const { newPacer, tracked } = this.#options;
    if (result === undefined) return undefined;
    this.#state = { kind: 'resting' };
    if (result === 'stale' || isKernelError(result, 'EINTR')) {
      this.#stale += 1;
      this.spent(this.#startedMs);
      this.request(this.#restMs(this.#observeMs));
      return undefined;
    }
    if (result instanceof Error) {
      return unknownFailure(result);
    }
    this.#stale = 0;
    const writers = await this.writers();
    this.verified({ generation: result.generation, commits });
    const records = tracked.urgentFirst().values();
    const repair = await result.repair(newPacer().pause);
    const { drift } = repair;
    const by = this.takeCommitter();
    this.#state = { kind: 'comparing', repair, records, writers, by, drift, commitMs: 0 };
    return undefined;
  }

  async #compare(state: State & { kind: 'comparing' }): Promise<Failure | undefined> {
    const { applier, clock, newPacer, planner } = this.#options;
    const pacer = newPacer();
    const beganMs = clock.now();
    let done = false;
    // Where a commit costs what the tables hold, there must be few.
    const longestMs = planner.batchBytesMax === undefined ? 0 : state.commitMs;
    const isSoon = (): boolean => clock.now() - beganMs < longestMs;
    while (!done && (!pacer.due || planner.indivisible || isSoon())) {
      if (pacer.due) await pacer.rest();
      done = this.#compareNext(state);
    }
    if (done) state.drift = addDrift(state.drift, await state.repair.finish(pacer.pause));
    const comparedMs = clock.now();
    const failure = await applier.finish('audit');
    if (failure !== undefined) return failure;
    state.commitMs = clock.now() - comparedMs;
    if (!done) {
      await pacer.rest();
      return undefined;
    }
    this.#state = { kind: 'resting' };
    // A table that was replaced may have an owner now, and need no watching.
    this.#watch.update();
    const durationMs = clock.now() - this.#startedMs;
    this.#notBeforeMs = clock.now() + this.#restMs(durationMs);
    this.spent(this.#startedMs);
    this.repaired();
    this.#report(state, durationMs);
    return undefined;
  }

  #report({ drift, writers, by }: State & { kind: 'comparing' }, durationMs: number): void {
    const { observer, planner } = this.#options;
    const { family } = planner;
    if (isDrift(drift)) observer({ kind: 'drift', family, purpose: 'audit', drift, writers, by });
    observer({ kind: 'audited', family, durationMs });
  }

  /** Compares one Forwarding; true when none is left. */
  #compareNext(state: State & { kind: 'comparing' }): boolean {
    const { applier } = this.#options;
    const { value: record, done } = state.records.next();
    if (done) return true;
    const { planned: next } = record;
    if (next === undefined) return false;
    state.drift = addDrift(state.drift, state.repair.compare(next));
    applier.note({ record, next, cause: undefined });
    return false;
  }

  #restMs(durationMs: number): number {
    return durationMs * this.#options.restFactor;
  }
}
