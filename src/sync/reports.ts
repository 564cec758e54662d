import type { RefusedAddress } from '../modes/mode.ts';
import type { FamilyEvent, Observer, SyncEvent } from './events.ts';
import type { Parts } from './parts.ts';

/**
 * The events of a family. While rules are staged, events about syncs and batches are held back:
 * nothing is in force before the rules are hooked.
 */
export class Reports {
  readonly #parts: Pick<Parts, 'clock' | 'observer' | 'planner'>;
  /** Events that are held back; undefined = none is. */
  #held: (FamilyEvent & { kind: 'committed' })[] | undefined;

  constructor(parts: Pick<Parts, 'clock' | 'observer' | 'planner'>) {
    this.#parts = parts;
  }

  readonly report: Observer = (event: SyncEvent): void => {
    if (this.#held === undefined) this.#parts.observer(event);
    else if (event.kind === 'committed') this.#held.push(event);
    else if (event.kind !== 'queued' && event.kind !== 'done') this.#parts.observer(event);
  };

  reportRefused(addresses: readonly RefusedAddress[]): void {
    const { family } = this.#parts.planner;
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
    const { clock, planner } = this.#parts;
    const { family } = planner;
    const committedMs = clock.now();
    this.report({ kind: 'queued', family });
    for (const event of held) {
      const stages = event.stages && { ...event.stages, committedMs };
      this.report({ ...event, stages });
    }
  }
}
