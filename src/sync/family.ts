/** Brings one family of the kernel to what is wanted, and keeps it there. */
import type { Kernel } from '../kernel/kernel.ts';
import type { Environment, Planner } from '../modes/mode.ts';
import type { Family } from '../state/address.ts';
import { inOrderOf } from '../state/pool.ts';
import type { Forwarding } from '../state/types.ts';
import { Audit } from './audit.ts';
import {
  Applier,
  type ApplierOptions,
  type Cause,
  type Change,
  contradictsBelief,
  type Failure,
  mergedCause,
  unknownFailure,
} from './batch.ts';
import { Chores } from './chores.ts';
import { Bell, type Clock, isDue, Pacer } from './clock.ts';
import { isDrift, type Observer, type Purpose } from './events.ts';
import type { ForwardingFollower } from './follower.ts';
import { adoptAll, type RepairOptions, repairAll } from './recovery.ts';
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

type Causes = Map<string, Cause | undefined>;

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
  readonly #bell: Bell;
  readonly #wanted = new Map<string, Forwarding>();
  /** Keys whose Forwarding changed since they were last planned. */
  #dirty: Causes = new Map();
  /** The part of the normal sync under way that is not planned yet. */
  #todo: Causes = new Map();
  /** During a recovery: what was in force before it, for what fails in its new form. */
  #before: ReadonlyMap<string, Forwarding> = new Map();
  #environment: Environment;
  /** What the planner was told last, and what is known to be in force. */
  #plannedEnvironment: Environment;
  #environmentInForce = true;
  #started = false;
  #stopping = false;
  /** `Clock.now` when the kernel is to be read and repaired; undefined = it is as we believe. */
  #recoverAtMs: number | undefined = Number.NEGATIVE_INFINITY;
  #nextSyncMs = Number.NEGATIVE_INFINITY;
  #queued = false;
  #waiting = false;

  constructor(options: FamilySyncOptions) {
    const { planner, clock, settings } = options;
    this.#options = options;
    this.#planner = planner;
    this.family = planner.family;
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
    this.#audit = new Audit({ ...shared, ...settings.audit });
    this.#chores = new Chores(shared);
    this.#snapshots = new Snapshots(shared);
    this.#repairOptions = shared;
  }

  /** What is wanted; a pool keeps the order that it has in the kernel. */
  get wanted(): ReadonlyMap<string, Forwarding> {
    return this.#wanted;
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
    const { sweepDue } = this.#planner;
    return this.#waiting && this.#recoverAtMs === undefined && !this.#hasWork && !sweepDue;
  }

  /** Changes what is wanted; undefined = no longer. It marks, nothing more, until `wake`. */
  want(key: string, next: Forwarding | undefined, cause: Cause): void {
    if (next === undefined) this.#wanted.delete(key);
    else this.#wanted.set(key, next);
    this.#aside.changed(key);
    if (!this.#aside.holds(key)) this.#mark(key, cause);
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

  /** Begins to read the kernel for the start, beside what else is done before `run`. */
  readAhead(): void {
    this.#snapshots.begin();
  }

  /** Runs until `signal` aborts; a batch that is in flight then is waited for. */
  async run(signal: AbortSignal): Promise<void> {
    const stop = (): void => {
      this.#stopping = true;
      this.#applier.stop();
      this.#bell.ring();
    };
    if (signal.aborted) return;
    signal.addEventListener('abort', stop, { once: true });
    this.#request();
    while (!this.#stopping) await this.#step();
  }

  /** Does the most urgent thing that is due, or waits for one. */
  async #step(): Promise<void> {
    const now = this.#options.clock.now();
    if (this.#recoverAtMs !== undefined) {
      if (now >= this.#recoverAtMs) return this.#recover();
      return this.#wait(this.#recoverAtMs - now);
    }
    for (const key of this.#aside.due()) this.#mark(key, undefined);
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
    return this.#dirty.size > 0 || this.#environment !== this.#plannedEnvironment;
  }

  /** The normal sync: what changed, and nothing else. */
  async #sync(): Promise<void> {
    const startedMs = this.#options.clock.now();
    this.#options.follower?.moving();
    this.#todo = this.#dirty;
    this.#dirty = new Map();
    this.#queued = false;
    this.#planEnvironment();
    const plan = (key: string): void => {
      const cause = this.#todo.get(key);
      this.#todo.delete(key);
      const previous = this.#applier.expected(key);
      const resolved = this.#wanted.get(key);
      const next = resolved && inOrderOf(previous, resolved);
      if (next !== undefined) this.#wanted.set(key, next);
      if (previous !== next) this.#planner.change(previous, next);
      this.#applier.note(key, { next, cause });
    };
    const failure = await this.#applier.drain(this.#todo.keys(), plan, 'changes');
    await this.#finished('changes', startedMs, failure);
  }

  #planEnvironment(): void {
    if (this.#environment === this.#plannedEnvironment) return;
    this.#plannedEnvironment = this.#environment;
    this.#environmentInForce = false;
    this.#planner.environment(this.#environment);
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
    const causes = this.#dirty;
    this.#dirty = new Map();
    if (this.#before.size === 0) this.#before = this.#applier.applied;
    this.#applier.forget();
    const failure = await this.#repair(causes, purpose).catch(unknownFailure);
    if (failure === undefined && !this.#stopping) {
      this.#tellPruned();
      this.#before = new Map();
      this.#started = true;
    }
    if (failure !== undefined) for (const [key, cause] of causes) this.#mark(key, cause);
    await this.#finished(purpose, startedMs, failure);
  }

  async #repair(causes: Causes, purpose: Purpose): Promise<Failure | undefined> {
    const { found, readAt } = await this.#snapshots.take();
    this.#audit.verified(readAt);
    if (this.#stopping) return undefined;
    const targets = this.#targets();
    const adopted = await adoptAll(this.#repairOptions, found, targets, (key, forwarding) => {
      if (this.#wanted.get(key) === targets.get(key)) this.#wanted.set(key, forwarding);
    });
    this.#planEnvironment();
    const options = this.#repairOptions;
    const { drift, failure } = await repairAll(options, found, adopted, causes, purpose);
    if (isDrift(drift)) {
      this.#options.observer({ kind: 'drift', family: this.family, purpose, drift });
    }
    return failure;
  }

  /** What a recovery has deleted, being wanted no more, was no change of any batch. */
  #tellPruned(): void {
    for (const [key, forwarding] of this.#before) {
      if (!this.#applier.applied.has(key)) this.#options.follower?.changed(forwarding, undefined);
    }
  }

  /** What a recovery is to bring into force: what is wanted, or what last worked of it. */
  #targets(): Map<string, Forwarding> {
    const targets = new Map(this.#wanted);
    for (const { key, inForce } of this.#aside.values()) {
      if (inForce === undefined) targets.delete(key);
      else targets.set(key, inForce);
    }
    return targets;
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
    if (ok) {
      this.#environmentInForce = true;
      this.#nextSyncMs = now + settings.minSyncPeriodMs;
    } else {
      await this.#failed(failure, purpose);
    }
    this.#tellSettled();
    for (const refused of this.#planner.takeRefused?.() ?? [])
      observer({ kind: 'address-refused', family: this.family, ...refused });
    const durationMs = now - startedMs;
    const rules = this.#planner.takeRuleCounts?.() ?? [];
    observer({ kind: 'done', family: this.family, purpose, ok, durationMs, rules });
    if (this.#queued) observer({ kind: 'queued', family: this.family });
  }

  /**
   * Also after a failure that is contained: what was refused is not in force, and nothing of it.
   * But not while packets may still go where a sweep is due: the connection that one of them makes
   * would come too late to be judged.
   */
  #tellSettled(): void {
    if (this.#recoverAtMs !== undefined || this.#planner.sweepDue) return;
    this.#options.follower?.settled(this.#plannedEnvironment.nodePortAddresses);
  }

  #committed(key: string, change: Change, previous: Forwarding | undefined): void {
    this.#options.follower?.changed(previous ?? this.#before.get(key), change.next);
    const aside = this.#aside.get(key);
    if (aside === undefined || change.next !== this.#wanted.get(key)) return;
    this.#aside.clear(key);
    if (change.next === undefined) return;
    const { servicePort } = change.next;
    const { attempts } = aside;
    this.#options.observer({ kind: 'restored', family: this.family, servicePort, attempts });
  }

  /** Everything that is not in force is to be done again, except what is to blame. */
  async #failed(failure: Failure, purpose: Purpose): Promise<void> {
    const { clock, observer, settings } = this.#options;
    for (const [key, { cause }] of failure.lost) this.#mark(key, cause);
    for (const [key, cause] of this.#todo) this.#dirty.set(key, cause);
    this.#todo = new Map();
    this.#audit.cancel();
    const { culprits, failures, partly } = failure;
    const disbelieved = purpose === 'changes' && failures.some(contradictsBelief);
    if (!disbelieved) for (const key of culprits) this.#setAside(key, failure, purpose);
    const clear = purpose === 'changes' && !disbelieved && !partly;
    const contained = clear && culprits.length > 0 && this.#environmentInForce;
    const retryMs = contained ? undefined : this.#recoveryBackoff.failed();
    const { pause } = new Pacer(clock, settings.sliceMs);
    if (retryMs !== undefined) this.#recoverAtMs = clock.now() + retryMs;
    else await this.#planner.reset(this.#applier.applied.values(), pause);
    observer({ kind: 'failed', family: this.family, purpose, failures, retryMs });
    this.#request();
  }

  #setAside(key: string, failure: Failure, purpose: Purpose): void {
    const earlier = this.#aside.get(key);
    const inForce = this.#before.get(key) ?? this.#applier.applied.get(key);
    // A repair tries what is wanted first, then what was in force, then nothing.
    const fallback = purpose !== 'changes' && earlier?.inForce !== undefined ? undefined : inForce;
    const tried = failure.lost.get(key)?.next ?? this.#wanted.get(key) ?? inForce;
    this.#dirty.delete(key);
    if (tried === undefined) return;
    const aside = this.#aside.add(key, tried, failure.failures[0]!, fallback);
    const retryMs = aside.retryAtMs - aside.failedAtMs;
    this.#options.observer({ kind: 'set-aside', family: this.family, aside, retryMs });
  }

  async #auditStep(): Promise<void> {
    const step = await this.#audit
      .step(() => this.#bell.ring())
      .catch((error: Error) => ({
        kind: 'failed' as const,
        failure: unknownFailure(error),
      }));
    if (step.kind === 'failed') await this.#failed(step.failure, 'audit');
    if (step.kind !== 'compared') return;
    const { drift, durationMs } = step;
    const { observer } = this.#options;
    if (isDrift(drift)) observer({ kind: 'drift', family: this.family, purpose: 'audit', drift });
    observer({ kind: 'audited', family: this.family, durationMs });
  }

  #mark(key: string, cause: Cause | undefined): void {
    const marked = this.#todo.has(key) ? this.#todo : this.#dirty;
    const earlier = marked.get(key);
    marked.set(key, earlier && cause ? mergedCause(earlier, cause) : (earlier ?? cause));
  }

  #request(): void {
    if (!this.#queued) {
      this.#queued = true;
      this.#options.observer({ kind: 'queued', family: this.family });
    }
    this.#bell.ring();
  }
}
