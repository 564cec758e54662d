/**
 * How many file descriptors sockets may use. Without a bound, clients, or Services whose endpoints
 * are node ports of each other, use up those that netlink, the API server and probes need.
 */
import { blocksOf } from '../../net/block.ts';
import { type Bound, type NoRoom, type Shares, sharesOf, Taken } from './bounds.ts';
import { Buffers } from './buffers.ts';
import { Crowd, type Holding } from './crowd.ts';
import { Datagrams } from './datagrams.ts';
import type { ServedFrontend } from './frontends.ts';

interface DescriptorRequest {
  readonly frontend: ServedFrontend;
  readonly client: string;
  /** Descriptors. */
  readonly count: number;
  /** Closes them: another client gets their room. */
  readonly end: () => void;
}

/** Descriptors that are taken; gives them back one by one. */
export interface Claim {
  giveBack(): void;
}

/**
 * Kept for all else where the limit is high, and the part of it where it is low. Servers of probes,
 * metrics and health-check node ports alone may have 1,536 connections.
 */
const reserveMax = 2048;
const reservePart = 1 / 4;
/** The others are for what else has sockets on the machine. */
const pressurePart = 1 / 2;
/** One thread does not serve more, whatever the limit is. */
const roomMax = 65_536;

interface Claimed extends Holding {
  readonly client: string;
  readonly frontend: ServedFrontend;
  /** Descriptors that were not given back. */
  left: number;
}

/** The room that all sockets of the process share. */
export class Descriptors {
  readonly buffers: Buffers;
  readonly datagrams: Datagrams;
  readonly #report: (noRoom: NoRoom) => void;
  readonly #taken: Taken;
  readonly #clients = new Crowd<Claimed>();
  /** The clients of each frontend, by its id. */
  readonly #ofFrontends = new Map<string, Crowd<Claimed>>();

  /**
   * `limit`: RLIMIT_NOFILE of the process; default: none. `report` gets refused requests. `memory`:
   * bytes that the process may use. `tcpPressure`: bytes from which the kernel makes the buffers of
   * all TCP sockets of the machine smaller.
   */
  constructor(
    limit = Number.MAX_SAFE_INTEGER,
    report: (noRoom: NoRoom) => void = () => {},
    memory = Number.MAX_SAFE_INTEGER,
    tcpPressure = Number.MAX_SAFE_INTEGER,
  ) {
    this.buffers = new Buffers(memory, report, Math.floor(tcpPressure * pressurePart));
    this.datagrams = new Datagrams(memory);
    const reserve = Math.min(reserveMax, Math.ceil(limit * reservePart));
    this.#taken = new Taken(sharesOf(Math.min(limit - reserve, roomMax)));
    this.#report = report;
  }

  get max(): Shares {
    return this.#taken.max;
  }

  get used(): number {
    return this.#taken.all;
  }

  /** How many connections and datagrams have found no room. */
  get refused(): Readonly<Record<Bound, number>> {
    return this.#taken.refused;
  }

  /** For a socket that listens; undefined = there is no room. */
  listen(): Claim | undefined {
    while (!this.#taken.takeForAll(1))
      if (!this.#makesRoom('all', this.#clients, [])) return undefined;
    return { giveBack: () => this.#taken.giveBackForAll(1) };
  }

  /** For a client of a frontend; undefined = there is no room. */
  take({ client, count, end, frontend }: DescriptorRequest): Claim | undefined {
    const of = { client, frontend };
    const blocks = blocksOf(client);
    for (;;) {
      const bound = this.#taken.take(of, count);
      if (bound === undefined) break;
      const crowd = bound === 'all' ? this.#clients : this.#ofFrontends.get(frontend.id);
      const isMade =
        bound !== 'client' && crowd !== undefined && this.#makesRoom(bound, crowd, blocks);
      if (isMade) continue;
      this.#report({ of: 'descriptors', bound, ...of, max: this.max[bound] });
      return undefined;
    }
    const claimed: Claimed = { ...of, blocks, end, left: count };
    this.#clients.add(claimed);
    const crowd = this.#ofFrontends.get(frontend.id) ?? new Crowd();
    this.#ofFrontends.set(frontend.id, crowd);
    crowd.add(claimed);
    return { giveBack: () => this.#giveBack(claimed, Math.min(1, claimed.left)) };
  }

  /** Ends a connection of those that have most, if a client in these blocks has much less. */
  #makesRoom(
    bound: Exclude<Bound, 'client'>,
    crowd: Crowd<Claimed>,
    blocks: readonly string[],
  ): boolean {
    const room = crowd.roomFor(blocks, this.max[bound]);
    if (room === undefined) return false;
    const { client, end, frontend, left } = room;
    this.#giveBack(room, left);
    end();
    this.#report({ of: 'descriptors', bound, frontend, client, max: this.max[bound] });
    return true;
  }

  #giveBack(claimed: Claimed, count: number): void {
    if (count === 0) return;
    this.#taken.giveBack(claimed, count);
    claimed.left -= count;
    if (claimed.left > 0) return;
    const { id } = claimed.frontend;
    this.#clients.delete(claimed);
    const crowd = this.#ofFrontends.get(id);
    crowd?.delete(claimed);
    if (crowd?.isEmpty) this.#ofFrontends.delete(id);
  }
}
