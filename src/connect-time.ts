/** Connect-time translation as the configuration asks for it and the kernel can do it. */
import { existsSync } from 'node:fs';
import type { Config } from './config/config.ts';
import type { Kernel } from './kernel/kernel.ts';
import {
  type ConnectTimePaths,
  chooseConnectTime,
  removeConnectTime,
} from './modes/connect-time/choice.ts';
import { connectTimeDirectory, type Placement } from './modes/connect-time/placement.ts';
import type { Family } from './net/address.ts';
import type { ClusterEvents } from './serve/cluster-events.ts';
import type { Logger } from './serve/log.ts';

interface ConnectTimeOptions {
  readonly connectTime?: ConnectTimePaths;
  readonly families: readonly Family[];
  readonly kernel: Kernel;
  readonly log: Logger;
  readonly events: Pick<ClusterEvents, 'connectTimeLacks'>;
}

export class ConnectTime {
  readonly #options: ConnectTimeOptions;
  readonly #paths: ConnectTimePaths;
  #chosen: Config['connectTime'] = 'off';
  #placement: Placement | undefined;

  constructor(options: ConnectTimeOptions) {
    this.#options = options;
    this.#paths = options.connectTime ?? { directory: connectTimeDirectory, cgroup: undefined };
  }

  /** Undefined: only rules translate connections. */
  get placement(): Placement | undefined {
    return this.#placement;
  }

  /** Asks the kernel. What it lacks is logged and told to users; then only rules translate. */
  async choose(wanted: Config['connectTime']): Promise<void> {
    if (wanted === this.#chosen) return;
    const wish = { reach: wanted, excludes: false };
    const { events, families, kernel, log } = this.#options;
    const { placement, lack } = await chooseConnectTime(wish, this.#paths, families, kernel);
    this.#chosen = wanted;
    this.#placement = placement;
    if (lack === undefined) return;
    log.warn({ connectTime: wanted, err: lack }, 'Connections are translated by rules only');
    events.connectTimeLacks(lack);
  }

  /** Before an engine starts: removes what an earlier one left, unless this one uses it. */
  async starting(placement: Placement | undefined): Promise<void> {
    const { directory } = this.#paths;
    if (placement !== undefined || !existsSync(directory)) return;
    const { kernel, log } = this.#options;
    try {
      await removeConnectTime(kernel, directory);
      log.info({ directory }, 'Connections are no longer translated when they are made');
    } catch (error) {
      log.error({ err: (error as Error).message }, 'Could not end connect-time translation');
    }
  }
}
