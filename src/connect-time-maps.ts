/**
 * Keeps the maps of connect-time translation for one family. They follow the rules: a change is
 * made to them when the kernel has acknowledged the rules of the same change, by batches of their
 * own. The rules are complete, so what the maps lack costs the speed of connections and no more.
 *
 * The order is that of one common batch, which had the rules first: the rules lead nobody to an
 * endpoint that has gone, then the maps do not. In between are the acknowledgement and a turn of
 * the event loop. Batches of maps have a thread of their own, so they do not wait for the next
 * batch of the rules. If the maps do not follow, the lease of the programs ends.
 */
import { ConnectTimeLease } from './connect-time-lease.ts';
import type { Kernel, KernelFailure } from './kernel/kernel.ts';
import { Admission } from './modes/connect-time/admission.ts';
import { ConnectTimeBackend } from './modes/connect-time/backend.ts';
import type { MapUse, MapView } from './modes/connect-time/facts.ts';
import type { Placement } from './modes/connect-time/placement.ts';
import type { PoolId } from './modes/connect-time/pool-ids.ts';
import type { Environment, ModeConfig, Planner } from './modes/mode.ts';
import { ModePlanner } from './modes/planner.ts';
import type { Family } from './net/address.ts';
import type { Forwarding } from './state/types.ts';
import type { Clock } from './sync/clock.ts';
import { type Comparison, compare } from './sync/comparison.ts';
import type { MapEvent, Observer, SyncEvent } from './sync/events.ts';
import { FamilySync } from './sync/family.ts';
import { Ruleset } from './sync/ruleset.ts';
import type { SyncSettings } from './sync/settings.ts';

export interface ConnectTimeMapsOptions {
  readonly config: ModeConfig;
  readonly placement: Placement;
  readonly environment: Environment;
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly observer: Observer;
  readonly settings: SyncSettings;
  /** See `FamilySync.inStepAtMs`, of the rules. */
  readonly rulesInStepAtMs: () => number | undefined;
  /** Default: that of the placement. */
  readonly poolId?: PoolId;
}

/** At an end, maps may take so long to follow the last change of the rules. */
const lastMaxMs = 1000;
/** Syncs that this may take: one that is under way, and one for what came later. */
const lastSyncs = 2;

/** What the kernel answers when it has no room or no memory. */
const fullCodes: ReadonlySet<string> = new Set(['E2BIG', 'ENOMEM', 'ENOSPC']);

export class ConnectTimeMaps implements MapView {
  readonly family: Family;
  readonly #options: ConnectTimeMapsOptions;
  readonly #planner: Planner;
  readonly #sync: FamilySync;
  readonly #admission: Admission;
  readonly #lease: ConnectTimeLease;
  readonly #abort = new AbortController();
  #environment: Environment;
  #isListed = false;
  /** Is called when a sync is over. */
  #ended: () => void = () => {};

  constructor(options: ConnectTimeMapsOptions) {
    const { clock, config, environment, kernel, placement, settings } = options;
    this.#options = options;
    this.#environment = environment;
    this.family = config.family;
    const backend = new ConnectTimeBackend(config, placement, options.poolId);
    this.#planner = new ModePlanner(backend, environment);
    this.#sync = new FamilySync({
      ...{ planner: this.#planner, environment, kernel, reader: kernel, clock, settings },
      // Maps are in no ruleset, and syncs of rules need not wait for a reading of them.
      ruleset: new Ruleset(),
      observer: (event) => this.#observe(event),
      follower: { moving: () => {}, changed: () => {}, upToDate: () => this.#settled() },
    });
    this.#admission = new Admission({
      room: placement.room,
      setting: { config, reach: placement.reach },
      poolId: backend.poolId,
      desire: (key, next) => this.#sync.setDesired(key, next, undefined),
    });
    this.#lease = new ConnectTimeLease({
      ...{ family: this.family, placement, kernel, clock, observer: options.observer },
      inStepAtMs: () => earlier(options.rulesInStepAtMs(), this.#sync.inStepAtMs),
      verify: () => this.#sync.audit.verify(),
    });
  }

  get use(): MapUse {
    return this.#admission.use;
  }

  reasonOf(forwarding: Forwarding): string | undefined {
    const { key } = forwarding;
    const reason = this.#admission.reasonOf(forwarding);
    if (reason !== undefined || this.#sync.inForce.has(key)) return reason;
    const isRefused = [...this.#sync.quarantined].some((one) => one.key === key);
    return isRefused ? 'refused' : undefined;
  }

  /** All that is to be in the maps is, except for what the kernel refuses. No op is under way. */
  get upToDate(): boolean {
    return this.#sync.upToDate && !this.#lease.isRenewing;
  }

  /** See `Planner.describe`; nothing for what the maps do not have. */
  describe(forwarding: Forwarding): readonly string[] {
    return this.#sync.inForce.has(forwarding.key) ? this.#planner.describe(forwarding) : [];
  }

  /** See `compare`. */
  compare(sliceMs: number): Promise<Comparison | undefined> {
    const { clock, kernel } = this.#options;
    return compare({
      planner: () => this.#planner.twin(),
      inForce: () => this.#sync.inForce,
      ...{ clock, kernel, sliceMs, ruleset: new Ruleset() },
    });
  }

  /** See `ForwardingFollower.changed`, of the rules. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const forwarding = next ?? previous;
    if (forwarding === undefined) return;
    this.#admission.changed(forwarding, next);
    this.#wake();
  }

  /** The rules follow this environment, and all changes of them have been told. */
  upToDateWith(environment: Environment): void {
    if (environment !== this.#environment) {
      this.#environment = environment;
      this.#sync.setEnvironment(this.#uncovered());
    }
    this.#wake();
    // A sync that is due may free the room that a Service lacks.
    if (this.#sync.upToDate) this.#report();
  }

  /** All that is desired has been in force in the rules once: maps are compared and repaired. */
  listed(): void {
    if (this.#isListed) return;
    this.#isListed = true;
    this.#sync.listed();
  }

  /** Runs until `stop`. Before `listed`, maps stay as an earlier process has left them. */
  run(): Promise<void> {
    return this.#sync.run(this.#abort.signal);
  }

  /** Ends `run` when the maps have followed the rules to the end; what is in them stays. */
  async stop(): Promise<void> {
    const { clock } = this.#options;
    let isLate = false;
    for (let i = 0; i < lastSyncs && this.#isListed && !isLate; i += 1) {
      await clock.turn();
      if (this.#sync.upToDate) break;
      await new Promise<void>((resolve) => {
        const cancel = clock.after(lastMaxMs, () => {
          isLate = true;
          resolve();
        });
        this.#ended = () => {
          cancel();
          resolve();
        };
      });
    }
    this.#abort.abort();
    await this.#lease.stop();
  }

  #wake(): void {
    if (this.#admission.takeCoverChanged()) this.#sync.setEnvironment(this.#uncovered());
    this.#sync.wake();
  }

  /** The environment without addresses at which rules serve the node ports. */
  #uncovered(): Environment {
    const { connectTimeAddresses = [] } = this.#environment;
    const uncovered = this.#admission.uncovered(connectTimeAddresses);
    return { ...this.#environment, connectTimeAddresses: uncovered };
  }

  /** All that the kernel has of the maps is known. */
  #settled(): void {
    this.#admission.settled(this.#sync.inForce);
    this.#wake();
    this.#report();
  }

  #report(): void {
    const { family } = this;
    for (const one of this.#admission.takeLeft()) {
      this.#options.observer({ kind: 'left-to-rules', family, ...one });
    }
  }

  #observe(event: SyncEvent): void {
    if (!('family' in event)) return;
    const { family } = this;
    this.#options.observer({ kind: 'connect-time', family, of: event as MapEvent });
    this.#lease.observe(event);
    if (event.kind === 'failed' && event.failures.some(isOfRoom)) this.#admission.refused();
    else if (event.kind === 'audited') this.#admission.compared();
    else if (event.kind !== 'done') return;
    if (event.kind !== 'audited') this.#ended();
    this.#wake();
    this.#report();
  }
}

function isOfRoom({ code }: KernelFailure): boolean {
  return fullCodes.has(code);
}

/** Undefined: never. */
function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : Math.min(a, b);
}
