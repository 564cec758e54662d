/** Brings one family of the kernel to what is wanted, and keeps it there. */
import type { Kernel } from '../kernel/kernel.ts';
import type { Environment, Planner } from '../modes/mode.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { Audit } from './audit.ts';
import {
  Applier,
  type ApplierOptions,
  type Change,
  contradictsBelief,
  type Failure,
  unknownFailure,
} from './batch.ts';
import type { Cause, Causes } from './cause.ts';
import { Changes } from './changes.ts';
import { Chores } from './chores.ts';
import { Bell, type Clock, isDue, Pacer } from './clock.ts';
import { isDrift, type Observer, type Purpose } from './events.ts';
import type { ForwardingFollower } from './follower.ts';
import { adoptAll, type RepairOptions, repairAll, targetsOf, tellPruned } from './recovery.ts';
import { Reports } from './reports.ts';
import { type Aside, Backoff, SetAside } from './retry.ts';
import type { Ruleset } from './ruleset.ts';
import type { SyncSettings } from './settings.ts';
import { Snapshots } from './snapshots.ts';

export interface FamilySyncOptions {
  readonly planner: Planner;
  readonly environment: Environment;
  /** Writes. */
  readonly kernel: Kernel;
  /** Reads; may be the same, but a dump then holds up what is written. */
  readonly reader: Kernel;
  readonly clock: Clock;
  /** Shared by all families of one network namespace. */
  readonly ruleset: Ruleset;
  readonly observer: Observer;
  readonly settings: SyncSettings;
  readonly follower?: ForwardingFollower;
}

/** From sync to sync while lists stream in: few large batches cost least, and nobody waits yet. */
const aheadPeriodMs = 250;

/** Syncs that a first load may take after its lists are complete. */
const aheadSyncsMax = 30;

export class FamilySync {
  readonly family: Family;
  readonly #options: FamilySyncOptions;
  readonly #planner: Planner;
  readonly #applier: Applier;
  readonly #audit: Audit;
  readonly #aside: SetAside;
  readonly #recoveryBackoff: Backoff;
  readonly #chores: Chores;
  readonly #repairOptions: RepairOptions;
  readonly #snapshots: Snapshots;
  readonly #reports: Reports;
  readonly #bell: Bell;
  readonly #changes: Changes;
  /** During a recovery: what was in force before it, for what fails in its new form. */
  #before: ReadonlyMap<string, Forwarding> = new Map();
  #environment: Environment;
  /** What the planner was told last, and what is known to be in force. */
  #plannedEnvironment: Environment;
  #environmentInForce = true;
  /** All is wanted that is to be; before that it only grows. */
  #isListed = false;
  /** No packet meets what is written. */
  #isConcealed = false;
  #started = false;
  #stopping = false;
  /** `Clock.now` when the kernel is to be read and repaired; undefined = it is as we believe. */
  #recoverAtMs: number | undefined = Number.NEGATIVE_INFINITY;
  #nextSyncMs = Number.NEGATIVE_INFINITY;
  #queued = false;
  #waiting = false;

  constructor(given: FamilySyncOptions) {
    const { planner, clock, settings } = given;
    this.family = planner.family;
    this.#reports = new Reports({ ...given, family: this.family });
    const options = { ...given, observer: this.#reports.tell };
    this.#options = options;
    this.#planner = planner;
    this.#environment = options.environment;
    this.#plannedEnvironment = options.environment;
    this.#bell = new Bell(clock);
    this.#aside = new SetAside(settings.asideBackoff, clock);
    this.#recoveryBackoff = new Backoff(settings.recoveryBackoff, clock);
    const committed: ApplierOptions['committed'] = (...change) => this.#committed(...change);
    const suspected = (key: string): boolean => this.#aside.get(key) !== undefined;
    const applier = new Applier({ ...options, ...settings, committed, suspected });
    const shared = { ...options, sliceMs: settings.sliceMs, applier };
    this.#applier = applier;
    this.#changes = new Changes(shared);
    this.#audit = new Audit({ ...shared, ...settings.audit, ring: () => this.#bell.ring() });
    this.#chores = new Chores(shared);
    this.#snapshots = new Snapshots(shared);
    this.#repairOptions = shared;
  }

  /** What is wanted; a pool keeps the order that it has in the kernel. */
  get wanted(): ReadonlyMap<string, Forwarding> {
    return this.#changes.wanted;
  }

  /** What the kernel has acknowledged. */
  get applied(): ReadonlyMap<string, Forwarding> {
    return this.#applier.applied;
  }

  /** What the kernel refuses at present. */
  get aside(): Iterable<Aside> {
    return this.#aside.values();
  }

  /**
   * All that was wanted is in force or set aside, and nothing waits that packets could notice:
   * what is left to do is cleaning up and looking after.
   */
  get settled(): boolean {
    const isDue = this.#recoverAtMs !== undefined || this.#hasWork || this.#planner.sweepDue;
    return this.#isListed && this.#waiting && !isDue;
  }

  /** Changes what is wanted; undefined = no longer. It marks, nothing more, until `wake`. */
  want(key: string, next: Forwarding | undefined, cause: Cause): void {
    this.#changes.want(key, next);
    this.#aside.changed(key);
    if (!this.#aside.holds(key)) this.#changes.mark(key, cause);
  }

  /** Changes what applies to all Services; the same object is no change. */
  wantEnvironment(next: Environment): void {
    this.#environment = next;
  }

  /** Acts on what `want` and `wantEnvironment` said. */
  wake(): void {
    if (this.#hasWork) this.#request();
  }

  /** Asks for an audit soon: `audited` tells that it is over, `drift` before that what it found. */
  verify(): void {
    this.#audit.request(0);
    this.#bell.ring();
  }

  /**
   * `want` has told all there is; from now on come changes. Until then packets notice nothing, but
   * the kernel is read, and rules that packets do not meet are written where there are none yet.
   */
  listed(): void {
    this.#isListed = true;
    this.#bell.ring();
  }

  /** Runs until `signal` aborts; a batch that is in flight then is waited for. */
  async run(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const stop = (): void => {
      this.#stopping = true;
      this.#applier.stop();
      this.#bell.ring();
    };
    signal.addEventListener('abort', stop, { once: true });
    await this.#runAhead();
    if (this.#recoverAtMs !== undefined || this.#hasWork) this.#request();
    while (!this.#stopping) await this.#step();
    this.#audit.end();
  }

  /** Until all is listed, and what was written ahead of that is in force. */
  async #runAhead(): Promise<void> {
    const ahead = await this.#snapshots.begin();
    if (!this.#isListed && ahead !== undefined && this.#planner.conceal?.(ahead.found) === true) {
      this.#isConcealed = true;
      this.#reports.hold();
    }
    while (!this.#isListed && !this.#stopping) {
      await (this.#isConcealed ? this.#step() : this.#wait(undefined));
    }
    if (!this.#isConcealed) return;
    // What is wanted after this is a change like any other. Under endless churn there is no end.
    for (let i = 0; this.#recoverAtMs === undefined && i < aheadSyncsMax; i += 1) {
      await this.#sync();
      if (!this.#changes.isCut || this.#stopping) break;
    }
    while (this.#recoverAtMs !== undefined && !this.#stopping) await this.#step();
    if (!this.#stopping) await this.#reveal();
  }

  async #reveal(): Promise<void> {
    const startedMs = this.#options.clock.now();
    this.#planner.reveal?.();
    const failure = await this.#applier.finish('start');
    this.#isConcealed = false;
    this.#reports.release();
    await this.#finished('start', startedMs, failure);
  }

  /** Does the most urgent thing that is due, or waits for one. */
  async #step(): Promise<void> {
    const now = this.#options.clock.now();
    if (this.#recoverAtMs !== undefined) {
      if (now >= this.#recoverAtMs) return this.#recover();
      return this.#wait(this.#recoverAtMs - now);
    }
    for (const key of this.#aside.due()) this.#changes.mark(key, undefined);
    const syncMs = this.#hasWork ? this.#nextSyncMs : undefined;
    const choresMs = this.#chores.nextMs();
    const auditMs = this.#audit.nextMs();
    if (this.#chores.starved) return this.#doChores();
    if (isDue(syncMs, now)) return this.#sync();
    if (isDue(choresMs, now)) return this.#doChores();
    if (isDue(auditMs, now)) return this.#auditStep();
    const times = [syncMs, choresMs, auditMs, this.#aside.nextMs()];
    const nextMs = Math.min(...(times.filter((ms) => ms !== undefined && ms > now) as number[]));
    return this.#wait(Number.isFinite(nextMs) ? nextMs - now : undefined);
  }

  async #doChores(): Promise<void> {
    const { sweepDue } = this.#planner;
    await this.#chores.run();
    if (sweepDue && !this.#stopping) this.#tellSettled();
  }

  async #wait(timeoutMs: number | undefined): Promise<void> {
    this.#waiting = true;
    await this.#bell.wait(timeoutMs);
    this.#waiting = false;
  }

  get #hasWork(): boolean {
    return this.#changes.any || this.#environment !== this.#plannedEnvironment;
  }

  /** The normal sync: what changed, and nothing else. */
  async #sync(): Promise<void> {
    const startedMs = this.#options.clock.now();
    this.#options.follower?.moving();
    this.#queued = false;
    await this.#planEnvironment();
    const { due, plan } = this.#changes;
    const failure = await this.#applier.drain(due(), plan, 'changes');
    if (this.#changes.takeYielded()) this.#audit.suspect();
    await this.#finished('changes', startedMs, failure);
  }

  async #planEnvironment(): Promise<void> {
    if (this.#environment === this.#plannedEnvironment) return;
    this.#plannedEnvironment = this.#environment;
    this.#environmentInForce = false;
    const { clock, settings } = this.#options;
    await this.#planner.environment(this.#environment, new Pacer(clock, settings.sliceMs).pause);
  }

  /**
   * Reads what the kernel holds, takes over its order, and writes the difference. This is the
   * start, and the answer to each failure whose extent is not known. Changes wait meanwhile.
   */
  async #recover(): Promise<void> {
    const startedMs = this.#options.clock.now();
    this.#options.follower?.moving();
    const purpose = this.#started ? 'recovery' : 'start';
    this.#recoverAtMs = undefined;
    this.#queued = false;
    const causes = this.#changes.takeMarks();
    if (this.#before.size === 0) this.#before = this.#applier.applied;
    this.#applier.forget();
    const failure = await this.#repair(causes, purpose).catch(unknownFailure);
    if (failure === undefined && !this.#stopping) {
      tellPruned(this.#options.follower, this.#before, this.applied);
      this.#before = new Map();
      this.#started = true;
    }
    if (failure !== undefined) for (const [key, cause] of causes) this.#changes.mark(key, cause);
    await this.#finished(purpose, startedMs, failure);
  }

  async #repair(causes: Causes, purpose: Purpose): Promise<Failure | undefined> {
    const { found, readAt } = await this.#snapshots.take();
    const writers = await this.#audit.writers();
    this.#audit.verified(readAt);
    if (this.#stopping) return undefined;
    const targets = targetsOf(this.wanted, this.#aside.values());
    const options = this.#repairOptions;
    const { pause } = new Pacer(options.clock, options.sliceMs);
    await this.#changes.startAnew(targets, this.#aside.keys(), pause);
    await adoptAll(options, found, targets, (key, forwarding, adopted) => {
      if (this.wanted.get(key) === forwarding) this.#changes.want(key, adopted);
    });
    await this.#planEnvironment();
    const { drift, failure } = await repairAll(options, found, targets, causes, purpose);
    const { family } = this;
    if (isDrift(drift)) this.#options.observer({ kind: 'drift', family, purpose, drift, writers });
    return failure;
  }

  async #finished(
    purpose: Purpose,
    startedMs: number,
    failure: Failure | undefined,
  ): Promise<void> {
    if (this.#stopping) return;
    const { clock, observer, settings } = this.#options;
    const now = clock.now();
    const ok = failure === undefined;
    const isContained = ok || (await this.#failed(failure, purpose));
    if (ok) {
      this.#environmentInForce = true;
      const aheadMs = startedMs + aheadPeriodMs;
      const restMs = this.#changes.isCut ? 0 : settings.minSyncPeriodMs;
      this.#nextSyncMs = this.#isConcealed ? aheadMs : now + restMs;
    }
    this.#tellSettled();
    for (const refused of this.#planner.takeRefused?.() ?? [])
      observer({ kind: 'address-refused', family: this.family, ...refused });
    const durationMs = now - startedMs;
    const rules = this.#planner.takeRuleCounts?.() ?? [];
    const well = isContained && (this.#aside.size === 0 || this.#aside.size < this.wanted.size);
    observer({ kind: 'done', family: this.family, purpose, ok, well, durationMs, rules });
    if (this.#queued) observer({ kind: 'queued', family: this.family });
  }

  /**
   * Also after a failure that is contained: what was refused is not in force, and nothing of it.
   * But not while packets may still go where a sweep is due: the connection that one of them makes
   * would come too late to be judged.
   */
  #tellSettled(): void {
    if (this.#recoverAtMs !== undefined || this.#planner.sweepDue || this.#isConcealed) return;
    this.#options.follower?.settled(this.#plannedEnvironment.nodePortAddresses);
  }

  #committed(key: string, change: Change, previous: Forwarding | undefined): void {
    this.#options.follower?.changed(previous ?? this.#before.get(key), change.next);
    const aside = this.#aside.committed(key, change.next, this.wanted.get(key));
    if (aside === undefined || change.next === undefined) return;
    const { attempts, forwarding } = aside;
    const { servicePort } = forwarding;
    this.#options.observer({ kind: 'restored', family: this.family, servicePort, attempts });
  }

  /** Everything that is not in force is to be done again, except what is to blame. */
  /** Whether all is in force but what is set aside, or will be at once. */
  async #failed(failure: Failure, purpose: Purpose): Promise<boolean> {
    const { clock, observer, settings } = this.#options;
    this.#changes.takeBack(failure.lost);
    for (const [key, { cause }] of failure.lost) {
      if (!this.#aside.holds(key)) this.#changes.mark(key, cause);
    }
    this.#audit.cancel();
    const { culprits, failures, partly } = failure;
    const disbelieved = purpose === 'changes' && failures.some(contradictsBelief);
    for (const key of culprits) {
      if (!disbelieved || this.#aside.contradicted(key)) this.#setAside(key, failure, purpose);
    }
    const isKnown = purpose === 'changes' && !partly && this.#environmentInForce;
    const isAside = culprits.length > 0 && culprits.every((key) => this.#aside.get(key));
    const contained = isKnown && isAside;
    // Others need not wait until the kernel has been read for the sake of what is set aside.
    if (contained && disbelieved) this.#audit.request(0);
    const retryMs = contained ? undefined : this.#recoveryBackoff.failed(failures);
    if (retryMs !== undefined) this.#recoverAtMs = clock.now() + retryMs;
    else await this.#planner.reset(this.applied.values(), new Pacer(clock, settings.sliceMs).pause);
    observer({ kind: 'failed', family: this.family, purpose, failures, retryMs });
    if (!contained || this.#hasWork) this.#request();
    return contained;
  }

  #setAside(key: string, failure: Failure, purpose: Purpose): void {
    const earlier = this.#aside.get(key);
    const inForce = this.#before.get(key) ?? this.#applier.applied.get(key);
    // A repair tries what is wanted first, then what was in force, then nothing.
    const fallback = purpose !== 'changes' && earlier?.inForce !== undefined ? undefined : inForce;
    const tried = failure.lost.get(key)?.next ?? this.wanted.get(key) ?? inForce;
    this.#changes.unmark(key);
    if (tried === undefined) return;
    const aside = this.#aside.add(key, tried, failure.failures[0]!, fallback);
    const retryMs = aside.retryAtMs - aside.failedAtMs;
    this.#options.observer({ kind: 'set-aside', family: this.family, aside, retryMs });
  }

  async #auditStep(): Promise<void> {
    const failure = await this.#audit.step().catch(unknownFailure);
    if (failure !== undefined) await this.#failed(failure, 'audit');
  }

  #request(): void {
    if (!this.#queued && this.#isListed) {
      this.#queued = true;
      this.#options.observer({ kind: 'queued', family: this.family });
    }
    this.#bell.ring();
  }
}
