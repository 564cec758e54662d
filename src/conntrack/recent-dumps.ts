/**
 * Dumps that are a second old at most, for those who ask the same again and again: to find the
 * connections to one address, the kernel walks its whole table, which takes milliseconds.
 */
import type { Conntrack, ConntrackDump, ConntrackRequest } from '../kernel/conntrack.ts';

const keepMs = 1000;
/** Dumps that are kept, and bytes of one that is. */
const dumpsMax = 16;
const bytesMax = 1 << 18;

interface Dump {
  readonly readAtMs: number;
  readonly result: Promise<ConntrackDump>;
}

export class RecentDumps implements Pick<Conntrack, 'dump'> {
  readonly #conntrack: Pick<Conntrack, 'dump'>;
  readonly #clock: { now(): number };
  /** By request, the oldest first. */
  readonly #dumps = new Map<string, Dump>();

  constructor(conntrack: Pick<Conntrack, 'dump'>, clock: { now(): number }) {
    this.#conntrack = conntrack;
    this.#clock = clock;
  }

  async dump(request: ConntrackRequest): Promise<ConntrackDump> {
    const key = keyOf(request);
    this.#forget();
    const known = this.#dumps.get(key);
    if (known !== undefined) return known.result;
    const result = this.#conntrack.dump(request);
    this.#dumps.set(key, { readAtMs: this.#clock.now(), result });
    try {
      const dump = await result;
      if (dump.entries.bytes.length > bytesMax) this.#dumps.delete(key);
      return dump;
    } catch (error) {
      this.#dumps.delete(key);
      throw error;
    }
  }

  #forget(): void {
    const now = this.#clock.now();
    for (const [key, { readAtMs }] of this.#dumps) {
      const isOld = now - readAtMs >= keepMs;
      if (!isOld && this.#dumps.size < dumpsMax) return;
      this.#dumps.delete(key);
    }
  }
}

function keyOf({ destination, family, protocol, state, zone }: ConntrackRequest): string {
  const { address = new Uint8Array(0), port = '' } = destination ?? {};
  return [family, protocol, state, zone, Buffer.from(address).toString('hex'), port].join(' ');
}
