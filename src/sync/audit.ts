/**
 * The audit finds and repairs what others changed in our objects. The generation of the ruleset
 * shows at little cost whether others have committed. Only then everything is read and compared.
 */
import { isKernelError } from '../kernel/errors.ts';
import type { Committer } from '../kernel/kernel.ts';
import type { Drift, Observation, Repair } from '../modes/mode.ts';
import { Debt } from '../time/debt.ts';
import { type Applier, type Failure, unknownFailure } from './applier.ts';
import { addDrift, isDrift } from './events.ts';
import type { Parts } from './parts.ts';
import { RetryingReader } from './retrying-reader.ts';
import type { Moment, Writers } from './ruleset.ts';
import type { SyncSettings } from './settings.ts';
import type { Tracked } from './tracked.ts';
import { Watch } from './watch.ts';

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
  readonly #parts: Parts;
  readonly #settings: SyncSettings['audit'];
  readonly #applier: Applier;
  /** Is called when `nextMs` has become earlier. */
  readonly #wake: () => void;
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

  constructor(parts: Parts, applier: Applier, wake: () => void) {
    this.#parts = parts;
    this.#settings = parts.settings.audit;
    this.#applier = applier;
    this.#wake = wake;
    this.#repairs = new Debt(parts.clock, repairShare);
    this.#watch = new Watch(parts, {
      changed: (by) => this.#disturbed(by),
      ended: () => this.verify(),
    });
    this.#checkAtMs = parts.clock.now() + this.#settings.checkMs;
    this.#fullAtMs = parts.clock.now() + this.#settings.fullMs;
  }

  /** All is read from now on: what was asked for until now needs no other comparison. */
  reading(): void {
    this.#needed = false;
    this.#suspected = false;
    this.#isTouched = false;
    this.#checkAtMs = this.#parts.clock.now() + this.#settings.checkMs;
  }

  /** At that moment all was read, and is now as desired. */
  verified(base: Moment): void {
    this.#base = base;
    this.#watch.update();
    this.#fullAtMs = this.#parts.clock.now() + this.#settings.fullMs;
  }

  /** `Clock.now` from which a repair of what others have changed is due. */
  get repairAtMs(): number {
    return this.#repairs.dueMs(repairAllowanceMs);
  }

  /** How long changes of ours by others have waited for their repair; 0 = there are none. */
  get damagedMs(): number {
    return this.#damagedAtMs === undefined ? 0 : this.#parts.clock.now() - this.#damagedAtMs;
  }

  /** A repair is over, or was given up, that began at `beganMs` of `Clock.now`. */
  spent(beganMs: number): void {
    this.#repairs.spent(this.#parts.clock.now() - beganMs, beganMs);
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
    return this.#parts.ruleset.writersSince(this.#base, this.#parts.reader);
  }

  /** Asks for a comparison, unless the kernel's counts of elements show that none is needed. */
  suspect(): void {
    this.#suspected = true;
    const soonMs = this.#parts.clock.now() + Math.min(suspectMs, this.#settings.checkMs);
    this.#checkAtMs = Math.min(this.#checkAtMs, soonMs);
  }

  /**
   * Asks for a comparison now. Events report its result: `drift`, if there is any, then `audited`.
   */
  verify(): void {
    this.request(0);
    this.#wake();
  }

  /** Asks for a comparison after `delayMs`, whatever the generation says. */
  request(delayMs: number): void {
    this.#needed = true;
    this.#notBeforeMs = Math.max(this.#notBeforeMs, this.#parts.clock.now() + delayMs);
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
      this.#checkAtMs = this.#parts.clock.now();
    }
    this.#wake();
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
    const now = this.#parts.clock.now();
    if (now >= this.#checkAtMs) await this.#check(now);
    if (now < this.#dueMs) return undefined;
    this.reading();
    this.#startedMs = now;
    if (this.#stale >= staleMax && this.#observeMs <= holdMaxMs) {
      return this.#observed(await this.#observeAlone(), this.#parts.ruleset.completed);
    }
    this.#observeDuringSyncs();
    return undefined;
  }

  async #check(now: number): Promise<void> {
    const { reader, ruleset } = this.#parts;
    this.#checkAtMs = now + this.#settings.checkMs;
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
    const { observer, planner, reader } = this.#parts;
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
    const { clock, newPacer, planner, ruleset } = this.#parts;
    const reader = new RetryingReader(this.#parts.reader, ruleset);
    const state: State = { kind: 'observing', reader, result: undefined };
    this.#state = state;
    const settle = (result: Observation | Error): void => {
      this.#observeMs = clock.now() - this.#startedMs;
      const isStale = 'isStale' in result && result.isStale;
      state.result = isStale ? 'stale' : result;
      if (isStale) result.drop();
      this.#wake();
    };
    planner.observe(reader, newPacer().pause).then(settle, settle);
  }

  #observeAlone(): Promise<Observed> {
    const { newPacer, planner, reader, ruleset } = this.#parts;
    const read = () => planner.observe(reader, newPacer().pause);
    return ruleset.readAlone(read).catch((error: Error) => error);
  }

  async #observed(result: Observed | undefined, commits: number): Promise<Failure | undefined> {
    const { newPacer, tracked } = this.#parts;
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
    const { clock, newPacer, planner } = this.#parts;
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
    const failure = await this.#applier.finish('audit');
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
    const { observer, planner } = this.#parts;
    const { family } = planner;
    if (isDrift(drift)) observer({ kind: 'drift', family, purpose: 'audit', drift, writers, by });
    observer({ kind: 'audited', family, durationMs });
  }

  /** Compares one Forwarding; true when none is left. */
  #compareNext(state: State & { kind: 'comparing' }): boolean {
    const { value: record, done } = state.records.next();
    if (done) return true;
    const { planned: next } = record;
    if (next === undefined) return false;
    state.drift = addDrift(state.drift, state.repair.compare(next));
    this.#applier.note({ record, next, cause: undefined });
    return false;
  }

  #restMs(durationMs: number): number {
    return durationMs * this.#settings.restFactor;
  }
}
