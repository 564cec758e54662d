/**
 * Moves established TCP and UDP connections to Services into a flowtable, whose packets go from
 * device to device without a hook. The table follows configuration, devices and Services. It is
 * independent of the modes: without it, only speed is lost.
 */
import type { ReadableFiles } from '../host/files.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type OwnContent, OwnTable, tableText } from '../kernel/nft/own-table.ts';
import type { ModeName } from '../modes/mode.ts';
import type { ClusterState } from '../state/store.ts';
import type { Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';
import { devicesOf, readLinks } from './devices.ts';
import { type DesiredFamily, excludedBy, isResolved } from './excluded.ts';
import { content, elementsOf, excludesMore, ownTable } from './layout.ts';
import { probe } from './probe.ts';

/** The part of a log that this needs. */
interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The part of the configuration that this needs. */
interface FastPathConfig {
  readonly fastPath: 'off' | 'flowtable';
  readonly fastPathPackets: number;
}

export interface FastPathOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Log;
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys' | 'synced'>;
  /** The desired Forwardings of each family that is served. */
  readonly agent: { readonly families: Iterable<DesiredFamily> };
  /** Absent: no device can be found. */
  readonly host?: ReadableFiles;
}

/** The state in force. */
type FastPathState =
  | { readonly kind: 'off' }
  | { readonly kind: 'unavailable'; readonly because: string }
  | { readonly kind: 'flowtable'; readonly packets: number; readonly devices: number };

/** Modes that translate packets by rules, so that connection tracking has the translation. */
const modesWithRules: readonly ModeName[] = ['nftables', 'iptables'];

const ownText = tableText(ownTable);

/** Links come and go in bursts. */
const settleMs = 100;
const retryMs = 2000;
/** The kernel reports changes of links and of the table, but not of default routes. */
const lookMs = 60_000;
/** An update is followed by a rest of this many times its duration, and at most of `restMostMs`. */
const restFactor = 20;
const restMostMs = 2000;
/** The longest wait for Services that opt out and are not resolved yet. */
const resolvingMs = 10_000;
/**
 * When a Service opts out, all connections leave the flowtable, those of others too: that happens
 * no more often than this, whoever opts out and in again.
 */
const clearEveryMs = 30_000;
/** The work of an update rests after this time, so that others have the event loop. */
const sliceMs = 2;

interface Wish {
  readonly packets: number;
  readonly mode: ModeName;
  readonly content: OwnContent;
}

export class FastPath {
  readonly #options: FastPathOptions;
  #wish: Wish | undefined;
  readonly #table: OwnTable;
  #state: FastPathState = { kind: 'off' };
  /** Services that opt out, by key. */
  #excluded = new Map<string, Service>();
  /** Devices that the kernel refused, and why. */
  readonly #refused = new Map<string, string>();
  /** The kernel's features were probed. */
  #isProbed = false;
  /** The state that was logged last. */
  #logged = '';
  #stopWatchingLinks: (() => void) | undefined;
  readonly #updates: Runner;
  /** `Clock.now` until which Services are waited for; undefined: they were not looked for yet. */
  #resolvingUntilMs: number | undefined;
  /** How many requests there were, and how many of them are in force, or were tried and failed. */
  #requests = 0;
  #tried = 0;
  /** The configuration is new: no rest keeps it waiting. */
  #isNew = false;
  /** `Clock.now` when all connections left the flowtable because a Service opted out. */
  #clearedMs = Number.NEGATIVE_INFINITY;
  /** Connections of Services that have opted out since then may be in it. */
  #mustClear = false;

  constructor(options: FastPathOptions) {
    this.#options = options;
    const restMs = (tookMs: number): number =>
      this.#isNew ? 0 : Math.min(restMostMs, restFactor * tookMs);
    this.#updates = new Runner({ clock: options.clock, work: () => this.#work(), restMs });
    this.#table = new OwnTable(options.kernel, ownTable, () => this.#updates.soon(settleMs));
  }

  get state(): FastPathState {
    return this.#state;
  }

  /** Every request is in force, or was tried and failed. */
  get upToDate(): boolean {
    return this.#tried === this.#requests;
  }

  /** Whether connections to this Service may use the fast path. */
  takes(service: string): boolean {
    return this.#state.kind === 'flowtable' && !this.#excluded.has(service);
  }

  /** Applies the configuration as soon as possible. */
  choose({ fastPath, fastPathPackets: packets }: FastPathConfig, mode: ModeName): void {
    const before = this.#wish;
    const same = before?.packets === packets ? before.content : undefined;
    const wish =
      fastPath === 'off' ? undefined : { packets, mode, content: same ?? content(packets) };
    if (before?.packets === wish?.packets && before?.mode === wish?.mode && this.#isProbed) return;
    this.#wish = wish;
    this.#isProbed = false;
    this.#logged = '';
    this.#resolvingUntilMs = undefined;
    if (wish !== undefined && before === undefined) this.#findExcluded();
    this.#requests += 1;
    this.#isNew = true;
    this.#updates.now();
  }

  /** A Service was resolved or deleted. */
  resolved(key: string): void {
    if (this.#wish === undefined) return;
    const service = this.#options.state.service(key);
    const had = this.#excluded.get(key);
    const has = service !== undefined && isExcluded(service) ? service : undefined;
    if (had === undefined && has === undefined) return;
    if (has === undefined) this.#excluded.delete(key);
    else this.#excluded.set(key, has);
    // Of one that stays the same, other frontends may be desired.
    if (had !== has) this.#requests += 1;
    this.#updates.soon(settleMs);
  }

  /** The first lists are complete. */
  synced(): void {
    if (this.#wish !== undefined) this.#updates.now();
  }

  /** Stops following changes; the table stays in the kernel. */
  async close(): Promise<void> {
    this.#table.unwatch();
    this.#unwatchLinks();
    await this.#updates.stop();
  }

  #findExcluded(): void {
    const { state } = this.#options;
    this.#excluded = new Map();
    for (const key of state.serviceKeys()) {
      const service = state.service(key);
      if (service !== undefined && isExcluded(service)) this.#excluded.set(key, service);
    }
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    this.#isNew = false;
    const requests = this.#requests;
    try {
      const waits = await this.#update();
      if (!waits) this.#tried = requests;
      if (this.#wish !== undefined) this.#updates.soon(lookMs);
    } catch (error) {
      const err = (error as Error).message;
      this.#options.log.error({ err }, 'Could not update fast path; trying again');
      this.#tried = requests;
      this.#updates.soon(retryMs);
    }
  }

  /** Resolves to whether it has to wait, or to be tried again. */
  async #update(): Promise<boolean> {
    const wish = this.#wish;
    if (wish === undefined) {
      await this.#end();
      this.#state = { kind: 'off' };
      return false;
    }
    if (!this.#options.state.synced) return true;
    if (this.#isResolving) {
      this.#updates.soon(settleMs);
      return true;
    }
    const because = await this.#obstacle(wish.mode);
    if (because !== undefined) {
      await this.#end();
      this.#lacks(because);
      return false;
    }
    this.#watchLinks();
    return this.#follow(wish);
  }

  /** Whether Services that opt out are to be resolved yet: a table that is there has them. */
  get #isResolving(): boolean {
    const { agent, clock } = this.#options;
    this.#resolvingUntilMs ??= clock.now() + resolvingMs;
    if (clock.now() >= this.#resolvingUntilMs) return false;
    const all = [...agent.families];
    for (const service of this.#excluded.values()) if (!isResolved(service, all)) return true;
    return false;
  }

  /** @returns why there can be no fast path; undefined if no reason is known */
  async #obstacle(mode: ModeName): Promise<string | undefined> {
    if (!modesWithRules.includes(mode)) return `mode ${mode} does not translate packets by rules`;
    if (this.#isProbed) return undefined;
    const missing = await probe(this.#options.kernel);
    if (missing.length > 0) {
      return missing.map(({ advice, feature }) => `${feature}: ${advice}`).join('; ');
    }
    this.#isProbed = true;
    return undefined;
  }

  /** Resolves to whether a device was removed or refused, so that it has to be tried again. */
  async #follow({ content, packets }: Wish): Promise<boolean> {
    const { agent, clock, host, kernel, log } = this.#options;
    const found = devicesOf(await readLinks(kernel), host ?? { read: () => undefined });
    // Another device may get the name: each pod has a new one.
    for (const name of this.#refused.keys()) if (!found.names.has(name)) this.#refused.delete(name);
    const names = [...found.names].filter((name) => !this.#refused.has(name));
    const because = found.obstacle ?? (names.length === 0 ? this.#refusals() : undefined);
    if (because !== undefined) {
      await this.#remove();
      this.#lacks(because);
      return false;
    }
    const { pause } = new Pacer(clock, sliceMs);
    const excluded = await excludedBy([...this.#excluded.values()], [...agent.families], pause);
    const desired = elementsOf(new Set(names), excluded);
    const mayClear = this.#clearsInMs === 0;
    let gains = false;
    const brought = await this.#table.bring(content, desired, (held) => {
      gains = excludesMore(held, desired);
      return mayClear && (gains || this.#mustClear);
    });
    if (brought.kind === 'foreign') {
      this.#lacks(`another program made table ${ownText}`);
      return false;
    }
    if (brought.kind === 'again') {
      for (const [device, err] of brought.refused) {
        this.#refused.set(device, err);
        log.warn({ device, err }, 'Kernel rejected fast path device; using the rules');
      }
      this.#updates.soon();
      return true;
    }
    if (brought.kind === 'replaced') this.#clearedMs = clock.now();
    if (brought.kind === 'repaired') {
      log.warn({ table: ownText }, 'Repaired fast path that another program changed');
    }
    this.#mustClear = brought.kind === 'kept' && (this.#mustClear || gains);
    if (this.#mustClear) this.#updates.soon(this.#clearsInMs);
    this.#state = { kind: 'flowtable', packets, devices: names.length };
    this.#logUse(packets, names);
    return false;
  }

  /** After this time, all connections may leave the flowtable again. */
  get #clearsInMs(): number {
    return Math.max(0, this.#clearedMs + clearEveryMs - this.#options.clock.now());
  }

  #refusals(): string {
    const all = [...this.#refused].map(([name, why]) => `${name}: ${why}`);
    return `the kernel refuses its devices: ${all.join('; ')}`;
  }

  async #end(): Promise<void> {
    this.#unwatchLinks();
    this.#refused.clear();
    if (this.#wish === undefined) this.#excluded = new Map();
    await this.#remove();
  }

  async #remove(): Promise<void> {
    if (!(await this.#table.remove())) return;
    this.#mustClear = false;
    this.#options.log.info({ table: ownText }, 'Removed fast path');
  }

  #watchLinks(): void {
    // The end of a watch is harmless: links are read regularly.
    const watcher = { changed: () => this.#updates.soon(settleMs), ended: () => {} };
    this.#stopWatchingLinks ??= this.#options.kernel.watchLinks?.(watcher);
  }

  #unwatchLinks(): void {
    this.#stopWatchingLinks?.();
    this.#stopWatchingLinks = undefined;
  }

  /** Logs each reason once. */
  #lacks(err: string): void {
    this.#state = { kind: 'unavailable', because: err };
    if (this.#logged === err) return;
    this.#logged = err;
    this.#options.log.warn({ err }, 'Fast path unavailable; using the rules');
  }

  #logUse(packets: number, devices: readonly string[]): void {
    if (this.#logged === 'in use') return;
    this.#logged = 'in use';
    this.#options.log.info({ packets, devices: devices.length }, 'Using fast path');
  }
}

/**
 * Whether no connection of the Service takes the fast path: by its annotation, or because it asks
 * that they are ended, which the kernel refuses for those that take it.
 */
function isExcluded({ endings, isFastPathOff }: Service): boolean {
  return isFastPathOff === true || endings?.endAfterMs !== undefined;
}
