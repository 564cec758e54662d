/**
 * What a family does after its batches: delete what they made unused (`deferred`), and session
 * affinity that points at endpoints that are gone (`sweep`). What the kernel refuses is retried.
 */
import type { Kernel } from '../kernel/kernel.ts';
import { type Batch, deferMs, type Planner } from '../modes/mode.ts';
import { Backoff } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { type Applier, asKernelFailure } from './batch.ts';
import type { Observer } from './events.ts';

interface HousekeepingOptions {
  readonly planner: Planner;
  readonly applier: Applier;
  readonly reader: Kernel;
  readonly clock: Clock;
  readonly observer: Observer;
  /** The event loop is released after this much work. */
  readonly sliceMs: number;
}

/** After a task that took t, at least `restFactor * t` passes before the next one of its kind. */
const restFactor = 10;

/** Tasks wait for syncs no longer than this. */
const patienceMs = 1000;

type Task = 'deferred' | 'sweep';

export class Housekeeping {
  readonly #options: HousekeepingOptions;
  readonly #backoff: Readonly<Record<Task, Backoff>>;
  #deferredAtMs: number | undefined;
  #sweepAtMs = Number.NEGATIVE_INFINITY;
  #waitingSinceMs: number | undefined;

  constructor(options: HousekeepingOptions) {
    this.#options = options;
    const { clock } = options;
    this.#backoff = {
      deferred: new Backoff({ firstMs: deferMs, secondMs: 2 * deferMs, maxMs: 60_000 }, clock),
      // An element may expire before it is deleted: then there is no reason to wait.
      sweep: new Backoff({ firstMs: 0, secondMs: 250, maxMs: 30_000 }, clock),
    };
  }

  /** `Clock.now` of the next task; undefined when there is none. */
  nextMs(): number | undefined {
    const { planner, clock } = this.#options;
    if (planner.deferred) this.#deferredAtMs ??= clock.now() + deferMs;
    else this.#deferredAtMs = undefined;
    const sweepAtMs = planner.sweepDue ? this.#sweepAtMs : undefined;
    if (sweepAtMs === undefined || this.#deferredAtMs === undefined) {
      return sweepAtMs ?? this.#deferredAtMs;
    }
    return Math.min(sweepAtMs, this.#deferredAtMs);
  }

  /** Whether a task has waited for syncs too long. */
  get starved(): boolean {
    const now = this.#options.clock.now();
    const nextMs = this.nextMs();
    if (nextMs === undefined || nextMs > now) this.#waitingSinceMs = undefined;
    else this.#waitingSinceMs ??= now;
    return this.#waitingSinceMs !== undefined && now - this.#waitingSinceMs >= patienceMs;
  }

  /** Does what is due. Nothing may be in flight or waiting to be taken. */
  async run(): Promise<void> {
    const { planner, clock, reader } = this.#options;
    const now = clock.now();
    this.#waitingSinceMs = undefined;
    if (planner.sweepDue && now >= this.#sweepAtMs) {
      const retryMs = await this.#apply('sweep', () => planner.takeSweep(reader));
      const endMs = clock.now();
      this.#sweepAtMs = endMs + (retryMs ?? (endMs - now) * restFactor);
    }
    if (this.#deferredAtMs !== undefined && now >= this.#deferredAtMs) {
      const startMs = clock.now();
      const retryMs = await this.#apply('deferred', async () => planner.takeDeferred(reader));
      const endMs = clock.now();
      const restMs = Math.max(deferMs, (endMs - startMs) * restFactor);
      this.#deferredAtMs = endMs + (retryMs ?? restMs);
    }
  }

  /** Returns the milliseconds to wait after a failure; undefined = done. */
  async #apply(purpose: Task, take: () => Promise<Batch | undefined>): Promise<number | undefined> {
    const { planner, applier, clock, observer, sliceMs } = this.#options;
    const failures = await take().then(
      async (batch) => batch && (await applier.apply(batch, purpose))?.failures,
      (error: Error) => [asKernelFailure(error)],
    );
    if (failures === undefined) return undefined;
    await planner.reset(applier.inForce.values(), new Pacer(clock, sliceMs).pause);
    const retryMs = this.#backoff[purpose].failed();
    observer({ kind: 'failed', family: planner.family, purpose, failures, retryMs });
    return retryMs;
  }
}
