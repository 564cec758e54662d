/**
 * What a family does after its batches: delete what they made unused (`deferred`), and session
 * affinity that points at endpoints that are gone (`sweep`). What the kernel refuses is retried.
 */
import { asKernelFailure } from '../kernel/failures.ts';
import type { Planner } from '../modes/planner.ts';
import { Backoff } from '../time/backoff.ts';
import { isDue } from '../time/clock.ts';
import { restAfter } from '../time/rest.ts';
import type { Applier } from './applier.ts';
import type { Parts } from './parts.ts';

/** After a task that took t, at least `restFactor * t` passes before the next one of its kind. */
const restFactor = 10;

/**
 * Least time between two batches of deferred deletions. A packet that has looked up an object
 * uses it for less than this.
 */
export const deferMs = 1000;

/** Tasks wait for syncs no longer than this. */
const patienceMs = 1000;

type Task = 'deferred' | 'sweep';

export class Housekeeping {
  readonly #parts: Parts;
  readonly #applier: Applier;
  readonly #backoff: Readonly<Record<Task, Backoff>>;
  #deferredAtMs: number | undefined;
  #sweepAtMs = Number.NEGATIVE_INFINITY;
  #waitingSinceMs: number | undefined;

  constructor(parts: Parts, applier: Applier) {
    this.#parts = parts;
    this.#applier = applier;
    const { clock } = parts;
    this.#backoff = {
      deferred: new Backoff({ firstMs: deferMs, secondMs: 2 * deferMs, maxMs: 60_000 }, clock),
      // An element may expire before it is deleted: then there is no reason to wait.
      sweep: new Backoff({ firstMs: 0, secondMs: 250, maxMs: 30_000 }, clock),
    };
  }

  /** `Clock.now` of the next task; undefined when there is none. */
  nextMs(): number | undefined {
    const { planner, clock } = this.#parts;
    if (planner.takeDeferred !== undefined) this.#deferredAtMs ??= clock.now() + deferMs;
    else this.#deferredAtMs = undefined;
    const sweepAtMs = planner.takeSweep !== undefined ? this.#sweepAtMs : undefined;
    if (sweepAtMs === undefined || this.#deferredAtMs === undefined) {
      return sweepAtMs ?? this.#deferredAtMs;
    }
    return Math.min(sweepAtMs, this.#deferredAtMs);
  }

  /** Whether a task has waited for syncs too long. */
  get starved(): boolean {
    const now = this.#parts.clock.now();
    if (!isDue(this.nextMs(), now)) return false;
    this.#waitingSinceMs ??= now;
    return now - this.#waitingSinceMs >= patienceMs;
  }

  /** Does what is due. Nothing may be in flight or waiting to be taken. */
  async run(): Promise<void> {
    const { planner, clock } = this.#parts;
    const now = clock.now();
    this.#waitingSinceMs = undefined;
    const { takeSweep } = planner;
    if (takeSweep !== undefined && now >= this.#sweepAtMs) {
      const retryMs = await this.#apply('sweep', takeSweep);
      const endMs = clock.now();
      this.#sweepAtMs = endMs + (retryMs ?? restAfter(endMs - now, restFactor));
    }
    if (this.#deferredAtMs !== undefined && now >= this.#deferredAtMs) {
      const startMs = clock.now();
      const retryMs = await this.#apply('deferred', planner.takeDeferred);
      const endMs = clock.now();
      const restMs = Math.max(deferMs, restAfter(endMs - startMs, restFactor));
      this.#deferredAtMs = endMs + (retryMs ?? restMs);
    }
  }

  /** Returns the milliseconds to wait after a failure; undefined = done. */
  async #apply(purpose: Task, take: Planner['takeDeferred']): Promise<number | undefined> {
    const { kernel, newPacer, observer, planner, tracked } = this.#parts;
    const taken = (async () => take?.(kernel))();
    const failures = await taken.then(
      async (batch) => batch && (await this.#applier.apply(batch, purpose))?.failures,
      (error: Error) => [asKernelFailure(error)],
    );
    if (failures === undefined) return undefined;
    await planner.resume(tracked.inForce.values(), newPacer().pause);
    const retryMs = this.#backoff[purpose].failed();
    observer({ kind: 'failed', family: planner.family, purpose, failures, retryMs });
    return retryMs;
  }
}
