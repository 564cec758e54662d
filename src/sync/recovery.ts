/** Brings the kernel from whatever it holds to what is wanted, writing only the difference. */
import type { KernelFailure } from '../kernel/kernel.ts';
import type { Drift, Observation, Planner } from '../modes/mode.ts';
import type { Forwarding } from '../state/types.ts';
import { Backoff, type BackoffLimits } from './backoff.ts';
import type { Applier, Failure } from './batch.ts';
import type { Causes } from './cause.ts';
import { type Clock, Pacer } from './clock.ts';
import { addDrift, noDrift, type Purpose } from './events.ts';
import type { ForwardingFollower } from './follower.ts';
import type { Quarantined } from './quarantine.ts';

/** When the kernel is to be read and repaired, and what was in force before. */
export class Recovery {
  readonly #clock: Clock;
  readonly #backoff: Backoff;
  /** `Clock.now`; undefined = the kernel is as we believe. */
  #dueAtMs: number | undefined = Number.NEGATIVE_INFINITY;
  #before: ReadonlyMap<string, Forwarding> = new Map();
  #purpose: Extract<Purpose, 'start' | 'recovery'> = 'start';

  constructor(limits: BackoffLimits, clock: Clock) {
    this.#clock = clock;
    this.#backoff = new Backoff(limits, clock);
  }

  get dueAtMs(): number | undefined {
    return this.#dueAtMs;
  }

  /** The first one takes over what earlier processes have left. */
  get purpose(): Extract<Purpose, 'start' | 'recovery'> {
    return this.#purpose;
  }

  /** While one is under way: what was in force before, for what fails in its new form. */
  get before(): ReadonlyMap<string, Forwarding> {
    return this.#before;
  }

  /** `inForce`: as far as we know; what an earlier attempt began with comes first. */
  begin(inForce: ReadonlyMap<string, Forwarding>): void {
    this.#dueAtMs = undefined;
    if (this.#before.size === 0) this.#before = inForce;
  }

  succeeded(): void {
    this.#before = new Map();
    this.#purpose = 'recovery';
  }

  /** Something failed whose extent is not known. Returns the milliseconds until it is due. */
  failed(failures: readonly KernelFailure[]): number {
    const delayMs = this.#backoff.failed(failures);
    this.#dueAtMs = this.#clock.now() + delayMs;
    return delayMs;
  }
}

interface RepairOptions {
  readonly planner: Planner;
  readonly applier: Applier;
  readonly clock: Clock;
  readonly sliceMs: number;
}

/** What a repair came to; what is not in `failure.lost` may have been written already. */
interface Repaired {
  readonly drift: Drift;
  readonly failure: Failure | undefined;
}

/** What a recovery is to bring into force: what is wanted, or what last worked of it. */
export function targetsOf(
  wanted: ReadonlyMap<string, Forwarding>,
  quarantined: Iterable<Quarantined>,
): Map<string, Forwarding> {
  const targets = new Map(wanted);
  for (const { key, inForce } of quarantined) {
    if (inForce === undefined) targets.delete(key);
    else targets.set(key, inForce);
  }
  return targets;
}

/**
 * Gives the pools of `targets` the order found in the kernel, and tells `take` what that changed.
 */
export async function adoptAll(
  { clock, sliceMs }: RepairOptions,
  found: Observation,
  targets: Map<string, Forwarding>,
  take: (key: string, forwarding: Forwarding, adopted: Forwarding) => void,
): Promise<void> {
  const pacer = new Pacer(clock, sliceMs);
  for (const [key, forwarding] of targets) {
    const adopted = found.adopt(forwarding);
    if (adopted !== forwarding) {
      targets.set(key, adopted);
      take(key, forwarding, adopted);
    }
    if (pacer.spent) await pacer.rest();
  }
}

/** Throws what the planner throws about fixed objects and remains. */
export async function repairAll(
  { planner, applier, clock, sliceMs }: RepairOptions,
  found: Observation,
  targets: ReadonlyMap<string, Forwarding>,
  causes: Readonly<Causes>,
  purpose: Purpose,
): Promise<Repaired> {
  const { pause } = new Pacer(clock, sliceMs);
  await planner.reset(targets.values(), pause);
  let drift = addDrift(noDrift, await planner.repairFixed(found, pause));
  const plan = (key: string): void => {
    const next = targets.get(key)!;
    drift = addDrift(drift, planner.repair(found, next));
    applier.note(key, { next, cause: causes.get(key) });
  };
  const failure = await applier.drain(targets.keys(), plan, purpose);
  if (failure !== undefined || applier.stopping) return { drift, failure };
  drift = addDrift(drift, await planner.prune(found, pause));
  return { drift, failure: await applier.finish(purpose) };
}

/** What a recovery has deleted, being wanted no more, was no change of any batch. */
export function tellPruned(
  follower: ForwardingFollower | undefined,
  before: ReadonlyMap<string, Forwarding>,
  applied: ReadonlyMap<string, Forwarding>,
): void {
  for (const [key, forwarding] of before) {
    if (!applied.has(key)) follower?.changed(forwarding, undefined, undefined);
  }
}
