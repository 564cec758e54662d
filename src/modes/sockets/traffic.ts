/** What sockets count: connections and refusals. The process keeps it as long as it lives. */
import type { Family } from '../../net/address.ts';
import { formatEndpoint } from '../../net/address.ts';
import { inTurns, type Pause } from '../../time/pacer.ts';
import type { Count, RefusalReason } from '../traffic-counts.ts';
import type { Endpoint } from './connection.ts';
import type { ServedFrontend } from './frontends.ts';

interface Tally extends Count {
  count: number;
}

/** Beyond this, what has had no traffic for longest is forgotten. */
const talliesMax = 131_072;

export class Traffic {
  readonly #max: number;
  /** By family and id, what had traffic last at the end. */
  readonly #tallies = new Map<string, Tally>();

  constructor(max = talliesMax) {
    this.#max = max;
  }

  /** A client has come, whatever becomes of it. */
  connection(frontend: ServedFrontend): void {
    this.#add(frontend, 'connections', { kind: 'connections' });
  }

  /** It is joined to this endpoint. */
  joined(frontend: ServedFrontend, { index, pool }: Endpoint): void {
    const endpoint = formatEndpoint(pool.address(index), pool.port(index));
    this.#add(frontend, endpoint, { kind: 'endpoint', endpoint });
  }

  refused(frontend: ServedFrontend, reason: RefusalReason): void {
    this.#add(frontend, reason, { kind: 'refusals', reason });
  }

  /** As `trafficCounts` of a mode. */
  async read(family: Family, pause: Pause, found: (count: Count) => void): Promise<void> {
    await inTurns([...this.#tallies], pause, ([key, tally]) => {
      if (key.startsWith(family)) found(tally);
    });
  }

  #add(frontend: ServedFrontend, what: string, of: Count['of']): void {
    const { address, id: at, port, protocol, claimKind } = frontend;
    const id = `${what} ${at}`;
    const key = `${address.family} ${id}`;
    let tally = this.#tallies.get(key);
    if (tally === undefined) {
      const isNodePort = claimKind === 'nodePort';
      const destination = { address: isNodePort ? undefined : address, port, protocol };
      tally = { id, count: 0, destination, of };
    }
    tally.count += 1;
    this.#tallies.delete(key);
    this.#tallies.set(key, tally);
    if (this.#tallies.size <= this.#max) return;
    const [oldest] = this.#tallies.keys();
    this.#tallies.delete(oldest!);
  }
}
