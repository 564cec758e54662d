import type { Family } from '../net/address.ts';

/** The time in the cluster of a change that a slice delivered, for programming latency. */
export interface TriggerTime {
  readonly family: Family;
  /** Milliseconds since the epoch. */
  readonly timeMs: number;
}

const none: readonly TriggerTime[] = [];

/** Changes beyond this number between two syncs are not measured. */
const timesMaxPerService = 100;

/**
 * Trigger times of each Service's slices that have not been reported yet (behaviour document 4.3,
 * edge case E28).
 */
export class TriggerTimes {
  readonly #sinceMs: number;
  readonly #times = new Map<string, TriggerTime[]>();

  /** Changes until `sinceMs` are ignored: they were made before this process ran. */
  constructor(sinceMs: number) {
    this.#sinceMs = sinceMs;
  }

  record(service: string, family: Family, timeMs: number | undefined): void {
    if (timeMs === undefined || timeMs <= this.#sinceMs) return;
    const times = this.#times.get(service) ?? [];
    const known = times.some((time) => time.family === family && time.timeMs === timeMs);
    if (known || times.length >= timesMaxPerService) return;
    times.push({ family, timeMs });
    this.#times.set(service, times);
  }

  /** Drops the times of a Service of which a slice was deleted: their latency would mislead. */
  drop(service: string, family: Family): void {
    const rest = this.take(service).filter((time) => time.family !== family);
    if (rest.length > 0) this.#times.set(service, rest);
  }

  /** Returns and drops the times of a Service. */
  take(service: string): readonly TriggerTime[] {
    const times = this.#times.get(service);
    if (times === undefined) return none;
    this.#times.delete(service);
    return times;
  }
}
