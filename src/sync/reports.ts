import type { Family } from '../net/address.ts';
import type { Clock } from './clock.ts';
import type { FamilyEvent, Observer, SyncEvent } from './events.ts';

interface ReportsOptions {
  readonly family: Family;
  readonly clock: Clock;
  readonly observer: Observer;
}

/**
 * What a family tells the world. While no packet meets what it writes, no sync was asked for and
 * none is done, as far as the world is concerned, and nothing is in force.
 */
export class Reports {
  readonly #options: ReportsOptions;
  /** Batches that the kernel has taken meanwhile; undefined = packets meet what is written. */
  #held: (FamilyEvent & { kind: 'committed' })[] | undefined;

  constructor(options: ReportsOptions) {
    this.#options = options;
  }

  readonly tell: Observer = (event: SyncEvent): void => {
    if (this.#held === undefined) this.#options.observer(event);
    else if (event.kind === 'committed') this.#held.push(event);
    else if (event.kind !== 'queued' && event.kind !== 'done') this.#options.observer(event);
  };

  /** From now until `release` no packet meets what is written. */
  hold(): void {
    this.#held ??= [];
  }

  /** What was written is in force as of now. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    const { clock, family } = this.#options;
    const committedMs = clock.now();
    this.tell({ kind: 'queued', family });
    for (const event of held) {
      const stages = event.stages && { ...event.stages, committedMs };
      this.tell({ ...event, stages });
    }
  }
}
