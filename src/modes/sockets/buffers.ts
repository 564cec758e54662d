/**
 * How many bytes may wait in buffers of connections, those of the kernel and of this process. Each
 * side that does not read lets buffers fill: without a bound, a client with many connections could
 * have the process killed for its memory. Connections that move their bytes on are not touched.
 */
import type { Socket } from 'node:net';
import { type Addon, loadAddon } from '../../kernel/addon.ts';
import { type Bound, bounds, type NoRoom, type Shares, sharesOf } from './bounds.ts';
import type { ServedFrontend } from './frontends.ts';

/** A part of the memory that this process may use, and what is enough on large machines. */
const memoryPart = 1 / 8;
const bytesMax = 1024 ** 3;

/**
 * Beyond this part of a bound, buffers of the kernel are limited to this payload. Before that the
 * kernel sizes them: large ones are fast, also over long ways.
 */
const limitPart = 1 / 2;
const limitBytes = 32 * 1024;

/** Buffers are looked at so often, but for no more than a fiftieth of the time. */
const lookMs = 100;
const lookPart = 1 / 50;

/** What is ended within a smaller part leaves less to end in a larger one. */
const innerFirst = ['client', 'frontend', 'all'] as const satisfies readonly Bound[];

/** A connection, whose bytes count for its client and its frontend. */
interface Owner {
  readonly frontend: ServedFrontend;
  /** Its address. */
  readonly client: string;
}

/** What waits in the buffers of one connection is looked at from now on. */
export interface Watch {
  /** Adds one of its sockets, which is connected. */
  add(socket: Socket): void;
  /** One of its sockets has sent something. */
  moved(): void;
}

interface Watched extends Owner {
  readonly sockets: Socket[];
  /** The buffers of its sockets are. */
  isLimited: boolean;
  /** It has moved since buffers were looked at. */
  isMoving: boolean;
  /** In all its buffers when they were looked at. */
  bytes: number;
}

/** The buffers that all connections share. */
export class Buffers {
  readonly max: Shares;
  readonly #report: (noRoom: NoRoom) => void;
  readonly #watched = new Set<Watched>();
  /** Clients, frontends or all that have much, by `groupOf`, when buffers were looked at. */
  #large = new Set<string>();
  readonly #ended = { all: 0, frontend: 0, client: 0 };
  #addon: Pick<Addon, 'bufferedBytes' | 'limitBuffers'> | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `memory`: bytes that the process may use. `report` gets connections that were reset. */
  constructor(memory: number, report: (noRoom: NoRoom) => void) {
    this.max = sharesOf(Math.min(Math.floor(memory * memoryPart), bytesMax));
    this.#report = report;
  }

  /** Bytes in buffers, when they were last looked at. */
  get used(): number {
    return sumOf(this.#watched);
  }

  /** How many connections were reset. */
  get ended(): Readonly<Record<Bound, number>> {
    return this.#ended;
  }

  watch(owner: Owner): Watch {
    this.#addon ??= loadAddon();
    const { limitBuffers } = this.#addon;
    const isLimited = bounds.some((bound) => this.#large.has(groupOf(bound, owner)));
    const watched: Watched = { ...owner, sockets: [], isLimited, isMoving: true, bytes: 0 };
    this.#watched.add(watched);
    return {
      add: (socket) => {
        if (watched.isLimited) limitBuffers(descriptorOf(socket), limitBytes);
        watched.sockets.push(socket);
        socket.once('close', () => {
          watched.sockets.splice(watched.sockets.indexOf(socket), 1);
          if (watched.sockets.length === 0) this.#watched.delete(watched);
        });
        this.#schedule(lookMs);
      },
      moved: () => {
        watched.isMoving = true;
        this.#schedule(lookMs);
      },
    };
  }

  #schedule(ms: number): void {
    this.#timer ??= setTimeout(this.#look, ms).unref();
  }

  /** Counts what waits, and resets connections until no bound is exceeded. */
  readonly #look = (): void => {
    this.#timer = undefined;
    const startedMs = performance.now();
    let isAnyPaused = false;
    for (const watched of this.#watched) {
      watched.bytes = 0;
      for (const socket of watched.sockets) {
        watched.bytes += this.#bytesIn(socket);
        isAnyPaused ||= socket.isPaused();
      }
    }
    this.#large = new Set();
    for (const bound of innerFirst) this.#keepWithin(bound);
    for (const watched of this.#watched) watched.isMoving = false;
    // What the kernel takes for a side that is not read grows without an event.
    const tookMs = performance.now() - startedMs;
    if (isAnyPaused) this.#schedule(Math.max(lookMs, tookMs / lookPart));
  };

  #bytesIn(socket: Socket): number {
    const ours = socket.readableLength + socket.writableLength;
    return ours + this.#addon!.bufferedBytes(descriptorOf(socket));
  }

  #keepWithin(bound: Bound): void {
    const max = this.max[bound];
    const sums = new Map<string, number>();
    for (const one of this.#watched) {
      const group = groupOf(bound, one);
      sums.set(group, (sums.get(group) ?? 0) + one.bytes);
    }
    for (const [group, sum] of sums) {
      if (sum <= max * limitPart) continue;
      this.#large.add(group);
      const members = [...this.#watched].filter((one) => groupOf(bound, one) === group);
      if (sum > max) for (const one of inOrder(members, sum - max)) this.#end(one, bound);
      for (const one of members) this.#limit(one);
    }
  }

  #limit(watched: Watched): void {
    if (watched.isLimited) return;
    watched.isLimited = true;
    for (const one of watched.sockets) this.#addon!.limitBuffers(descriptorOf(one), limitBytes);
  }

  #end(watched: Watched, bound: Bound): void {
    const { client, frontend, sockets } = watched;
    this.#watched.delete(watched);
    for (const socket of [...sockets]) socket.resetAndDestroy();
    this.#ended[bound] += 1;
    this.#report({ of: 'bytes', bound, frontend, client, max: this.max[bound] });
  }
}

/**
 * Which to end to free these bytes: always one of the client that has most bytes; of its
 * connections the one that has most, among those that do not move where there are any.
 */
function* inOrder(members: readonly Watched[], bytes: number): Generator<Watched> {
  const byClient = Map.groupBy(members, ({ client }) => client);
  const clients = [...byClient.values()].map((all) => ({ all: all.sort(last), sum: sumOf(all) }));
  for (let left = bytes; left > 0; ) {
    const greediest = clients.reduce((a, b) => (b.sum > a.sum ? b : a));
    const next = greediest.all.pop()!;
    greediest.sum -= next.bytes;
    left -= next.bytes;
    yield next;
  }
}

/** Sorts those to end first to the end. */
function last(a: Watched, b: Watched): number {
  return Number(b.isMoving) - Number(a.isMoving) || a.bytes - b.bytes;
}

function groupOf(bound: Bound, { client, frontend }: Owner): string {
  if (bound === 'all') return bound;
  return `${bound} ${bound === 'client' ? client : frontend.id}`;
}

function sumOf(all: Iterable<Watched>): number {
  let sum = 0;
  for (const { bytes } of all) sum += bytes;
  return sum;
}

/** Of a socket of Node.js; -1 = it is closed. The handle is not documented. */
function descriptorOf(socket: Socket): number {
  return (socket as { _handle?: { readonly fd?: number } | null })._handle?.fd ?? -1;
}
