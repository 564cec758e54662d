import type { KernelError } from '../kernel/errors.ts';
import type { Committer, WatchedTable } from '../kernel/kernel.ts';
import { Backoff } from '../time/backoff.ts';
import type { Parts } from './parts.ts';

type WatchParts = Pick<Parts, 'clock' | 'kernel' | 'observer' | 'planner'>;

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
  readonly #parts: WatchParts;
  readonly #follower: WatchFollower;
  readonly #backoff: Backoff;
  #tables: readonly WatchedTable[] | undefined;
  #end = (): void => {};

  constructor(parts: WatchParts, follower: WatchFollower) {
    this.#parts = parts;
    this.#follower = follower;
    this.#backoff = new Backoff(retryLimits, parts.clock);
  }

  /** Call it when the tables that others can change may be different from before. */
  update(): void {
    const { observer, planner } = this.#parts;
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
    const { kernel, observer, planner } = this.#parts;
    let isReported = false;
    this.#end = kernel.watch(tables, {
      changed: (by) => {
        if (!isReported) observer({ kind: 'exposed', family: planner.family, tables });
        isReported = true;
        this.#follower.changed(by);
      },
      ended: (error) => this.#ended(tables, error),
    });
  }

  #ended(tables: readonly WatchedTable[], error: KernelError): void {
    const { clock, observer, planner } = this.#parts;
    const retryMs = this.#backoff.failed();
    this.#end = clock.after(retryMs, () => this.#begin(tables));
    observer({ kind: 'unwatched', family: planner.family, tables, error, retryMs });
    this.#follower.ended();
  }
}
