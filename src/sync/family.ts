/** Brings one family of the kernel to what is desired, and keeps it there. */
import type { KernelFailure } from '../kernel/kernel.ts';
import type { Environment, KernelState } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding, ForwardingsByKey } from '../state/types.ts';
import { isDue } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { afterFailure } from './after-failure.ts';
import {
  type AppliedChange,
  Applier,
  contradictsBelief,
  type Failure,
  unknownFailure,
} from './applier.ts';
import { Audit } from './audit.ts';
import type { Cause } from './cause.ts';
import { type Backlog, Changes } from './changes.ts';
import { Damage } from './damage.ts';
import { isDrift, type Purpose } from './events.ts';
import type { ForwardingFollower } from './follower.ts';
import { Handover, yieldRefused } from './handover.ts';
import { Housekeeping } from './housekeeping.ts';
import type { Parts } from './parts.ts';
import { Quarantine, type Refusals } from './quarantine.ts';
import { adoptAll, Recovery, repairAll, targetsOf } from './recovery.ts';
import { Reports } from './reports.ts';
import { Requests } from './requests.ts';
import { Snapshots } from './snapshots.ts';
import { type Tracked, TrackedForwardings } from './tracked.ts';

interface FamilySyncOptions extends Omit<Parts, 'newPacer' | 'tracked'> {
  /** What applies to all Services at present. It is the same object until it changes. */
  readonly environment: () => Environment;
  /** Notified in this order. */
  readonly followers?: readonly ForwardingFollower[];
}

/** Time between syncs while staged: no packet waits for them, and few large batches cost least. */
const stagedPeriodMs = 250;

/** Syncs that a first load may take after its lists are complete. */
const stagedSyncsMax = 30;

/**
 * - `reading`: it is not known yet all that is desired. The kernel is read, and nothing is written.
 * - `staged`: the same, but packets meet nothing of ours, so that rules can be written already.
 * - `hooking`: all that is desired is known. Rules are completed, and then hooked.
 * - `live`: packets meet the rules.
 * - `stopping`: a batch in flight is awaited.
 *
 * In `staged`, `hooking` and `live` the kernel holds what is in force, or a recovery is due.
 */
type Phase = 'reading' | 'staged' | 'hooking' | 'live' | 'stopping';

export class FamilySync {
  readonly family: Family;
  readonly #parts: Parts;
  readonly #environment: () => Environment;
  readonly #followers: readonly ForwardingFollower[];
  readonly #tracked: TrackedForwardings;
  readonly #applier: Applier;
  readonly #audit: Audit;
  readonly #damage: Damage;
  readonly #quarantine: Quarantine;
  readonly #recovery: Recovery;
  readonly #housekeeping: Housekeeping;
  readonly #snapshots: Snapshots;
  readonly #reports: Reports;
  readonly #changes: Changes;
  readonly #handover: Handover;
  readonly #requests: Requests;
  #phase: Phase = 'reading';
  /** While rules are staged: takes the batch that hooks them. */
  #takeHook: ReturnType<KernelState['stage']>;
  #inStepAtMs: number | undefined;
  /** `Applier.spentMs` when the sync began. */
  #spentBeforeMs = 0;
  /** As the last event `done` said. */
  #isHealthy = false;

  constructor(given: FamilySyncOptions) {
    const { planner, clock, environment, followers = [], settings } = given;
    this.family = planner.family;
    this.#tracked = new TrackedForwardings(this.family, clock);
    this.#environment = environment;
    this.#followers = followers;
    this.#reports = new Reports(given);
    const observer = this.#reports.report;
    this.#requests = new Requests(clock, () => {
      if (this.#isListed) observer({ kind: 'queued', family: this.family });
    });
    this.#quarantine = new Quarantine(settings.quarantineBackoff, clock);
    this.#recovery = new Recovery(settings.recoveryBackoff, clock);
    const newPacer = (): Pacer => new Pacer(clock, settings.sliceMs);
    const parts: Parts = { ...given, observer, newPacer, tracked: this.#tracked };
    this.#parts = parts;
    this.#applier = new Applier(parts, this.#quarantine, (change) => this.#applied(change));
    this.#handover = new Handover(parts, this.#applier);
    this.#changes = new Changes(parts, this.#handover);
    this.#damage = new Damage(clock);
    this.#audit = new Audit(parts, this.#applier, this.#damage, this.#requests.wake);
    this.#housekeeping = new Housekeeping(parts, this.#applier);
    this.#snapshots = new Snapshots(parts);
  }

  /** What is desired. It depends on the cluster only. */
  get desired(): ForwardingsByKey {
    return this.#tracked.desired;
  }

  /** See `TrackedForwardings`. */
  get unreached(): TrackedForwardings['unreached'] {
    return this.#tracked.unreached;
  }

  /** What the kernel has acknowledged. */
  get inForce(): ForwardingsByKey {
    return this.#tracked.inForce;
  }

  /** What the kernel refuses at present. */
  get quarantined(): Refusals {
    return this.#quarantine;
  }

  /** What has become of what is desired of the Forwarding; undefined: nothing is known of it. */
  statusOf(key: string): Pick<Tracked, 'status' | 'sinceMs'> | undefined {
    return this.#tracked.get(key);
  }

  get progress(): { readonly phase: Phase } & Backlog {
    return { phase: this.#phase, ...this.#changes.backlog(this.#damage.ageMs) };
  }

  get audit(): Pick<Audit, 'verify'> {
    return this.#audit;
  }

  /**
   * All that is desired is in force or in quarantine. What is left to do is deleting what is
   * retired, and audits.
   */
  get upToDate(): boolean {
    return this.#isListed && this.#isIdle && this.#parts.planner.takeSweep === undefined;
  }

  /**
   * `Clock.now` when all that was desired was in force last, except for what was in quarantine, which
   * must not be everything; now, if nothing waits.
   */
  get inStepAtMs(): number | undefined {
    const isNow = this.#requests.isWaiting && this.#isInStep;
    return isNow ? this.#parts.clock.now() : this.#inStepAtMs;
  }

  /** Valid between two steps. */
  get #isInStep(): boolean {
    return this.#phase === 'live' && this.#isHealthy && !this.#isDue;
  }

  get #isIdle(): boolean {
    return this.#requests.isWaiting && !this.#isDue;
  }

  /** A recovery or a sync is due. */
  get #isDue(): boolean {
    return this.#recovery.dueAtMs !== undefined || this.#hasWork;
  }

  get #isListed(): boolean {
    return this.#phase === 'hooking' || this.#phase === 'live';
  }

  get #isUnhooked(): boolean {
    return this.#phase === 'staged' || this.#phase === 'hooking';
  }

  get #isStopping(): boolean {
    return this.#phase === 'stopping';
  }

  get #hasWork(): boolean {
    const { planner } = this.#parts;
    return this.#changes.dirty.any || this.#environment() !== planner.environment;
  }

  /** Its record, for `setDesired` and `changed`. It is valid while it is desired. */
  track(key: string): Tracked {
    return this.#tracked.at(key);
  }

  /** Changes what is desired; undefined = no longer desired. `changed` is to be called for it. */
  setDesired(record: Tracked, next: Forwarding | undefined): void {
    this.#tracked.setDesired(record, next);
  }

  /**
   * What is desired of it has changed. It takes effect with `wake`. `service`: the
   * `namespace/name` that its key begins with, where the caller has it.
   */
  changed(record: Tracked, cause: Cause | undefined, service?: string): void {
    this.#tracked.catchUp();
    const isSooner = this.#quarantine.changed(record.key);
    if (!this.#quarantine.holds(record.key)) this.#changes.mark(record, cause, service);
    else if (isSooner) this.#requests.wake();
  }

  /** Acts on what `changed` said, and on a change of the environment. */
  wake(): void {
    if (this.#hasWork) this.#requests.request();
  }

  /**
   * `setDesired` has been called for everything that is desired. Before this call packets notice nothing: the
   * kernel is read, and where no rules are in force yet, rules are written without hooks.
   */
  listed(): void {
    if (this.#phase === 'reading') this.#phase = 'live';
    if (this.#phase === 'staged') this.#phase = 'hooking';
    // The first sync is due, also where nothing is desired: kube-proxy has it queued at its start.
    this.#requests.report();
    this.#requests.wake();
  }

  /** Runs until `signal` aborts; a batch that is in flight then is waited for. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const stop = (): void => {
      this.#phase = 'stopping';
      this.#applier.stop();
      this.#requests.wake();
    };
    signal.addEventListener('abort', stop, { once: true });
    await this.#readAhead();
    while (this.#phase === 'staged') await this.#step();
    if (this.#phase === 'hooking') await this.#hook();
    if (this.#isDue) this.#requests.request();
    while (!this.#isStopping) await this.#step();
    this.#requests.stop();
    this.#audit.end();
  }

  async #readAhead(): Promise<void> {
    const ahead = await this.#snapshots.begin();
    if (this.#phase === 'reading') this.#takeHook = ahead?.stage();
    if (this.#takeHook !== undefined) {
      this.#phase = 'staged';
      this.#reports.hold();
    }
    while (this.#phase === 'reading') await this.#requests.wait();
  }

  /** Hooks what was staged. What comes later is a normal change: waiting for it might never end. */
  async #hook(): Promise<void> {
    for (let i = 0; this.#recovery.dueAtMs === undefined && i < stagedSyncsMax; i += 1) {
      const failure = await this.#sync();
      // What a refused batch has lost is planned again, without what the kernel refuses.
      const isDone = failure === undefined && !this.#changes.isCut;
      if (isDone || this.#isStopping) break;
    }
    while (this.#recovery.dueAtMs !== undefined && !this.#isStopping) await this.#step();
    if (this.#isStopping) return;
    const startedMs = this.#parts.clock.now();
    const batch = this.#takeHook?.();
    const failure = batch && (await this.#applier.apply(batch, 'start'));
    if (this.#isStopping) return;
    this.#phase = 'live';
    this.#audit.hooked();
    this.#reports.release();
    await this.#finished('start', startedMs, failure);
  }

  /** Does the most urgent thing that is due, or waits for one. */
  async #step(): Promise<void> {
    const now = this.#parts.clock.now();
    // An audit may take long, and may be under way whenever a lease is due.
    if (this.#isInStep) this.#inStepAtMs = now;
    const recoverAtMs = this.#recovery.dueAtMs;
    if (recoverAtMs !== undefined) {
      if (now >= recoverAtMs) return this.#recover();
      return this.#requests.wait(recoverAtMs);
    }
    if (this.#quarantine.takeLeft(this.desired)) return this.#recover();
    for (const key of this.#quarantine.due()) this.#changes.mark(this.track(key), undefined);
    const syncMs = this.#hasWork ? this.#changes.notBeforeMs : undefined;
    const housekeepingMs = this.#housekeeping.nextMs();
    const auditMs = this.#audit.nextMs();
    if (this.#housekeeping.starved) return this.#keepHouse();
    if (isDue(syncMs, now)) return void (await this.#sync());
    if (isDue(housekeepingMs, now)) return this.#keepHouse();
    if (isDue(auditMs, now)) return this.#auditStep();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const ms of [syncMs, housekeepingMs, auditMs, this.#quarantine.nextMs()]) {
      if (ms !== undefined && ms > now) nextMs = Math.min(nextMs, ms);
    }
    return this.#requests.wait(nextMs);
  }

  async #keepHouse(): Promise<void> {
    const isSweepDue = this.#parts.planner.takeSweep !== undefined;
    await this.#housekeeping.run();
    if (isSweepDue && !this.#isStopping) this.#notifySettled();
  }

  async #auditStep(): Promise<void> {
    const failure = await this.#audit.step().catch(unknownFailure);
    if (failure !== undefined) await this.#failed(failure, 'audit');
  }

  /** The normal sync: what changed, and nothing else. Resolves to the failure that ended it. */
  async #sync(): Promise<Failure | undefined> {
    const startedMs = this.#begin();
    this.#changes.begin(this.#isUnhooked);
    await this.#parts.planner.changeEnvironment(this.#environment(), this.#pause());
    const failure = await this.#applier.drain(this.#changes.due(), this.#changes, 'changes');
    if (this.#handover.takeYielded()) this.#audit.suspect();
    await this.#finished('changes', startedMs, failure);
    return failure;
  }

  /**
   * Reads what the kernel holds, keeps its order of pools, and writes the difference. It is done
   * at the start, and after each failure whose extent is not known. Changes wait until then.
   */
  async #recover(): Promise<void> {
    const startedMs = this.#begin();
    const { purpose } = this.#recovery;
    const dirty = this.#changes.dirty.takeAll();
    this.#recovery.begin();
    this.#tracked.beginRepair();
    this.#applier.forget();
    const failure = await this.#repair(purpose).catch(unknownFailure);
    this.#damage.spent(startedMs);
    if (failure === undefined && !this.#isStopping) {
      this.#publishDeleted();
      this.#damage.repaired();
      this.#recovery.succeeded();
    }
    for (const record of dirty) {
      if (failure !== undefined) this.#changes.mark(record, undefined);
      else if (!record.isDirty) record.cause = undefined;
    }
    await this.#finished(purpose, startedMs, failure);
  }

  /** Publishes what a repair has deleted. */
  #publishDeleted(): void {
    for (const record of this.#tracked.values()) {
      const previous = this.#tracked.endRepair(record);
      const change = { record, previous, next: undefined, cause: undefined };
      if (previous !== undefined) this.#applied(change);
      else this.#dropUnused(record);
    }
  }

  async #repair(purpose: Purpose): Promise<Failure | undefined> {
    this.#audit.reading();
    const found = await this.#snapshots.take();
    const writers = await this.#audit.writers();
    this.#audit.verified(found.generation);
    if (this.#isStopping) return undefined;
    const { newPacer, observer, planner } = this.#parts;
    const targets = targetsOf(this.#tracked, this.#quarantine);
    const refused = Array.from(this.#quarantine, ({ key }) => this.track(key));
    await yieldRefused(targets, refused, this.#pause());
    await adoptAll(newPacer(), found, targets);
    await planner.changeEnvironment(this.#environment(), this.#pause());
    this.#leave(found, targets);
    const pause = this.#pause();
    const [applier, tracked] = [this.#applier, this.#tracked];
    const { drift, failure } = await repairAll(applier, tracked, found, targets, purpose, pause);
    const { family } = this;
    const by = this.#damage.takeCommitter();
    if (!isDrift(drift)) return failure;
    // It is what a refused batch has left undone: no change of what was in force.
    const isRest = purpose === 'recovery' && writers === 'only us';
    if (isRest) observer({ kind: 'completed', family, drift });
    else observer({ kind: 'drift', family, purpose, drift, writers, by });
    return failure;
  }

  /** The repair writes nothing of what the kernel refused in each form. */
  #leave(found: KernelState, targets: Map<Tracked, Forwarding>): void {
    for (const { isLeft, key } of this.#quarantine) {
      const target = targets.get(this.track(key));
      if (!isLeft || target === undefined || found.leave(target)) continue;
      targets.delete(this.track(key));
      this.#quarantine.gone(key);
    }
  }

  /** Returns `Clock.now`. */
  #begin(): number {
    for (const follower of this.#followers) follower.moving?.();
    this.#requests.begin();
    this.#spentBeforeMs = this.#applier.spentMs;
    return this.#parts.clock.now();
  }

  #pause() {
    return this.#parts.newPacer().pause;
  }

  async #finished(
    purpose: Purpose,
    startedMs: number,
    failure: Failure | undefined,
  ): Promise<void> {
    if (this.#isStopping) return;
    const { clock, observer, planner, settings } = this.#parts;
    const now = clock.now();
    const ok = failure === undefined;
    const workMs = this.#applier.spentMs - this.#spentBeforeMs;
    if (purpose === 'changes' && !this.#isUnhooked) this.#changes.spent(workMs, startedMs);
    const isContained = ok || (await this.#failed(failure, purpose));
    if (ok) {
      const restMs = this.#changes.isCut ? 0 : settings.minSyncPeriodMs;
      this.#changes.rest(this.#isUnhooked ? startedMs + stagedPeriodMs : now + restMs);
    }
    this.#notifySettled();
    const { refused, rules } = planner.takeReport();
    this.#reports.reportRefused(refused);
    const durationMs = now - startedMs;
    const healthy = isContained && !isMostlyRefused(this.#quarantine.size, this.desired.size);
    this.#isHealthy = healthy;
    if (healthy) this.#inStepAtMs = now;
    const { family } = this;
    observer({ kind: 'done', family, purpose, ok, healthy, durationMs, workMs, rules });
    this.#requests.end(this.#isDue);
  }

  /**
   * Notifies followers that they know all that is in force, also after a refused batch, and after
   * each sweep.
   */
  #notifySettled(): void {
    const { planner } = this.#parts;
    if (this.#recovery.dueAtMs !== undefined || this.#isUnhooked) return;
    for (const follower of this.#followers) {
      follower.settled?.(planner.environment, () => planner.unswept);
    }
  }

  #applied({ record, previous, next, cause }: AppliedChange): void {
    for (const follower of this.#followers) follower.changed?.(previous, next, cause);
    if (next === undefined) this.#dropUnused(record);
    const restored = this.#quarantine.committed(record.key, next, record.desired);
    if (restored === undefined) return;
    this.#tracked.setStatus(record, next === undefined ? 'waiting' : 'in force');
    if (next === undefined) return;
    const { attempts, forwarding } = restored;
    const { servicePort } = forwarding;
    const { observer } = this.#parts;
    observer({ kind: 'restored', family: this.family, servicePort, attempts });
  }

  #dropUnused(record: Tracked): void {
    if (!record.isDirty) this.#tracked.drop(record);
  }

  /**
   * Makes all that is not in force dirty again, except the culprits. Resolves to whether all but
   * what is in quarantine is in force, or will be with this sync.
   */
  async #failed(failure: Failure, purpose: Purpose): Promise<boolean> {
    const { observer, planner } = this.#parts;
    for (const { record, cause } of failure.lost) {
      this.#tracked.takeBack(record);
      if (!this.#quarantine.holds(record.key)) this.#changes.mark(record, cause);
    }
    this.#audit.cancel();
    const { culprits, failures, lost, partly } = failure;
    const disbelieved = failures.some(contradictsBelief);
    const isMoved = disbelieved && (await this.#audit.writers()) === 'others';
    const tried = new Map(lost.map(({ record, next }) => [record, next]));
    for (const key of culprits) {
      const isToBlame = !disbelieved || this.#quarantine.contradicted(key, isMoved);
      if (isToBlame) this.#isolate(this.track(key), tried, failures[0]!, purpose);
    }
    const { compares, repairs } = afterFailure({
      isSync: purpose === 'changes',
      isPartly: partly,
      isContained: culprits.length > 0 && culprits.every((key) => this.#quarantine.get(key)),
      isContradiction: disbelieved,
      isMoved,
      isHeld: failures.some((one) => one.isHeld),
    });
    if (compares) this.#audit.request(0);
    const retryMs = repairs && this.#recovery.failed(repairs, this.#damage.repairAtMs);
    const contained = repairs === undefined;
    if (contained) await planner.resume(this.inForce.values(), this.#pause());
    observer({ kind: 'failed', family: this.family, purpose, failures, retryMs, isMoved });
    if (!contained || this.#hasWork) this.#requests.request();
    return contained;
  }

  #isolate(
    record: Tracked,
    lost: ReadonlyMap<Tracked, Forwarding | undefined>,
    failure: KernelFailure,
    purpose: Purpose,
  ): void {
    const { key } = record;
    const earlier = this.#quarantine.get(key);
    const inForce = record.before ?? record.inForce;
    const tried = lost.get(record) ?? record.desired ?? inForce;
    this.#changes.dirty.delete(record);
    if (tried === undefined) return;
    // A repair tries what is desired first, then what was in force, then to leave what there is.
    const isLeft =
      purpose !== 'changes' && (inForce === undefined || earlier?.inForce !== undefined);
    const rest = { isLeft, inForce: inForce ?? (isLeft ? tried : undefined) };
    const quarantined = this.#quarantine.add(key, tried, failure, rest);
    this.#tracked.setStatus(record, 'set aside');
    const retryMs = quarantined.retryAtMs - quarantined.failedAtMs;
    this.#parts.observer({ kind: 'quarantined', family: this.family, quarantined, retryMs });
  }
}

/** Fewer refused Service ports say nothing about the node. */
const refusedMin = 10;

/**
 * Whether the kernel refuses everything or more than half, so that the node, not the Services, is
 * to blame. What a Service asks for is checked before, so no user can make the kernel refuse
 * it; ports that mode userspace cannot serve are few.
 */
export function isMostlyRefused(refused: number, desired: number): boolean {
  if (refused === 0) return false;
  return refused >= desired || (refused >= refusedMin && 2 * refused > desired);
}
