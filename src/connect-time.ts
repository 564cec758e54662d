/** Connect-time translation as the configuration asks for it and the kernel can do it. */
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from './config/config.ts';
import { ExcludedPods, type ExcludedPodsOptions } from './excluded-pods.ts';
import type { Kernel } from './kernel/kernel.ts';
import type { Exclusion } from './modes/beside.ts';
import {
  type ConnectTimePaths,
  type ConnectTimeWish,
  chooseConnectTime,
  removeConnectTime,
} from './modes/connect-time/choice.ts';
import { connectTimeDirectory, type Placement } from './modes/connect-time/placement.ts';
import type { Family } from './net/address.ts';
import type { ClusterEvents } from './serve/cluster-events.ts';
import type { Logger } from './serve/log.ts';

interface ConnectTimeOptions extends ExcludedPodsOptions {
  readonly connectTime?: ConnectTimePaths;
  readonly families: readonly Family[];
  readonly kernel: Kernel;
  readonly log: Logger;
  readonly events: Pick<ClusterEvents, 'connectTimeLacks' | 'excludedPodsUnknown'>;
}

export class ConnectTime {
  readonly #options: ConnectTimeOptions;
  readonly #paths: ConnectTimePaths;
  readonly #excludedPods: ExcludedPods;
  #chosen: ConnectTimeWish = { reach: 'off', excludes: false };
  #placement: Placement | undefined;

  constructor(options: ConnectTimeOptions) {
    this.#options = options;
    this.#paths = options.connectTime ?? { directory: connectTimeDirectory, cgroup: undefined };
    this.#excludedPods = new ExcludedPods(options);
  }

  /** Undefined: only rules translate connections. */
  get placement(): Placement | undefined {
    return this.#placement;
  }

  /** See `ExcludedPods.cgroups`. */
  get excludedCgroups(): readonly bigint[] | undefined {
    return this.#excludedPods.cgroups;
  }

  /** Undefined: no pods are to be excluded. */
  get exclusion(): Exclusion | undefined {
    return this.#excludedPods.exclusion;
  }

  /** Whose connections are to be translated now: until it is known which pods are not, none. */
  get reach(): Config['connectTime'] {
    const { excludes, reach } = this.#chosen;
    return excludes && reach === 'all' && this.excludedCgroups === undefined ? 'host' : reach;
  }

  /** Asks the kernel. What it lacks is logged and told to users; then only rules translate. */
  async choose(config: Pick<Config, 'connectTime' | 'connectTimeExcludedPods'>): Promise<void> {
    const { connectTime: reach, connectTimeExcludedPods: selector } = config;
    const wish = { reach, excludes: selector !== '' };
    if (!isDeepStrictEqual(wish, this.#chosen)) await this.#place(wish);
    await this.#excludedPods.follow(selector, this.#placement);
  }

  /** Ends what runs beside the engine. What is in the kernel stays. */
  close(): Promise<void> {
    return this.#excludedPods.close();
  }

  async #place(wish: ConnectTimeWish): Promise<void> {
    const { events, families, kernel, log } = this.#options;
    const { placement, lack } = await chooseConnectTime(wish, this.#paths, families, kernel);
    this.#chosen = wish;
    this.#placement = placement;
    if (lack === undefined) return;
    log.warn(
      { connectTime: wish.reach, err: lack },
      'Connect-time translation is unavailable; using packet rules only',
    );
    events.connectTimeLacks(lack);
  }

  /** Before an engine starts: removes what an earlier one left, unless this one uses it. */
  async starting(placement: Placement | undefined): Promise<void> {
    const { directory } = this.#paths;
    if (placement !== undefined || !existsSync(directory)) return;
    const { kernel, log } = this.#options;
    try {
      await removeConnectTime(kernel, directory);
      log.info({ directory }, 'Removed connect-time programs');
    } catch (error) {
      log.error({ err: (error as Error).message }, 'Could not remove connect-time programs');
    }
  }
}
