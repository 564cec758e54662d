/**
 * Established connections to Services take the kernel's short cut: after some packets a flowtable
 * has them, and later packets of TCP and UDP go from device to device without meeting a hook. This
 * keeps the table that does it as configuration, devices and Services want it, apart from all that
 * modes keep: without it nothing is missing but speed.
 */
import type { HostFiles } from '../host/files.ts';
import { KernelError } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import type { ModeName } from '../modes/mode.ts';
import type { ClusterState } from '../state/store.ts';
import type { Service } from '../state/types.ts';
import type { Clock } from '../time/clock.ts';
import { devicesOf, readLinks } from './devices.ts';
import { type Desired, difference } from './difference.ts';
import { excludedBy } from './excluded.ts';
import { inTable, tableText } from './layout.ts';
import { observe, Unsteady } from './observation.ts';
import { probe } from './probe.ts';
import { remove } from './removal.ts';

/** The part of a log that this needs. */
interface Log {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** What the configuration asks for. */
interface FastPathConfig {
  readonly fastPath: 'off' | 'flowtable';
  readonly fastPathPackets: number;
}

export interface FastPathOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Log;
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys' | 'synced'>;
  /** Absent: no device can be found. */
  readonly host?: Pick<HostFiles, 'read'>;
}

/** What is in force. */
export type FastPathState =
  | { readonly kind: 'off' }
  | { readonly kind: 'unavailable'; readonly because: string }
  | { readonly kind: 'flowtable'; readonly packets: number; readonly devices: number };

/** Modes that translate packets by rules: connection tracking knows what becomes of them. */
const modesWithRules: readonly ModeName[] = ['nftables', 'iptables'];

/** Links come and go in bursts. */
const settleMs = 100;
const retryMs = 2000;
/** The kernel tells of changes of links and of the table, and of no change of default routes. */
const lookMs = 60_000;
/** How often a ruleset or devices may change under our hands before that waits. */
const attemptsMax = 5;

export class FastPath {
  readonly #options: FastPathOptions;
  #wish: { readonly packets: number; readonly mode: ModeName } | undefined;
  #state: FastPathState = { kind: 'off' };
  /** Services that opt out, by key. */
  #excluded = new Map<string, Service>();
  /** Devices that the kernel refused, and why. */
  readonly #refused = new Map<string, string>();
  /** What the kernel can do was asked. */
  #isProbed = false;
  /** A table of ours may be there. */
  #mayBeThere = true;
  /** What was put into force last, in the words of the log. */
  #told = '';
  #stopWatching: (() => void)[] = [];
  /** Cancels the next look; undefined while none is planned. */
  #cancel: (() => void) | undefined;
  #turn: Promise<void> | undefined;
  #isDue = false;
  #isClosed = false;
  /** What was asked for has not been tried yet. */
  #isOwed = false;

  constructor(options: FastPathOptions) {
    this.#options = options;
  }

  get state(): FastPathState {
    return this.#state;
  }

  /** All that was asked for is in force, or was tried in vain. */
  get upToDate(): boolean {
    return !this.#isOwed;
  }

  /** Whether connections to this Service may take it. */
  takes(service: string): boolean {
    return this.#state.kind === 'flowtable' && !this.#excluded.has(service);
  }

  /** Puts into force what the configuration asks for, as soon as it can. */
  choose({ fastPath, fastPathPackets: packets }: FastPathConfig, mode: ModeName): void {
    const before = this.#wish;
    const wish = fastPath === 'off' ? undefined : { packets, mode };
    if (before?.packets === wish?.packets && before?.mode === wish?.mode && this.#isProbed) return;
    this.#wish = wish;
    this.#isProbed = false;
    this.#told = '';
    if (wish !== undefined && before === undefined) this.#findExcluded();
    this.#isOwed = true;
    this.#wake();
  }

  /** A Service was resolved, or is gone. */
  resolved(key: string): void {
    if (this.#wish === undefined) return;
    const service = this.#options.state.service(key);
    const had = this.#excluded.get(key);
    const has = service?.isFastPathOff ? service : undefined;
    if (had === has) return;
    if (has === undefined) this.#excluded.delete(key);
    else this.#excluded.set(key, has);
    this.#isOwed = true;
    this.#soon(settleMs);
  }

  /** The first lists are complete. */
  synced(): void {
    if (this.#wish !== undefined) this.#wake();
  }

  /** What is in the kernel stays. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#forget();
    this.#unwatch();
    await this.#turn;
  }

  #findExcluded(): void {
    const { state } = this.#options;
    this.#excluded = new Map();
    for (const key of state.serviceKeys()) {
      const service = state.service(key);
      if (service?.isFastPathOff) this.#excluded.set(key, service);
    }
  }

  #soon(delayMs: number): void {
    this.#forget();
    if (this.#isClosed) return;
    this.#cancel = this.#options.clock.after(delayMs, () => {
      this.#cancel = undefined;
      this.#wake();
    });
  }

  #forget(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #wake(): void {
    this.#isDue = true;
    this.#turn ??= this.#work().finally(() => {
      this.#turn = undefined;
    });
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    const { log } = this.#options;
    while (this.#isDue && !this.#isClosed) {
      this.#isDue = false;
      try {
        this.#forget();
        const waits = await this.#update();
        this.#isOwed &&= waits || this.#isDue;
        this.#soonAgain();
      } catch (error) {
        const err = (error as Error).message;
        log.error({ err }, 'Could not update the fast path; trying again');
        this.#isOwed = false;
        this.#soon(retryMs);
      }
    }
  }

  #soonAgain(): void {
    if (this.#wish === undefined) this.#forget();
    // What changed during this look has planned the next one already.
    else if (this.#cancel === undefined) this.#soon(lookMs);
  }

  /** Resolves to whether that has to wait for the first lists. */
  async #update(): Promise<boolean> {
    const wish = this.#wish;
    if (wish === undefined) {
      await this.#end({ kind: 'off' });
      return false;
    }
    if (!this.#options.state.synced) return true;
    const because = await this.#obstacle(wish.mode);
    if (because !== undefined) {
      this.#tellLack(because);
      await this.#end({ kind: 'unavailable', because });
      return false;
    }
    this.#watch();
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      if (await this.#compare(wish.packets)) return false;
    }
    throw new Error('devices or rules change all the time');
  }

  /** Why there can be none; undefined: nothing is known to be in its way. */
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

  /** Whether the kernel now holds what is desired, or never will. */
  async #compare(packets: number): Promise<boolean> {
    const { host, kernel } = this.#options;
    const found = devicesOf(await readLinks(kernel), host ?? { read: () => undefined });
    const names = [...found.names].filter((name) => !this.#refused.has(name));
    const because = found.obstacle ?? (names.length === 0 ? this.#refusals() : undefined);
    if (because !== undefined) {
      this.#tellLack(because);
      await this.#remove();
      this.#state = { kind: 'unavailable', because };
      return true;
    }
    const observed = await this.#observed(packets);
    if (observed === undefined) return false;
    if (observed.table === 'foreign') {
      this.#tellLack(`another program made table ${tableText}`);
      this.#state = { kind: 'unavailable', because: `another program made table ${tableText}` };
      return true;
    }
    const excluded = excludedBy(this.#excluded.values());
    const desired: Desired = { packets, devices: new Set(names), excluded };
    if (!(await this.#bring(observed, desired))) return false;
    this.#mayBeThere = true;
    this.#state = { kind: 'flowtable', packets, devices: names.length };
    this.#tellUse(packets, names);
    return true;
  }

  async #observed(packets: number) {
    try {
      return await observe(this.#options.kernel, packets);
    } catch (error) {
      if (error instanceof Unsteady) return undefined;
      throw error;
    }
  }

  /** False: a device has gone, or was refused: look again. */
  async #bring(...what: Parameters<typeof difference>): Promise<boolean> {
    const { kernel, log } = this.#options;
    const { added, isAnew, ops } = difference(...what);
    if (ops.length === 0) return true;
    const result = await kernel.apply(ops);
    if (result.kind === 'applied') {
      if (isAnew && !what[0].isIntact && this.#state.kind === 'flowtable') {
        log.warn({ table: tableText }, 'The fast path was changed by another program; repaired');
      }
      return true;
    }
    let isKnown = false;
    for (const { code, message, op } of result.failures) {
      const device = op === undefined ? undefined : added.get(op);
      // ENOENT, ENODEV: it has gone meanwhile. EINTR, EAGAIN and the like: the kernel was busy.
      if (code === 'ENOENT' || code === 'ENODEV') isKnown = true;
      else if (device !== undefined && !passing.has(code)) {
        isKnown = true;
        this.#refused.set(device, `${message} (${code})`);
        log.warn({ device, err: message }, 'A device cannot take part in the fast path');
      }
    }
    if (isKnown) return false;
    const { code, message: words } = result.failures[0]!;
    throw new KernelError({ operation: 'nft.apply', subject: `table ${tableText}`, code, words });
  }

  #refusals(): string {
    const all = [...this.#refused].map(([name, why]) => `${name}: ${why}`);
    return `the kernel refuses its devices: ${all.join('; ')}`;
  }

  async #end(state: FastPathState): Promise<void> {
    this.#unwatch();
    this.#excludedUnlessWanted();
    await this.#remove();
    this.#state = state;
  }

  #excludedUnlessWanted(): void {
    if (this.#wish === undefined) this.#excluded = new Map();
  }

  async #remove(): Promise<void> {
    if (!this.#mayBeThere) return;
    const { kernel, log } = this.#options;
    if (await remove(kernel)) log.info({ table: tableText }, 'Removed the fast path');
    this.#mayBeThere = false;
  }

  #watch(): void {
    if (this.#stopWatching.length > 0) return;
    const { kernel } = this.#options;
    // What ends a watch is no reason to end: it is looked at now and then.
    const watcher = { changed: () => this.#soon(settleMs), ended: () => {} };
    const links = kernel.watchLinks?.(watcher);
    this.#stopWatching = [kernel.watch([inTable], watcher), ...(links ? [links] : [])];
  }

  #unwatch(): void {
    for (const stop of this.#stopWatching) stop();
    this.#stopWatching = [];
    this.#refused.clear();
  }

  /** Each reason once. */
  #tellLack(err: string): void {
    if (this.#told === err) return;
    this.#told = err;
    this.#options.log.warn({ err }, 'The fast path is unavailable; all packets meet the rules');
  }

  #tellUse(packets: number, devices: readonly string[]): void {
    if (this.#told === 'in use') return;
    this.#told = 'in use';
    this.#options.log.info({ packets, devices: devices.length }, 'Using the fast path');
  }
}

/** Refusals that say nothing of the device. */
const passing: ReadonlySet<string> = new Set(['ENOMEM', 'ENOBUFS', 'EAGAIN', 'EINTR', 'EPERM']);
