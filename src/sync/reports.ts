import type { RefusedAddress } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { Clock } from '../time/clock.ts';
import type { FamilyEvent, Observer, SyncEvent } from './events.ts';

interface ReportsOptions {
  readonly family: Family;
  readonly clock: Clock;
  readonly observer: Observer;
}

/**
 * The events of a family. While rules are staged, events about syncs and batches are held back:
 * nothing is in force before the rules are hooked.
 */
export class Reports {
  readonly #options: ReportsOptions;
  /** Events that are held back; undefined = none is. */
  #held: (FamilyEvent & { kind: 'committed' })[] | undefined;

  constructor(options: ReportsOptions) {
    this.#options = options;
  }

  readonly report: Observer = (event: SyncEvent): void => {
    if (this.#held === undefined) this.#options.observer(event);
    else if (event.kind === 'committed') this.#held.push(event);
    else if (event.kind !== 'queued' && event.kind !== 'done') this.#options.observer(event);
  };

  reportRefused(addresses: readonly RefusedAddress[]): void {
    const { family } = this.#options;
    for (const refused of addresses) this.report({ kind: 'address-refused', family, ...refused });
  }

  /** Holds events back until `release`. */
  hold(): void {
    this.#held ??= [];
  }

  /** Reports the events that were held back, as of now. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    const { clock, family } = this.#options;
    const committedMs = clock.now();
    this.report({ kind: 'queued', family });
    for (const event of held) {
      const stages = event.stages && { ...event.stages, committedMs };
      this.report({ ...event, stages });
    }
  }
}
