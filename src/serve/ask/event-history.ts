/** The last events of each family, for answers. */
import type { AgentEvent } from '../../connect-time/maps/events.ts';
import type { Family } from '../../net/address.ts';
import type { FamilyEvent } from '../../sync/events.ts';
import { RecentChanges, type RecentOptions } from './recent.ts';

type Event<Kind extends FamilyEvent['kind']> = Extract<FamilyEvent, { kind: Kind }>;

/** An event with its time, in milliseconds since the epoch. */
interface Noted<Kind extends FamilyEvent['kind']> {
  readonly timeMs: number;
  readonly event: Event<Kind>;
}

export interface FamilyHistory {
  readonly sync: Noted<'done'> | undefined;
  readonly failure: Noted<'failed'> | undefined;
  /** The last drift, except that of a start, which only shows the number of initial changes. */
  readonly drift: Noted<'drift'> | undefined;
  /** How often drift was found. */
  readonly drifts: number;
}

const nothing: FamilyHistory = {
  sync: undefined,
  failure: undefined,
  drift: undefined,
  drifts: 0,
};

export class EventHistory {
  readonly recent: RecentChanges;
  readonly #options: RecentOptions;
  readonly #families = new Map<Family, FamilyHistory>();

  constructor(options: RecentOptions) {
    this.#options = options;
    this.recent = new RecentChanges(options);
  }

  of(family: Family): FamilyHistory {
    return this.#families.get(family) ?? nothing;
  }

  observe(event: AgentEvent): void {
    const timeMs = this.#options.clock.wallMs();
    if (event.kind === 'done') this.#note(event.family, { sync: { timeMs, event } });
    if (event.kind === 'failed') this.#note(event.family, { failure: { timeMs, event } });
    if (event.kind === 'drift' && event.purpose !== 'start') {
      const drifts = this.of(event.family).drifts + 1;
      this.#note(event.family, { drift: { timeMs, event }, drifts });
    }
  }

  #note(family: Family, news: Partial<FamilyHistory>): void {
    this.#families.set(family, { ...this.of(family), ...news });
  }
}
