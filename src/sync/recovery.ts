/** Brings the kernel from any state to what is desired, and writes only the difference. */
import type { Drift, KernelState } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import { Backoff, type BackoffLimits } from '../time/backoff.ts';
import type { Clock } from '../time/clock.ts';
import type { Pacer, Pause } from '../time/pacer.ts';
import type { RepairTime } from './after-failure.ts';
import type { Applier, Failure } from './applier.ts';
import { addDrift, type Purpose } from './events.ts';
import { yielding } from './handover.ts';
import type { Quarantined } from './quarantine.ts';
import type { Tracked, TrackedForwardings } from './tracked.ts';

/** The delay while another process holds what is needed: to ask again costs little. */
const heldMs = 250;

/** When to read and repair the kernel. */
export class Recovery {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  /** `Clock.now` of the next recovery; undefined = none is due. */
  #dueAtMs: number | undefined = Number.NEGATIVE_INFINITY;
  #purpose: Extract<Purpose, 'start' | 'recovery'> = 'start';

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#clock = clock;
    this.#backoff = new Backoff(limits, clock);
  }

  get dueAtMs(): number | undefined {
    return this.#dueAtMs;
  }

  /** The first recovery is the start: it adopts what an earlier process has left. */
  get purpose(): Extract<Purpose, 'start' | 'recovery'> {
    return this.#purpose;
  }

  begin(): void {
    this.#dueAtMs = undefined;
  }

  succeeded(): void {
    this.#purpose = 'recovery';
  }

  /**
   * Something failed whose extent is not known. Returns the milliseconds until it is due.
   * `repairAtMs`: when repairs may take time again.
   */
  failed(time: RepairTime, repairAtMs: number): number {
    const now = this.#clock.now();
    const delaysMs: Readonly<Record<RepairTime, () => number>> = {
      'in 250 ms': () => heldMs,
      'when repairs may take time again': () => Math.max(0, repairAtMs - now),
      'after a growing delay': () => this.#backoff.failed(),
    };
    const delayMs = delaysMs[time]();
    this.#dueAtMs = now + delayMs;
    return delayMs;
  }
}

/** The result of a repair. All that is not in `failure.lost` may be in force. */
interface Repaired {
  readonly drift: Drift;
  readonly failure: Failure | undefined;
}

/**
 * What a recovery brings into force: what is desired, or for what was refused, its earlier form.
 * Of the latter, some are left as they are in the kernel (`Quarantined.isLeft`).
 */
export function targetsOf(
  tracked: TrackedForwardings,
  quarantined: Iterable<Quarantined>,
): Map<Tracked, Forwarding> {
  const targets = new Map<Tracked, Forwarding>();
  for (const record of tracked.urgentFirst()) {
    if (record.desired !== undefined) targets.set(record, record.desired);
  }
  for (const { key, inForce } of quarantined) {
    const record = tracked.at(key);
    if (inForce === undefined) targets.delete(record);
    else targets.set(record, inForce);
  }
  return targets;
}

/** Gives the pools of `targets` the order that they have in the kernel. */
export async function adoptAll(
  pacer: Pacer,
  found: KernelState,
  targets: Map<Tracked, Forwarding>,
): Promise<void> {
  for (const [record, forwarding] of targets) {
    const adopted = found.adopt(forwarding);
    if (adopted !== forwarding) targets.set(record, adopted);
    if (pacer.due) await pacer.rest();
  }
}

/** Throws what the planner throws about fixed objects and remains. */
export async function repairAll(
  applier: Applier,
  tracked: TrackedForwardings,
  found: KernelState,
  targets: ReadonlyMap<Tracked, Forwarding>,
  purpose: Purpose,
  pause: Pause,
): Promise<Repaired> {
  const repair = await found.restore(targets.values(), pause);
  let { drift } = repair;
  const deleted = new Set<Tracked>();
  const plan = (record: Tracked): void => {
    const next = targets.get(record)!;
    drift = addDrift(drift, repair.compare(next));
    for (const holder of tracked.holders(next) ?? []) {
      applier.note(yielding(holder, next));
      if (!targets.has(holder)) deleted.add(holder);
    }
    applier.note({ record, next, cause: record.takeCause() });
  };
  const failure = await applier.drain(targets.keys(), { plan }, purpose);
  if (failure !== undefined || applier.stopping) return { drift, failure };
  drift = addDrift(drift, await repair.finish(pause));
  for (const record of deleted) applier.note({ record, next: undefined, cause: undefined });
  return { drift, failure: await applier.finish(purpose) };
}
