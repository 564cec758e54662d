/**
 * Keeps the rules that a mode has in a table of iptables, for one family. They follow the rules of
 * the mode by a sync of their own, so that a refusal, or another program that writes that table,
 * delays nothing else.
 */
import type { Kernel } from '../kernel/kernel.ts';
import type { Planner } from '../modes/planner.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { type Comparison, compare } from './comparison.ts';
import type { FilterEvent } from './events.ts';
import { FamilySync } from './family.ts';
import type { Ruleset } from './ruleset.ts';
import type { SyncSettings } from './settings.ts';

interface FilterRulesOptions {
  /** See `ProxyMode.filterPlanner`. */
  readonly planner: Planner;
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** That of the mode's rules. */
  readonly ruleset: Ruleset;
  readonly observer: (event: FilterEvent) => void;
  readonly settings: SyncSettings;
}

export class FilterRules {
  readonly family: Family;
  readonly #options: FilterRulesOptions;
  readonly #sync: FamilySync;
  readonly #abort = new AbortController();
  #isListed = false;

  constructor(options: FilterRulesOptions) {
    const { observer, planner } = options;
    const { environment, family } = planner;
    this.#options = options;
    this.family = family;
    this.#sync = new FamilySync({
      ...options,
      environment: () => environment,
      observer: (event) => {
        if ('family' in event) observer({ kind: 'filter-rules', family, of: event });
      },
    });
  }

  get upToDate(): boolean {
    return this.#sync.upToDate;
  }

  /** See `Planner.describe`; nothing for a Forwarding without such rules. */
  describe(forwarding: Forwarding): readonly string[] {
    const isHere = this.#sync.inForce.has(forwarding.key);
    return isHere ? this.#options.planner.describe(forwarding) : [];
  }

  /** See `compare`. */
  compare(sliceMs: number): Promise<Comparison | undefined> {
    return compare({ ...this.#options, inForce: this.#sync.inForce, sliceMs });
  }

  /** See `ForwardingFollower.changed`, of the mode's rules. Only health-check node ports matter. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const before = portOf(previous);
    const after = portOf(next);
    if (before === after) return;
    const record = this.#sync.track((next ?? previous)!.key);
    this.#sync.setDesired(record, after === 0 ? undefined : next);
    this.#sync.changed(record, undefined);
    this.#sync.wake();
  }

  /** Everything desired has been in force in the mode's rules once. */
  listed(): void {
    if (this.#isListed) return;
    this.#isListed = true;
    this.#sync.listed();
  }

  /** Runs until `stop`. Before `listed`, packets notice nothing. */
  run(): Promise<void> {
    return this.#sync.run(this.#abort.signal);
  }

  /** Ends `run` when the batch in flight is over; the rules stay. */
  async stop(): Promise<void> {
    this.#abort.abort();
  }
}

function portOf(forwarding: Forwarding | undefined): number {
  return forwarding?.healthCheckNodePort ?? 0;
}
