/** Warns before the table of connection tracking is full, and names the Services that fill it. */
import { type ConntrackHolders, topOfConntrack } from '../conntrack/holders.ts';
import { conntrackLosses, conntrackUse } from '../host/conntrack.ts';
import type { HostFiles } from '../host/files.ts';
import type { Conntrack } from '../kernel/conntrack.ts';
import { formatServicePort } from '../net/protocol.ts';
import type { ProgrammedFamily } from '../state/services-by-frontend.ts';
import { type Clock, Wakeup } from '../time/clock.ts';
import type { Logger } from './log.ts';

interface ConntrackWatchOptions {
  /** Undefined: this process does not manage the table. */
  readonly host?: HostFiles;
  readonly clock: Clock;
  readonly conntrack: Conntrack;
  readonly families: () => readonly ProgrammedFamily[];
  readonly log: Logger;
  /** Also creates an event. */
  readonly events: { conntrackFull(note: string): void };
}

/** The interval of checks while the table is less than half full. A check reads two small files. */
const calmCheckMs = 60_000;
/** The interval of checks of a fuller table. */
const checkMs = 10_000;
/** The share of the limit above which checks are frequent. */
const calmShare = 0.5;

/** Crossing one of these shares of the limit is reported immediately. */
const shares = [0.8, 0.95] as const;

/** The least time between two reports of the same. */
const repeatMs = 5 * 60_000;

/** The number of Service ports that a report names. */
const named = 5;

/**
 * A larger table is not read, so no Service is named: reading takes 36 bytes an entry (84 in IPv6).
 */
const entriesMax = 2_000_000;

/** Until `signal` aborts. */
export async function watchConntrack(
  options: ConntrackWatchOptions,
  signal: AbortSignal,
): Promise<void> {
  const { clock, host } = options;
  if (host === undefined) return;
  const warner = new Warner(options, host);
  const wakeup = new Wakeup(clock);
  signal.addEventListener('abort', () => wakeup.wake(), { once: true });
  while (!signal.aborted) {
    await wakeup.wait((await warner.check()) === 'calm' ? calmCheckMs : checkMs);
  }
}

class Warner {
  readonly #options: ConntrackWatchOptions;
  readonly #host: HostFiles;
  /** The level that was last reported; 0 = none. */
  #reportedLevel = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #dropped: number | undefined;

  constructor(options: ConntrackWatchOptions, host: HostFiles) {
    this.#options = options;
    this.#host = host;
  }

  async check(): Promise<'calm' | 'filling'> {
    const use = conntrackUse(this.#host);
    if (use === undefined) return 'calm';
    const dropped = this.#newlyDropped();
    const isCalm = dropped === 0 && use.entries < calmShare * use.limit;
    await this.#judge(use, dropped);
    return isCalm ? 'calm' : 'filling';
  }

  async #judge(use: { entries: number; limit: number }, dropped: number): Promise<void> {
    const reached = shares.filter((share) => use.entries >= share * use.limit).length;
    const level = reached + (dropped > 0 ? 1 : 0);
    const now = this.#options.clock.now();
    const isOld = now - this.#reportedAtMs >= repeatMs;
    if (level === 0 || (level <= this.#reportedLevel && !isOld)) {
      if (isOld) this.#reportedLevel = 0;
      return;
    }
    this.#reportedLevel = level;
    this.#reportedAtMs = now;
    await this.#warn({ ...use, dropped });
  }

  /** Packets dropped since the last call; 0 at the first call. */
  #newlyDropped(): number {
    const dropped = conntrackLosses(this.#host)?.dropped ?? 0;
    const before = this.#dropped ?? dropped;
    this.#dropped = dropped;
    return dropped - before;
  }

  async #warn(use: { entries: number; limit: number; dropped: number }): Promise<void> {
    const { log, events } = this.#options;
    const top = await this.#top(use.entries);
    const services = top?.services.map(nameOf) ?? [];
    log.warn({ ...use, services, others: top?.others }, 'Conntrack table is nearly full');
    const lost = use.dropped > 0 ? `, and ${use.dropped} packets were dropped for it` : '';
    const who = services.length === 0 ? '' : `; most entries have ${services.join(', ')}`;
    const full = `connection tracking holds ${use.entries} of ${use.limit} connections`;
    events.conntrackFull(`${full}${lost}${who}`);
  }

  /**
   * The Services that fill the table. Undefined if that cannot be read; the warning is useful
   * without.
   */
  async #top(entries: number): Promise<ConntrackHolders | undefined> {
    if (entries > entriesMax) return undefined;
    return topOfConntrack(this.#options, named).catch(() => undefined);
  }
}

/** `shop/web:http (61000)` */
function nameOf({ namespace, service, port, entries }: ConntrackHolders['services'][number]) {
  return `${formatServicePort(`${namespace}/${service}`, port)} (${entries})`;
}
