/**
 * The audit finds and repairs what others changed in our objects. The generation of the ruleset
 * shows at little cost whether others have committed. Only then everything is read and compared.
 */
import { isKernelError } from '../kernel/errors.ts';
import type { Committer } from '../kernel/kernel.ts';
import type { Drift, Observation, Repair } from '../modes/mode.ts';
import { restAfter } from '../time/rest.ts';
import { type Applier, type Failure, unknownFailure } from './applier.ts';
import type { Damage } from './damage.ts';
import { addDrift, isDrift } from './events.ts';
import type { Parts } from './parts.ts';
import { RetryingReader } from './retrying-reader.ts';
import { type Writers, writersSince } from './ruleset.ts';
import type { SyncSettings } from './settings.ts';
import type { Tracked } from './tracked.ts';
import { Watch } from './watch.ts';

/** So soon after a suspicion elements are counted, once for all suspicions until then. */
const suspectMs = 5000;

/** Observations in a row that were stale: how many, and how long the last one took. */
interface Stale {
  readonly count: number;
  readonly tookMs: number;
}

const notStale: Stale = { count: 0, tookMs: 0 };

/** An observation that has begun. */
interface Begun {
  readonly startedMs: number;
  readonly stale: Stale;
}

interface Observed {
  readonly result: Observation | 'stale' | Error;
  readonly tookMs: number;
}

type State =
  | { readonly kind: 'resting'; readonly stale: Stale }
  | {
      readonly kind: 'observing';
      readonly begun: Begun;
      observed: Observed | undefined;
    }
  | {
      readonly kind: 'comparing';
      readonly startedMs: number;
      readonly repair: Repair;
      readonly records: Iterator<Tracked>;
      readonly writers: Writers;
      readonly by: Committer | undefined;
      drift: Drift;
      /** How long the last batch took. */
      commitMs: number;
    };

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
  readonly #damage: Damage;
  readonly #watch: Watch;
  #state: State = { kind: 'resting', stale: notStale };
  #base: number | undefined;
  /** Whether a comparison is needed; `doubted`: if the kernel does not count elements. */
  #need: 'none' | 'doubted' | 'certain' = 'none';
  #notBeforeMs = 0;
  #checkAtMs: number;
  #fullAtMs: number;

  constructor(parts: Parts, applier: Applier, damage: Damage, wake: () => void) {
    this.#parts = parts;
    this.#settings = parts.settings.audit;
    this.#applier = applier;
    this.#damage = damage;
    this.#wake = wake;
    this.#watch = new Watch(parts, {
      changed: (by) => this.#disturbed(by),
      ended: () => this.verify(),
    });
    this.#checkAtMs = parts.clock.now() + this.#settings.checkMs;
    this.#fullAtMs = parts.clock.now() + this.#settings.fullMs;
  }

  /** All is read from now on: what was asked for until now needs no other comparison. */
  reading(): void {
    this.#need = 'none';
    this.#damage.takeSuspicion();
    this.#checkAtMs = this.#parts.clock.now() + this.#settings.checkMs;
  }

  /** At that moment all was read, and is now as desired. */
  verified(base: number | undefined): void {
    this.#base = base;
    this.#watch.update();
    this.#fullAtMs = this.#parts.clock.now() + this.#settings.fullMs;
  }

  /** Packets meet the rules now, so that it matters what others change. */
  hooked(): void {
    this.#watch.update();
  }

  /** Who has written since `verified`. */
  writers(): Promise<Writers> {
    return writersSince(this.#base, this.#parts.kernel);
  }

  /** Asks for a comparison, unless the kernel's counts of elements show that none is needed. */
  suspect(): void {
    if (this.#need === 'none') this.#need = 'doubted';
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
    this.#need = 'certain';
    this.#notBeforeMs = Math.max(this.#notBeforeMs, this.#parts.clock.now() + delayMs);
  }

  /** Stops watching for changes by others. */
  end(): void {
    this.#watch.end();
  }

  /** Others may have changed something of ours: reads the generation at the next step. */
  #disturbed(by: Committer | undefined): void {
    this.#damage.suspect(by);
    if (!this.#damage.isKnown || !this.#isNeeded) {
      this.#checkAtMs = this.#parts.clock.now();
    }
    this.#wake();
  }

  /**
   * Gives up the comparison that is under way, because the planner was reset, and asks for another.
   */
  cancel(): void {
    const state = this.#state;
    if (state.kind === 'resting') return;
    this.#need = 'certain';
    if (state.kind === 'comparing') this.#damage.giveBack(state.by);
    const begun = state.kind === 'comparing' ? { ...state, stale: notStale } : state.begun;
    this.#damage.spent(begun.startedMs);
    this.#rest(begun.stale);
  }

  /** `Clock.now` of the next step; undefined while an observation is under way. */
  nextMs(): number | undefined {
    if (this.#state.kind === 'comparing') return 0;
    if (this.#state.kind === 'observing') return this.#state.observed && 0;
    return Math.min(this.#checkAtMs, this.#dueMs);
  }

  get #isNeeded(): boolean {
    return this.#need === 'certain';
  }

  get #dueMs(): number {
    if (!this.#isNeeded) return this.#fullAtMs;
    return this.#damage.isKnown ? this.#damage.repairAtMs : this.#notBeforeMs;
  }

  #rest(stale: Stale): void {
    this.#state = { kind: 'resting', stale };
  }

  /**
   * Does what is due for at most one slice of the event loop; where commits are dear, for as long
   * as the last one took. No batch may be in flight. A comparison reports its findings when it is
   * over.
   */
  async step(): Promise<Failure | undefined> {
    const state = this.#state;
    switch (state.kind) {
      case 'resting':
        return this.#begin(state.stale);
      case 'observing':
        return state.observed && this.#observed(state.begun, state.observed);
      case 'comparing':
        return this.#compare(state);
    }
  }

  async #begin(stale: Stale): Promise<Failure | undefined> {
    const now = this.#parts.clock.now();
    if (now >= this.#checkAtMs) await this.#check(now);
    if (now < this.#dueMs) return undefined;
    this.reading();
    const begun: Begun = { startedMs: now, stale };
    if (stale.count >= staleMax && stale.tookMs <= holdMaxMs) {
      return this.#observed(begun, await this.#observeAlone(now));
    }
    this.#observeDuringSyncs(begun);
    return undefined;
  }

  async #check(now: number): Promise<void> {
    this.#checkAtMs = now + this.#settings.checkMs;
    const isTouched = this.#damage.takeSuspicion();
    if (this.#isNeeded && !isTouched) return;
    const isMoved = (await this.writers()) === 'others';
    if (isMoved && isTouched) this.#damage.confirm(now);
    // Never less certain after this: a comparison may be asked for in the meantime.
    if (isMoved || (!this.#isNeeded && (await this.#isMiscounted()))) this.#need = 'certain';
  }

  /** Whether the kernel counts other numbers of elements than there should be. */
  async #isMiscounted(): Promise<boolean> {
    const { kernel, observer, planner } = this.#parts;
    const miscounts = await planner.miscounts(kernel).catch(() => undefined);
    if (miscounts === undefined) return this.#need !== 'none';
    if (miscounts.length === 0) return false;
    observer({ kind: 'miscounted', family: planner.family, miscounts });
    return true;
  }

  /**
   * Reads the kernel while syncs continue. It is repeated when their batches make it stale.
   */
  #observeDuringSyncs(begun: Begun): void {
    const { clock, newPacer, planner, ruleset } = this.#parts;
    const reader = new RetryingReader(this.#parts.kernel, ruleset);
    const state: State = { kind: 'observing', begun, observed: undefined };
    this.#state = state;
    const settle = (result: Observation | Error): void => {
      const tookMs = clock.now() - begun.startedMs;
      const isStale = 'isStale' in result && result.isStale;
      state.observed = { result: isStale ? 'stale' : result, tookMs };
      if (isStale) result.drop();
      this.#wake();
    };
    planner.observe(reader, newPacer().pause).then(settle, settle);
  }

  async #observeAlone(startedMs: number): Promise<Observed> {
    const { clock, kernel, newPacer, planner, ruleset } = this.#parts;
    const read = () => planner.observe(kernel, newPacer().pause);
    const result = await ruleset.readAlone(read).catch((error: Error) => error);
    return { result, tookMs: clock.now() - startedMs };
  }

  async #observed(
    { stale, startedMs }: Begun,
    { result, tookMs }: Observed,
  ): Promise<Failure | undefined> {
    const { newPacer, tracked } = this.#parts;
    if (result === 'stale' || isKernelError(result, 'EINTR')) {
      this.#rest({ count: stale.count + 1, tookMs });
      this.#damage.spent(startedMs);
      this.request(restAfter(tookMs, this.#settings.restFactor));
      return undefined;
    }
    if (result instanceof Error) {
      this.#rest(stale);
      return unknownFailure(result);
    }
    this.#rest(notStale);
    const writers = await this.writers();
    this.verified(result.generation);
    const records = tracked.urgentFirst().values();
    const repair = await result.repair(newPacer().pause);
    const { drift } = repair;
    const by = this.#damage.takeCommitter();
    const found = { startedMs, repair, records, writers, by };
    this.#state = { kind: 'comparing', ...found, drift, commitMs: 0 };
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
    this.#rest(notStale);
    // A table that was replaced may have an owner now, and need no watching.
    this.#watch.update();
    const durationMs = clock.now() - state.startedMs;
    this.#notBeforeMs = clock.now() + restAfter(durationMs, this.#settings.restFactor);
    this.#damage.spent(state.startedMs);
    this.#damage.repaired();
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
}
