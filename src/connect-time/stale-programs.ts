/**
 * Programs of connect-time translation that this process does not update, from an earlier process.
 */

import type { Logger } from 'pino';
import type { Kernel } from '../kernel/kernel.ts';
import type { Clock } from '../time/clock.ts';
import { type Ending, endUnused, findUnused } from './maps/attached.ts';
import type { ConnectTimePaths } from './maps/choice.ts';
import type { ConnectTimeEvents } from './maps/events.ts';
import type { StaleState } from './maps/facts.ts';

interface StaleProgramsOptions {
  readonly kernel: Kernel;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: ConnectTimeEvents;
}

/** The interval of searches while some are attached: an operator may remove them. */
const againMs = 60_000;

export class StalePrograms {
  readonly #options: StaleProgramsOptions;
  readonly #paths: ConnectTimePaths;
  #now: StaleState = { attached: 0 };
  #keepsPins = true;
  #isReported = false;
  #cancel = (): void => {};
  /** The search under way, or the last one. */
  #search: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: StaleProgramsOptions, paths: ConnectTimePaths) {
    this.#options = options;
    this.#paths = paths;
  }

  /** As last seen. */
  get now(): StaleState {
    return this.#now;
  }

  /**
   * Detaches all programs except those that this process uses: `keepsPins` = the pinned ones in the
   * folder. Failures are reported, and tried again later. Never rejects. One search at a time: what
   * an earlier one finds must not be what this process attaches after a later one.
   */
  end(keepsPins: boolean): Promise<void> {
    this.#keepsPins = keepsPins;
    this.#search = this.#search.then(() => this.#end());
    return this.#search;
  }

  async #end(): Promise<void> {
    this.#cancel();
    if (this.#isClosed) return;
    const { clock, kernel, log } = this.#options;
    try {
      this.#take(await endUnused(kernel, this.#paths, this.#keepsPins));
    } catch (error) {
      const { message } = error as Error;
      log.error({ err: message }, 'Could not remove connect-time programs');
      this.#now = { attached: 0, failure: message };
    }
    const { attached, failure, unidentified = 0 } = this.#now;
    if (!this.#isClosed && (attached + unidentified > 0 || failure !== undefined)) {
      this.#cancel = clock.after(againMs, () => void this.end(this.#keepsPins));
    }
  }

  /** Reads the state from the kernel now, without changes. */
  find(): Promise<string[]> {
    return findUnused(this.#options.kernel, this.#paths, this.#keepsPins);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#search;
  }

  #take({ detached, failure, isFolderRemoved, left, unidentified, unknown }: Ending): void {
    const { directory } = this.#paths;
    const { log } = this.#options;
    if (isFolderRemoved) log.info({ directory }, 'Removed connect-time programs');
    if (detached.length > 0) {
      log.info(
        { programs: namesOf(detached) },
        'Detached connect-time programs that no process updates',
      );
    }
    this.#now = {
      attached: left.length,
      ...(failure !== undefined && { failure }),
      ...(unknown !== undefined && { unknown }),
      ...(unidentified > 0 && { unidentified }),
    };
    if (left.length > 0) this.#reportLeft(namesOf(left), failure ?? '');
    else if (unidentified > 0) this.#reportUnidentified(unidentified);
    else if (unknown !== undefined) this.#reportUnknown(unknown);
    else this.#isReported = false;
  }

  #reportLeft(programs: string, err: string): void {
    this.#once(() => {
      const { events, log } = this.#options;
      log.error({ programs, err }, 'Connect-time programs that no process updates are attached');
      events.aboutNode('ConnectTimeStale', `${programs}: no process updates them, and ${err}`);
    });
  }

  #reportUnidentified(attached: number): void {
    this.#once(() => {
      const { events, log } = this.#options;
      log.warn(
        { attached },
        'Attached programs may be connect-time programs of an earlier process',
      );
      const note = `${attached} programs are attached that may be of an earlier process`;
      events.aboutNode('ConnectTimeStale', `${note}; asking whose they are needs CAP_SYS_ADMIN`);
    });
  }

  #reportUnknown(err: string): void {
    this.#once(() => {
      const { log } = this.#options;
      log.info({ err }, 'Could not check for connect-time programs of an earlier process');
    });
  }

  #once(report: () => void): void {
    if (!this.#isReported) report();
    this.#isReported = true;
  }
}

function namesOf(programs: Ending['left']): string {
  return programs.map(({ name }) => name).join(' ');
}
