/**
 * Keeps the maps of connect-time translation for one family. They follow the rules: a change is
 * made to them when the kernel has acknowledged the rules of the same change, in separate batches.
 * The rules are complete, so missing elements of the maps cost only the speed of connections.
 *
 * The order is that of a single batch that begins with the rules: first the rules stop using a
 * removed endpoint, then the maps do. In between are the acknowledgement and a turn of the event
 * loop. Batches of maps have their own thread, so they do not wait for the next batch of the rules.
 * If the maps do not follow, the lease of the programs ends.
 */

import type { Kernel, KernelFailure } from '../kernel/kernel.ts';
import type { Environment, ModeConfig } from '../modes/mode.ts';
import { ModePlanner, type Planner } from '../modes/planner.ts';
import type { Family } from '../net/address.ts';
import type { Forwarding } from '../state/types.ts';
import { type Comparison, compare } from '../sync/comparison.ts';
import type { SyncEvent } from '../sync/events.ts';
import { FamilySync } from '../sync/family.ts';
import { Ruleset } from '../sync/ruleset.ts';
import type { SyncSettings } from '../sync/settings.ts';
import { type Clock, Wakeup } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { ConnectTimeLease } from './lease.ts';
import { Admission } from './maps/admission.ts';
import { ConnectTimeBackend, type ConnectTimeTypes } from './maps/backend.ts';
import type { ConnectTimeEvent } from './maps/events.ts';
import type { MapUse, MapView } from './maps/facts.ts';
import type { Placement } from './maps/placement.ts';

interface ConnectTimeMapsOptions {
  readonly config: ModeConfig;
  readonly placement: Placement;
  readonly environment: Environment;
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly observer: (event: ConnectTimeEvent) => void;
  readonly settings: SyncSettings;
  /** See `FamilySync.inStepAtMs`, of the rules. */
  readonly rulesInStepAtMs: () => number | undefined;
}

/** At the end of the process, how long maps may take to follow the last change of the rules. */
const lastMaxMs = 1000;
/** The number of syncs for that: the current one, and one for later changes. */
const lastSyncs = 2;

/** Error codes of the kernel if a map is full or memory is short. */
const fullCodes: ReadonlySet<string> = new Set(['E2BIG', 'ENOMEM', 'ENOSPC']);

export class ConnectTimeMaps implements MapView {
  readonly family: Family;
  readonly #options: ConnectTimeMapsOptions;
  readonly #planner: Planner;
  readonly #sync: FamilySync;
  readonly #admission: Admission;
  readonly #lease: ConnectTimeLease;
  readonly #abort = new AbortController();
  /** That of the rules in force. */
  #environment: Environment;
  /** The same without addresses at which rules serve the node ports. */
  #uncovered: Environment;
  #isListed = false;
  /** Resolves when Services that were left to the rules have been tried again. */
  #retry: Promise<void> | undefined;
  /** Called when a sync is done. */
  #ended: () => void = () => {};

  constructor(options: ConnectTimeMapsOptions) {
    const { clock, config, environment, kernel, placement, settings } = options;
    this.#options = options;
    this.#environment = environment;
    this.#uncovered = environment;
    this.family = config.family;
    this.#planner = new ModePlanner<ConnectTimeTypes>({
      family: config.family,
      backend: () => new ConnectTimeBackend(config, placement),
      environment,
    });
    this.#sync = new FamilySync({
      ...{ planner: this.#planner, kernel, clock, settings },
      environment: () => this.#uncovered,
      // Maps are not in a ruleset, and syncs of rules need not wait until they are read.
      ruleset: new Ruleset(),
      observer: (event) => this.#observe(event),
      followers: [{ settled: () => this.#settled() }],
    });
    this.#admission = new Admission({
      room: placement.room,
      setting: { config, reach: placement.reach },
      desire: (key, next) => {
        const record = this.#sync.track(key);
        this.#sync.setDesired(record, next);
        this.#sync.changed(record, undefined);
      },
    });
    this.#reserve();
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
    return this.#sync.quarantined.get(key) && 'refused';
  }

  /** Everything desired is in the maps, except what the kernel refuses. No op is in flight. */
  get upToDate(): boolean {
    return this.#sync.upToDate && !this.#lease.isRenewing;
  }

  /** See `Planner.describe`; nothing if the maps do not contain it. */
  describe(forwarding: Forwarding): readonly string[] {
    return this.#sync.inForce.has(forwarding.key) ? this.#planner.describe(forwarding) : [];
  }

  /** See `compare`. */
  compare(sliceMs: number): Promise<Comparison | undefined> {
    const { clock, kernel } = this.#options;
    const of = { planner: this.#planner, inForce: this.#sync.inForce, ruleset: new Ruleset() };
    return compare({ ...of, clock, kernel, sliceMs });
  }

  /** See `ForwardingFollower.changed`, of the rules. */
  changed(previous: Forwarding | undefined, next: Forwarding | undefined): void {
    const forwarding = next ?? previous;
    if (forwarding === undefined) return;
    this.#admission.changed(forwarding, next);
    this.#wake();
  }

  /** See `ForwardingFollower.settled`, of the rules. */
  settled(environment: Environment): void {
    if (environment !== this.#environment) {
      this.#environment = environment;
      this.#reserve();
      this.#cover();
    }
    this.#wake();
    // A sync that is due may free the room that a Service lacks.
    if (this.#sync.upToDate) this.#report();
  }

  /** Everything desired has been in force in the rules once: maps are compared and repaired. */
  listed(): void {
    if (this.#isListed) return;
    this.#isListed = true;
    this.#sync.listed();
  }

  /** Runs until `stop`. Before `listed`, the maps of an earlier process are not changed. */
  run(): Promise<void> {
    return this.#sync.run(this.#abort.signal);
  }

  /** Ends `run` when the maps have followed the last change of the rules; their contents stay. */
  async stop(): Promise<void> {
    const { clock } = this.#options;
    for (let i = 0; i < lastSyncs && this.#isListed; i += 1) {
      await clock.turn();
      if (this.#sync.upToDate) break;
      const ended = new Wakeup(clock);
      this.#ended = () => ended.wake();
      if (!(await ended.wait(lastMaxMs))) break;
    }
    this.#abort.abort();
    await this.#retry;
    await this.#lease.stop();
  }

  #wake(): void {
    if (this.#admission.takeCoverChanged()) this.#cover();
    this.#sync.wake();
  }

  #reserve(): void {
    this.#admission.reserve(this.#environment.connectTimeAddresses?.length ?? 0);
  }

  #cover(): void {
    const { connectTimeAddresses = [] } = this.#environment;
    const uncovered = this.#admission.uncovered(connectTimeAddresses);
    this.#uncovered = { ...this.#environment, connectTimeAddresses: uncovered };
  }

  /** The kernel's maps were read completely. */
  #settled(): void {
    this.#admission.settled(this.#sync.inForce);
    this.#retryLeft();
  }

  /** Services that come while others are tried are tried then, too. */
  #retryLeft(): void {
    const { clock, settings } = this.#options;
    const { pause } = new Pacer(clock, settings.sliceMs);
    this.#retry ??= this.#admission.retry(pause, this.#abort.signal).then(() => {
      this.#retry = undefined;
      this.#wake();
      this.#report();
    });
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
    this.#options.observer({ kind: 'connect-time', family, of: event });
    this.#lease.observe(event);
    if (event.kind === 'failed' && event.failures.some(isOfRoom)) this.#admission.refused();
    else if (event.kind === 'audited') {
      this.#admission.compared();
      this.#retryLeft();
    } else if (event.kind !== 'done') return;
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
