import type { Committer, Kernel, TableName } from '../kernel/kernel.ts';
import type { Planner } from '../modes/mode.ts';
import type { Observer } from './events.ts';

export interface WatchOptions {
  readonly planner: Planner;
  readonly reader: Kernel;
  readonly observer: Observer;
}

/** Watches those of our tables that others can change. */
export class Watch {
  readonly #options: WatchOptions;
  readonly #changed: (by?: Committer) => void;
  #tables: readonly TableName[] | undefined;
  #end = (): void => {};

  constructor(options: WatchOptions, changed: (by?: Committer) => void) {
    this.#options = options;
    this.#changed = changed;
  }

  /** Call it when the tables that others can change may be different from before. */
  update(): void {
    const { observer, planner, reader } = this.#options;
    const tables = planner.exposed;
    if (tables === undefined || tables.length === this.#tables?.length) return;
    this.#end();
    this.#end = tables.length === 0 ? () => {} : reader.watch(tables, this.#changed);
    this.#tables = tables;
    observer({ kind: 'exposed', family: planner.family, tables });
  }

  end(): void {
    this.#end();
    this.#end = () => {};
  }
}
