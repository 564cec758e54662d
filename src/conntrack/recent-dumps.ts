/**
 * Dumps that are a second old at most: to find the connections to one address, the kernel walks its
 * whole table, which takes milliseconds.
 */
import type { Conntrack, ConntrackDump, ConntrackRequest } from '../kernel/conntrack.ts';
import type { Clock } from '../time/clock.ts';
import { RecentResults } from '../time/recent.ts';

const keepMs = 1000;
/** Bytes of a dump that is kept. */
const bytesMax = 1 << 18;

export class RecentDumps implements Pick<Conntrack, 'dump'> {
  readonly #conntrack: Pick<Conntrack, 'dump'>;
  readonly #dumps: RecentResults<ConntrackDump>;

  constructor(conntrack: Pick<Conntrack, 'dump'>, clock: Pick<Clock, 'now'>) {
    this.#conntrack = conntrack;
    const isKept = ({ entries }: ConntrackDump): boolean => entries.bytes.length <= bytesMax;
    this.#dumps = new RecentResults({ clock, keepMs, isKept });
  }

  dump(request: ConntrackRequest): Promise<ConntrackDump> {
    return this.#dumps.of(keyOf(request), () => this.#conntrack.dump(request));
  }
}

function keyOf({ destination, family, protocol, state, zone }: ConntrackRequest): string {
  const { address = new Uint8Array(0), port = '' } = destination ?? {};
  return [family, protocol, state, zone, Buffer.from(address).toString('hex'), port].join(' ');
}
