/** Connect-time translation as configured, if the kernel supports it. */

import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { ExcludedPods, type ExcludedPodsOptions } from './excluded-pods.ts';
import { type ConnectTimePaths, type ConnectTimeWish, chooseConnectTime } from './maps/choice.ts';
import type { ConnectTimeEvents } from './maps/events.ts';
import { connectTimeDirectory, type Placement } from './maps/placement.ts';
import { StalePrograms } from './stale-programs.ts';

interface ConnectTimeOptions extends ExcludedPodsOptions {
  readonly connectTime?: ConnectTimePaths;
  readonly kernel: Kernel;
  readonly log: Logger;
  readonly events: ConnectTimeEvents;
}

export class ConnectTime {
  readonly #options: ConnectTimeOptions;
  readonly #paths: ConnectTimePaths;
  readonly excludedPods: ExcludedPods;
  /** Attached programs that this process does not update. */
  readonly stale: StalePrograms;
  #chosen: ConnectTimeWish = { reach: 'off', excludes: false };
  #placement: Placement | undefined;

  constructor(options: ConnectTimeOptions) {
    this.#options = options;
    this.#paths = options.connectTime ?? { directory: connectTimeDirectory, cgroup: undefined };
    this.excludedPods = new ExcludedPods(options);
    this.stale = new StalePrograms(options, this.#paths);
  }

  /** Undefined: only rules translate connections. */
  get placement(): Placement | undefined {
    return this.#placement;
  }

  /**
   * The sockets whose connections are translated: none until it is known which pods are excluded.
   */
  get reach(): Config['connectTime'] {
    const { excludes, reach } = this.#chosen;
    const isKnown = this.excludedPods.cgroups !== undefined;
    return excludes && reach === 'all' && !isKnown ? 'host' : reach;
  }

  /**
   * Checks the kernel. Missing features are logged and reported as events; then only rules
   * translate.
   */
  async choose(config: Pick<Config, 'connectTime' | 'connectTimeExcludedPods'>): Promise<void> {
    const { connectTime: reach, connectTimeExcludedPods: selector } = config;
    const wish = { reach, excludes: selector !== '' };
    if (!isDeepStrictEqual(wish, this.#chosen)) await this.#place(wish);
    await this.excludedPods.follow(selector, this.#placement);
  }

  /** Ends the parts that run alongside the engine. The kernel's state stays. */
  async close(): Promise<void> {
    await Promise.all([this.stale.close(), this.excludedPods.close()]);
  }

  async #place(wish: ConnectTimeWish): Promise<void> {
    const { agent, events, kernel, log } = this.#options;
    const { placement, lack } = await chooseConnectTime(
      wish,
      this.#paths,
      agent.enabledFamilies,
      kernel,
    );
    this.#chosen = wish;
    this.#placement = placement;
    if (lack === undefined) return;
    log.warn(
      { connectTime: wish.reach, err: lack },
      'Connect-time translation is unavailable; using packet rules only',
    );
    events.aboutNode('ConnectTimeUnavailable', lack);
  }
}
