/** Warns before the table of connection tracking is full, and names the Services that fill it. */
import { type ConntrackHolders, topOfConntrack } from '../conntrack/holders.ts';
import { type ConntrackLosses, conntrackLosses, conntrackUse } from '../host/conntrack.ts';
import type { HostFiles } from '../host/files.ts';
import type { Conntrack } from '../kernel/conntrack.ts';
import { formatServicePort } from '../net/protocol.ts';
import type { FrontendsByFamily } from '../state/frontends-in-force.ts';
import { type Clock, pause } from '../time/clock.ts';
import type { ClusterEvents } from './cluster-events.ts';
import type { Logger } from './log.ts';

interface ConntrackWatchOptions {
  /** Undefined: this process does not manage the table. */
  readonly host?: HostFiles;
  readonly clock: Clock;
  readonly conntrack: Conntrack;
  readonly agent: { readonly engine: { readonly frontends: FrontendsByFamily } | undefined };
  readonly log: Logger;
  /** Also creates an event. */
  readonly events: Pick<ClusterEvents, 'aboutNode'>;
}

/**
 * A check reads three small files. An empty table can be full within a second; that it was full
 * between two checks is known from what was lost.
 */
const checkMs = 10_000;

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
  while (!signal.aborted) {
    await warner.check();
    await pause(checkMs, signal, clock);
  }
}

type Lost = Pick<ConntrackLosses, 'dropped' | 'evicted'>;

class Warner {
  readonly #options: ConntrackWatchOptions;
  readonly #host: HostFiles;
  /** The level that was last reported; 0 = none. */
  #reportedLevel = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  #losses: Lost | undefined;

  constructor(options: ConntrackWatchOptions, host: HostFiles) {
    this.#options = options;
    this.#host = host;
  }

  async check(): Promise<void> {
    const use = conntrackUse(this.#host);
    if (use === undefined) return;
    const lost = this.#newlyLost();
    const reached = shares.filter((share) => use.entries >= share * use.limit).length;
    const level = reached + (lost.dropped + lost.evicted > 0 ? 1 : 0);
    const now = this.#options.clock.now();
    const isOld = now - this.#reportedAtMs >= repeatMs;
    if (level === 0 || (level <= this.#reportedLevel && !isOld)) {
      if (isOld && this.#reportedLevel > 0) {
        this.#reportedLevel = 0;
        this.#options.log.info({ ...use }, 'Conntrack table has room again');
      }
      return;
    }
    this.#reportedLevel = level;
    this.#reportedAtMs = now;
    await this.#warn({ ...use, ...lost });
  }

  /** What was lost of a full table since the last call; nothing at the first call. */
  #newlyLost(): Lost {
    const now = conntrackLosses(this.#host) ?? this.#losses ?? { dropped: 0, evicted: 0 };
    const before = this.#losses ?? now;
    this.#losses = now;
    return { dropped: now.dropped - before.dropped, evicted: now.evicted - before.evicted };
  }

  async #warn(use: { entries: number; limit: number } & Lost): Promise<void> {
    const { log, events } = this.#options;
    const top = await this.#top(use.entries);
    const services = top?.services.map(nameOf) ?? [];
    log.warn({ ...use, services, others: top?.others }, 'Conntrack table is nearly full');
    const dropped = use.dropped > 0 ? `, and ${use.dropped} packets were dropped for it` : '';
    const evicted = use.evicted > 0 ? `, and ${use.evicted} connections were evicted for it` : '';
    const who = services.length === 0 ? '' : `; most entries have ${services.join(', ')}`;
    const full = `connection tracking holds ${use.entries} of ${use.limit} connections`;
    events.aboutNode('ConntrackNearlyFull', `${full}${dropped}${evicted}${who}`);
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
