/** What all sockets, those of one frontend and those of one client may take of something. */
import { addCount } from '../../net/counts.ts';
import type { ServedFrontend } from './frontends.ts';

/** What was used up: the part of all sockets, of one frontend, or of one client address. */
export const bounds = ['all', 'frontend', 'client'] as const;
export type Bound = (typeof bounds)[number];
export type Shares = Readonly<Record<Bound, number>>;

/** One frontend gets half, and one client a quarter. */
export function sharesOf(all: number): Shares {
  return { all, frontend: Math.floor(all / 2), client: Math.floor(all / 4) };
}

/**
 * There is no room: for `descriptors`, a new connection was closed or a datagram dropped; for
 * `bytes` in buffers, a connection was reset.
 */
export interface NoRoom {
  readonly of: 'descriptors' | 'bytes';
  readonly bound: Bound;
  readonly frontend: ServedFrontend;
  /** Its address. */
  readonly client: string;
  /** Descriptors or bytes that this bound allows. */
  readonly max: number;
}

/** Whose share something is of. `client` is its address. */
interface Taker {
  readonly frontend: Pick<ServedFrontend, 'id'>;
  readonly client: string;
}

/** What is taken of the shares. */
export class Taken {
  readonly max: Shares;
  readonly #refused = { all: 0, frontend: 0, client: 0 };
  readonly #clients = new Map<string, number>();
  readonly #frontends = new Map<string, number>();
  #all = 0;

  constructor(max: Shares) {
    this.max = max;
  }

  get all(): number {
    return this.#all;
  }

  /** How often a share was used up. */
  get refused(): Readonly<Record<Bound, number>> {
    return this.#refused;
  }

  /** Takes it. Returns the smallest share that is used up, if one is: then nothing is taken. */
  take({ client, frontend }: Taker, count: number): Bound | undefined {
    const bound = this.#exceeded(frontend.id, client, count);
    if (bound === undefined) this.#add(frontend.id, client, count);
    else this.#refused[bound] += 1;
    return bound;
  }

  giveBack({ client, frontend }: Taker, count: number): void {
    this.#add(frontend.id, client, -count);
  }

  /** For what is neither of a frontend's clients. Returns whether there was enough. */
  takeForAll(count: number): boolean {
    if (this.#all + count > this.max.all) return false;
    this.#all += count;
    return true;
  }

  giveBackForAll(count: number): void {
    this.#all -= count;
  }

  #exceeded(id: string, client: string, count: number): Bound | undefined {
    const { all, client: ofClient, frontend } = this.max;
    // The smallest first: who has used it up has no use for room in a larger one.
    if ((this.#clients.get(client) ?? 0) + count > ofClient) return 'client';
    if ((this.#frontends.get(id) ?? 0) + count > frontend) return 'frontend';
    return this.#all + count > all ? 'all' : undefined;
  }

  #add(id: string, client: string, count: number): void {
    this.#all += count;
    addCount(this.#clients, client, count);
    addCount(this.#frontends, id, count);
  }
}
