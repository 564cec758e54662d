/**
 * How many bytes may wait in buffers of connections, those of the kernel and of this process. Each
 * side that does not read lets buffers fill: without a bound, a client with many connections could
 * have the process killed for its memory. Connections that move their bytes on are not touched.
 */

import type { Socket } from 'node:net';
import { type Addon, loadAddon } from '../../kernel/addon.ts';
import { madeAt } from '../../net/made-at.ts';
import { inTurns, Pacer } from '../../time/pacer.ts';
import { type Bound, type NoRoom, type Shares, sharesOf } from './bounds.ts';
import type { ServedFrontend } from './frontends.ts';
import { greediest } from './greediest.ts';

/** A part of the memory that this process may use, and what is enough on large machines. */
const memoryPart = 1 / 8;
const bytesMax = 1024 ** 3;

/**
 * Beyond this part of a bound, buffers of the kernel are limited, so that all that hold much
 * together stay within a larger part. Before that the kernel sizes them: large ones are fast, also
 * over long ways.
 */
const largePart = 1 / 2;
const limitedPart = 3 / 4;
/** Of a connection: four buffers, for which the kernel takes up to twice their payload. */
const bytesOfPayload = 8;
/** A buffer is limited to this payload at least. */
const payloadMin = 32 * 1024;
/** A limit is raised to this multiple of it or more. */
const raiseFrom = 4;
/** Of a bound that is exceeded, an address, and then a network, keeps this part. */
const capPart = 1 / 8;

/** Buffers are looked at so often, but for no more than a fiftieth of the time. */
const lookMs = 100;
const lookPart = 1 / 50;
/** They are looked at earlier when this part of what a client may have has moved. */
const movedPart = 1 / 4;

/** What the kernel keeps ready for the two sockets of a connection on which nothing happens. */
const idleBytes = 16 * 1024;

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
  /** One of its sockets has got bytes, and sends this number of them on. */
  moved(bytes: number): void;
}

/** All connections, those of a frontend, or those of a client. */
interface Group {
  readonly bound: Bound;
  readonly members: Set<Watched>;
  /** In their buffers. */
  bytes: number;
  /** Of payload, in each buffer; undefined = the kernel decides. */
  limit: number | undefined;
}

interface Watched extends Owner {
  readonly groups: readonly Group[];
  readonly sockets: Socket[];
  /** The limit of the buffers of its sockets. */
  limit: number | undefined;
  /** It has moved since its buffers were looked at; when they were, since the time before. */
  isMoving: boolean;
  wasMoving: boolean;
  /** In all its buffers when they were looked at. */
  bytes: number;
}

/** The buffers that all connections share. */
export class Buffers {
  readonly max: Shares;
  readonly #report: (noRoom: NoRoom) => void;
  /** By bound and name. */
  readonly #groups = new Map<string, Group>();
  /** Those with more than a part of what they may have. */
  readonly #large = new Set<Group>();
  /** Those whose bytes may become more or less. */
  readonly #active = new Set<Watched>();
  readonly #ended = { all: 0, frontend: 0, client: 0 };
  #addon: Pick<Addon, 'bufferedBytes' | 'limitBuffers'> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  /** On the clock of `performance.now`. */
  #earliestMs = 0;
  /** Since buffers were looked at. */
  #movedBytes = 0;

  /**
   * `memory`: bytes that the process may use. `kernel`: those that may wait in the kernel, for TCP.
   * `report` gets connections that were reset.
   */
  constructor(memory: number, report: (noRoom: NoRoom) => void, kernel = Number.MAX_SAFE_INTEGER) {
    this.max = sharesOf(Math.min(Math.floor(memory * memoryPart), kernel, bytesMax));
    this.#report = report;
  }

  /** Bytes in buffers, when they were last looked at. */
  get used(): number {
    return this.#groups.get('all')?.bytes ?? 0;
  }

  /** How many connections were reset. */
  get ended(): Readonly<Record<Bound, number>> {
    return this.#ended;
  }

  watch(owner: Owner): Watch {
    this.#addon ??= loadAddon();
    const groups = innerFirst.map((bound) => this.#groupOf(bound, owner));
    const watched: Watched = {
      ...owner,
      ...{ groups, sockets: [], limit: undefined, isMoving: true, wasMoving: true, bytes: 0 },
    };
    for (const { members } of groups) members.add(watched);
    const stirs = (): void => {
      watched.isMoving = true;
      this.#active.add(watched);
      this.#schedule(lookMs);
    };
    return {
      add: (socket) => {
        watched.sockets.push(socket);
        if (watched.limit === undefined) this.#limit(watched);
        else this.#addon!.limitBuffers(descriptorOf(socket), watched.limit);
        socket.once('close', () => {
          watched.sockets.splice(watched.sockets.indexOf(socket), 1);
          if (watched.sockets.length === 0) this.#forget(watched);
        });
        stirs();
      },
      moved: (bytes) => {
        this.#movedBytes += bytes;
        if (!watched.isMoving) stirs();
        if (this.#movedBytes > this.max.client * movedPart) this.#hurry();
      },
    };
  }

  #groupOf(bound: Bound, owner: Owner): Group {
    return madeAt(this.#groups, nameOf(bound, owner), (): Group => {
      return { bound, members: new Set(), bytes: 0, limit: undefined };
    });
  }

  #forget(watched: Watched): void {
    this.#holds(watched, 0);
    this.#active.delete(watched);
    for (const group of watched.groups) {
      group.members.delete(watched);
      if (group.members.size > 0) continue;
      // One that is taken up between the last member and this one has members again.
      this.#groups.delete(nameOf(group.bound, watched));
      this.#large.delete(group);
    }
  }

  #holds(watched: Watched, bytes: number): void {
    const more = bytes - watched.bytes;
    watched.bytes = bytes;
    if (more === 0) return;
    for (const group of watched.groups) {
      group.bytes += more;
      if (group.bytes > this.max[group.bound] * largePart) this.#large.add(group);
      else if (this.#large.delete(group)) group.limit = undefined;
    }
  }

  #schedule(ms: number): void {
    if (this.#isLooking || this.#timer !== undefined) return;
    const restMs = Math.max(ms, this.#earliestMs - performance.now());
    this.#timer = setTimeout(() => void this.#look(), restMs).unref();
  }

  /** What has moved may wait: it is not waited for the usual time. */
  #hurry(): void {
    this.#movedBytes = 0;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#schedule(0);
  }

  /** Counts what waits, and resets connections until no bound is exceeded; in slices. */
  async #look(): Promise<void> {
    this.#timer = undefined;
    this.#isLooking = true;
    this.#movedBytes = 0;
    const pacer = new Pacer();
    let [workedMs, sinceMs] = [0, performance.now()];
    const pause = (): Promise<void> | undefined => {
      if (!pacer.due) return undefined;
      workedMs += performance.now() - sinceMs;
      return pacer.rest().then(() => {
        sinceMs = performance.now();
      });
    };
    await inTurns([...this.#active], pause, (watched) => this.#count(watched));
    for (const bound of innerFirst) {
      for (const group of [...this.#large]) {
        if (group.bound === bound) await this.#keepWithin(group, pause);
      }
    }
    if (this.#large.size > 0) {
      await inTurns([...this.#active], pause, (watched) => this.#limit(watched));
    }
    workedMs += performance.now() - sinceMs;
    this.#isLooking = false;
    this.#earliestMs = performance.now() + workedMs / lookPart;
    // What the kernel takes for a side that is not read grows without an event.
    if (this.#active.size > 0) this.#schedule(lookMs);
  }

  #count(watched: Watched): void {
    if (watched.sockets.length === 0) this.#active.delete(watched);
    watched.wasMoving = watched.isMoving;
    watched.isMoving = false;
    let bytes = 0;
    let isPaused = false;
    for (const socket of watched.sockets) {
      bytes += socket.readableLength + socket.writableLength;
      bytes += this.#addon!.bufferedBytes(descriptorOf(socket));
      isPaused ||= socket.isPaused();
    }
    this.#holds(watched, bytes);
    if (!isPaused && bytes <= idleBytes) this.#active.delete(watched);
  }

  async #keepWithin(group: Group, pause: () => Promise<void> | undefined): Promise<void> {
    const max = this.max[group.bound];
    if (group.bytes > max) {
      const held = [...group.members].filter(({ bytes }) => bytes > 0);
      for await (const next of greediest(held, max * capPart, pause)) {
        if (group.bytes <= max) break;
        if (next.sockets.length > 0) this.#end(next, group.bound);
        const rest = pause();
        if (rest !== undefined) await rest;
      }
    }
    group.limit = await limitOf(group, max * limitedPart, pause);
  }

  #limit(watched: Watched): void {
    const limit = Math.min(...watched.groups.map((one) => one.limit ?? Number.POSITIVE_INFINITY));
    const { limit: now = Number.POSITIVE_INFINITY } = watched;
    if (limit === Number.POSITIVE_INFINITY) return;
    if (limit >= now && limit < now * raiseFrom) return;
    watched.limit = limit;
    for (const one of watched.sockets) this.#addon!.limitBuffers(descriptorOf(one), limit);
  }

  #end(watched: Watched, bound: Bound): void {
    const { client, frontend, sockets } = watched;
    for (const socket of [...sockets]) socket.resetAndDestroy();
    this.#holds(watched, 0);
    this.#active.delete(watched);
    this.#ended[bound] += 1;
    this.#report({ of: 'bytes', bound, frontend, client, max: this.max[bound] });
  }
}

/** Of the payload of each buffer, so that those which hold much have `bytes` with all others. */
async function limitOf(
  { members }: Group,
  bytes: number,
  pause: () => Promise<void> | undefined,
): Promise<number> {
  let left = bytes;
  let count = 0;
  await inTurns([...members], pause, (one) => {
    if (one.bytes > payloadMin * bytesOfPayload) count += 1;
    else left -= one.bytes;
  });
  const each = left / (Math.max(1, count) * bytesOfPayload);
  // A power of two, so that it seldom changes.
  return each <= payloadMin ? payloadMin : 2 ** Math.floor(Math.log2(each));
}

function nameOf(bound: Bound, { client, frontend }: Owner): string {
  if (bound === 'all') return bound;
  return `${bound} ${bound === 'client' ? client : frontend.id}`;
}

/** Of a socket of Node.js; -1 = it is closed. The handle is not documented. */
function descriptorOf(socket: Socket): number {
  return (socket as { _handle?: { readonly fd?: number } | null })._handle?.fd ?? -1;
}
