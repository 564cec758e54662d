import type { KernelError } from '../kernel/errors.ts';
import type { Committer, Kernel, WatchedTable } from '../kernel/kernel.ts';
import type { Planner } from '../modes/mode.ts';
import { Backoff } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';
import type { Observer } from './events.ts';

interface WatchOptions {
  readonly planner: Planner;
  readonly reader: Kernel;
  readonly clock: Clock;
  readonly observer: Observer;
}

interface WatchFollower {
  /** A table may have changed: read the generation. */
  readonly changed: (by?: Committer) => void;
  /** Nothing is watched until another attempt succeeds: what changes now is reported by no one. */
  readonly ended: () => void;
}

/** Before a watch that has ended is begun again. */
const retryLimits = { firstMs: 250, secondMs: 1000, maxMs: 60_000 };

/** Watches those of our tables that other programs can change. */
export class Watch {
  readonly #options: WatchOptions;
  readonly #follower: WatchFollower;
  readonly #backoff: Backoff;
  #tables: readonly WatchedTable[] | undefined;
  #end = (): void => {};

  constructor(options: WatchOptions, follower: WatchFollower) {
    this.#options = options;
    this.#follower = follower;
    this.#backoff = new Backoff(retryLimits, options.clock);
  }

  /** Call it when the tables that others can change may be different from before. */
  update(): void {
    const { observer, planner } = this.#options;
    const tables = planner.exposed;
    if (tables === undefined || tables.length === this.#tables?.length) return;
    this.#end();
    this.#tables = tables;
    if (tables.length > 0) this.#begin(tables);
    else observer({ kind: 'exposed', family: planner.family, tables });
  }

  end(): void {
    this.#end();
    this.#end = () => {};
  }

  #begin(tables: readonly WatchedTable[]): void {
    const { observer, planner, reader } = this.#options;
    let isReported = false;
    this.#end = reader.watch(tables, {
      changed: (by) => {
        if (!isReported) observer({ kind: 'exposed', family: planner.family, tables });
        isReported = true;
        this.#follower.changed(by);
      },
      ended: (error) => this.#ended(tables, error),
    });
  }

  #ended(tables: readonly WatchedTable[], error: KernelError): void {
    const { clock, observer, planner } = this.#options;
    const retryMs = this.#backoff.failed();
    this.#end = clock.after(retryMs, () => this.#begin(tables));
    observer({ kind: 'unwatched', family: planner.family, tables, error, retryMs });
    this.#follower.ended();
  }
}
