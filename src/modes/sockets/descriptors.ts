/**
 * How many file descriptors sockets may use. Without a bound, clients, or Services whose endpoints
 * are node ports of each other, use up those that netlink, the API server and probes need.
 */
import { type Bound, type NoRoom, type Shares, sharesOf } from './bounds.ts';
import { Buffers } from './buffers.ts';
import type { ServedFrontend } from './frontends.ts';

interface DescriptorRequest {
  readonly frontend: ServedFrontend;
  readonly client: string;
  /** Descriptors. */
  readonly count: number;
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

/** The room that all sockets of the process share. */
export class Descriptors {
  readonly max: Shares;
  readonly buffers: Buffers;
  readonly #report: (noRoom: NoRoom) => void;
  readonly #clients = new Map<string, number>();
  readonly #frontends = new Map<string, number>();
  readonly #refused = { all: 0, frontend: 0, client: 0 };
  #used = 0;

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
    const reserve = Math.min(reserveMax, Math.ceil(limit * reservePart));
    this.max = sharesOf(Math.min(limit - reserve, roomMax));
    this.#report = report;
  }

  get used(): number {
    return this.#used;
  }

  /** How many connections and datagrams have found no room. */
  get refused(): Readonly<Record<Bound, number>> {
    return this.#refused;
  }

  /** For a socket that listens; undefined = there is no room. */
  listen(): Claim | undefined {
    if (this.#used >= this.max.all) return undefined;
    this.#used += 1;
    return {
      giveBack: () => {
        this.#used -= 1;
      },
    };
  }

  /** For a client of a frontend; undefined = there is no room. */
  take({ frontend, client, count }: DescriptorRequest): Claim | undefined {
    const { id } = frontend;
    const bound = this.#exceeded(id, client, count);
    if (bound !== undefined) {
      this.#refused[bound] += 1;
      this.#report({ of: 'descriptors', bound, frontend, client, max: this.max[bound] });
      return undefined;
    }
    this.#add(id, client, count);
    return { giveBack: () => this.#add(id, client, -1) };
  }

  #exceeded(id: string, client: string, count: number): Bound | undefined {
    const { all, client: ofClient, frontend } = this.max;
    if (this.#used + count > all) return 'all';
    if ((this.#clients.get(client) ?? 0) + count > ofClient) return 'client';
    return (this.#frontends.get(id) ?? 0) + count > frontend ? 'frontend' : undefined;
  }

  #add(id: string, client: string, count: number): void {
    this.#used += count;
    add(this.#clients, client, count);
    add(this.#frontends, id, count);
  }
}

function add(counts: Map<string, number>, key: string, count: number): void {
  const sum = (counts.get(key) ?? 0) + count;
  if (sum === 0) counts.delete(key);
  else counts.set(key, sum);
}
