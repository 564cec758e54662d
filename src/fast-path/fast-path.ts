/**
 * Moves established TCP and UDP connections to Services into a flowtable, whose packets go from
 * device to device without a hook. The table follows configuration, devices and Services. It is
 * independent of the modes: without it, only speed is lost.
 */
import type { ReadableFiles } from '../host/files.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { baseChain } from '../kernel/nft/chain.ts';
import { NF_INET } from '../kernel/nft/constants.ts';
import { type OwnContent, OwnTable, tableText, upkeep } from '../kernel/nft/own-table.ts';
import { type MissingFeature, type ProbedStatement, probeInetTable } from '../kernel/nft/probe.ts';
import { flowAdd, packetsAbove, withoutIPsec } from '../kernel/nft/rule.ts';
import type { ModeName } from '../modes/mode.ts';
import { PickedServices, type PickedServicesOptions } from '../state/picked-services.ts';
import type { ClusterState } from '../state/store.ts';
import type { Clock } from '../time/clock.ts';
import { Pacer } from '../time/pacer.ts';
import { Runner } from '../time/runner.ts';
import { devicesOf, readLinks } from './devices.ts';
import { excludedBy, isExcluded } from './excluded.ts';
import { content, elementsOf, excludesMore, flowtable, ownTable } from './layout.ts';

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

export interface FastPathOptions extends PickedServicesOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Log;
  readonly state: Pick<ClusterState, 'service' | 'serviceKeys' | 'synced'>;
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
/**
 * When a Service opts out, all connections leave the flowtable, those of others too: that happens
 * no more often than this, whoever opts out and in again.
 */
const clearEveryMs = 30_000;

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
  readonly #excluded: PickedServices;
  /** Devices that the kernel refused, and why. */
  readonly #refused = new Map<string, string>();
  /** The kernel's features were probed. */
  #isProbed = false;
  /** The state that was logged last. */
  #logged = '';
  #stopWatchingLinks: (() => void) | undefined;
  readonly #updates: Runner;
  /** How many there were, and how many of them are in force, or were tried and failed. */
  readonly #requests = { made: 0, tried: 0 };
  /** The configuration is new: no rest keeps it waiting. */
  #isNew = false;
  /**
   * `Clock.now` when all connections left the flowtable because a Service opted out, and whether
   * connections of Services that have opted out since then may be in it.
   */
  readonly #cleared = { atMs: Number.NEGATIVE_INFINITY, isDueAgain: false };

  constructor(options: FastPathOptions) {
    this.#options = options;
    this.#excluded = new PickedServices(options, isExcluded);
    const restMs = (tookMs: number): number => (this.#isNew ? 0 : upkeep.restMs(tookMs));
    this.#updates = new Runner({ clock: options.clock, work: () => this.#work(), restMs });
    this.#table = new OwnTable(options.kernel, ownTable, () => this.#updates.soon(settleMs));
  }

  get state(): FastPathState {
    return this.#state;
  }

  /** Every request is in force, or was tried and failed. */
  get upToDate(): boolean {
    return this.#requests.tried === this.#requests.made;
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
    this.#excluded.waitAgain();
    if (wish !== undefined && before === undefined) this.#excluded.find();
    this.#requests.made += 1;
    this.#isNew = true;
    this.#updates.now();
  }

  /** A Service was resolved or deleted. */
  resolved(key: string): void {
    if (this.#wish === undefined) return;
    const change = this.#excluded.resolved(key);
    if (change === 'none') return;
    // Of one that stays the same, other frontends may be desired.
    if (change === 'another record') this.#requests.made += 1;
    this.#updates.soon(settleMs);
  }

  /** The first lists are complete. */
  synced(): void {
    if (this.#wish === undefined) return;
    this.#excluded.find();
    this.#updates.now();
  }

  /** Stops following changes; the table stays in the kernel. */
  async close(): Promise<void> {
    this.#table.unwatch();
    this.#unwatchLinks();
    await this.#updates.stop();
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    this.#isNew = false;
    const { made } = this.#requests;
    try {
      const waits = await this.#update();
      if (!waits) this.#requests.tried = made;
      if (this.#wish !== undefined) this.#updates.soon(upkeep.lookMs);
    } catch (error) {
      const err = (error as Error).message;
      this.#options.log.error({ err }, 'Could not update fast path; trying again');
      this.#requests.tried = made;
      this.#updates.soon(upkeep.retryMs);
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
    if (this.#excluded.areResolving) {
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
    const { pause } = new Pacer(clock);
    const excluded = await excludedBy(this.#excluded.all, [...agent.families], pause);
    const desired = elementsOf(new Set(names), excluded);
    const mayClear = this.#clearsInMs === 0;
    let gains = false;
    const brought = await this.#table.bring(content, desired, (inKernel) => {
      gains = excludesMore(inKernel, desired);
      return mayClear && (gains || this.#cleared.isDueAgain);
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
    if (brought.kind === 'replaced') this.#cleared.atMs = clock.now();
    if (brought.kind === 'repaired') {
      log.warn({ table: ownText }, 'Repaired fast path that another program changed');
    }
    this.#cleared.isDueAgain = brought.kind === 'kept' && (this.#cleared.isDueAgain || gains);
    if (this.#cleared.isDueAgain) this.#updates.soon(this.#clearsInMs);
    this.#state = { kind: 'flowtable', packets, devices: names.length };
    this.#logUse(packets, names);
    return false;
  }

  /** After this time, all connections may leave the flowtable again. */
  get #clearsInMs(): number {
    return Math.max(0, this.#cleared.atMs + clearEveryMs - this.#options.clock.now());
  }

  #refusals(): string {
    const all = [...this.#refused].map(([name, why]) => `${name}: ${why}`);
    return `the kernel refuses its devices: ${all.join('; ')}`;
  }

  async #end(): Promise<void> {
    this.#unwatchLinks();
    this.#refused.clear();
    if (this.#wish === undefined) this.#excluded.clear();
    await this.#remove();
  }

  async #remove(): Promise<void> {
    if (!(await this.#table.remove())) return;
    this.#cleared.isDueAgain = false;
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

const { flags, flowtable: name, priority } = flowtable;

const statements: readonly ProbedStatement[] = [
  ['expression flow_offload', 'CONFIG_NFT_FLOW_OFFLOAD', 'nft_flow_offload', flowAdd(name)],
  ['expression ct', 'CONFIG_NFT_CT', 'nft_ct', packetsAbove(1)],
  ['routes that lead through IPsec', 'CONFIG_NF_TABLES', 'nf_tables', withoutIPsec],
];

/** The features that the kernel lacks for the fast path. */
function probe(kernel: Kernel): Promise<readonly MissingFeature[]> {
  const base = baseChain('filter', NF_INET.FORWARD, priority);
  return probeInetTable(kernel, base, statements, (writer, table, needs) => {
    needs('flowtables', 'CONFIG_NF_FLOW_TABLE_INET', 'nf_flow_table_inet');
    writer.write('flowtableAdd', { ...table, flowtable: name, priority, flags, devices: '' });
  });
}
