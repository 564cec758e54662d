import type { Kernel } from '../kernel/kernel.ts';
import type { Planner } from '../modes/planner.ts';
import type { Clock } from '../time/clock.ts';
import type { Pacer } from '../time/pacer.ts';
import type { Observer } from './events.ts';
import type { Ruleset } from './ruleset.ts';
import type { SyncSettings } from './settings.ts';
import type { TrackedForwardings } from './tracked.ts';

/** What the parts of a `FamilySync` share. */
export interface Parts {
  readonly planner: Planner;
  readonly kernel: Kernel;
  readonly clock: Clock;
  /** Shared by all families of one network namespace. */
  readonly ruleset: Ruleset;
  readonly observer: Observer;
  readonly settings: SyncSettings;
  readonly tracked: TrackedForwardings;
  /** For each piece of work its own. */
  readonly newPacer: () => Pacer;
}
