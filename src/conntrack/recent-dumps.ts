/**
 * Dumps that are a second old at most: to find the connections to one address, the kernel walks its
 * whole table, which takes milliseconds. While there are few, one dump answers for all addresses.
 */
import type { Conntrack, ConntrackDump, ConntrackRequest } from '../kernel/conntrack.ts';
import { sameBytes } from '../net/bytes.ts';
import type { Clock } from '../time/clock.ts';
import { RecentResults } from '../time/recent.ts';

const keepMs = 1000;
/** The most entries, of all families and protocols, that are few. */
const fewMax = 4096;
/** Bytes of a dump that is kept. A few entries of IPv6 take 344,064. */
const bytesMax = 1 << 19;

interface RecentDumpsOptions {
  readonly conntrack: Pick<Conntrack, 'dump'>;
  readonly clock: Pick<Clock, 'now'>;
  /** How many entries the kernel has; undefined: it is not known. */
  readonly count: () => number | undefined;
}

export class RecentDumps implements Pick<Conntrack, 'dump'> {
  readonly #options: RecentDumpsOptions;
  readonly #dumps: RecentResults<ConntrackDump>;

  constructor(options: RecentDumpsOptions) {
    this.#options = options;
    const { clock } = options;
    const isKept = ({ entries }: ConntrackDump): boolean => entries.bytes.length <= bytesMax;
    this.#dumps = new RecentResults({ clock, keepMs, isKept });
  }

  async dump({ destination, ...rest }: ConntrackRequest): Promise<ConntrackDump> {
    if (destination === undefined) return this.#of(rest);
    if (!this.#areFew) return this.#of({ ...rest, destination });
    const { address, port } = destination;
    const { complete, entries } = await this.#of(rest);
    const isAsked = (i: number): boolean => {
      if (entries.port(i, 'originalDestination') !== port) return false;
      return address === undefined || sameBytes(entries.address(i, 'originalDestination'), address);
    };
    return { complete, entries: entries.filter(isAsked) };
  }

  get #areFew(): boolean {
    return (this.#options.count() ?? Number.POSITIVE_INFINITY) <= fewMax;
  }

  #of(request: ConntrackRequest): Promise<ConntrackDump> {
    return this.#dumps.of(keyOf(request), () => this.#options.conntrack.dump(request));
  }
}

function keyOf({ destination, family, protocol, state, zone }: ConntrackRequest): string {
  const { address = new Uint8Array(0), port = '' } = destination ?? {};
  return [family, protocol, state, zone, Buffer.from(address).toString('hex'), port].join(' ');
}
