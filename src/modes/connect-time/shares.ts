/**
 * How much of the maps Services use. A namespace may use no more than it leaves free. So one that
 * is alone gets half of a map, two get a third each, and there is always room for another. A
 * Service that needs more than `ofServiceMax` gets nothing.
 */
import type { Room } from './placement.ts';

export type Size = Room;

export const nothing: Size = { frontends: 0, endpoints: 0 };

/**
 * The most that a Service may have in the maps of a family. It comes into the maps, and leaves
 * them, in one turn of the event loop. A frontend costs 10 to 20 µs there, an endpoint a 64th.
 */
export const ofServiceMax: Size = { frontends: 2 ** 9, endpoints: 2 ** 15 };

/** What it costs to move so much, 1 for what one Service may have at most of a sort. */
export function effortOf(size: Size): number {
  return size.frontends / ofServiceMax.frontends + size.endpoints / ofServiceMax.endpoints;
}

const sorts = ['frontends', 'endpoints'] as const;

export class Shares {
  readonly #most: Room;
  #limit: Room;
  #used: Size = nothing;
  /** What the next batch deletes. It adds first, so that both are there for a moment. */
  #leaving: Size = nothing;
  readonly #byNamespace = new Map<string, Size>();

  constructor(most: Room) {
    this.#most = most;
    this.#limit = most;
  }

  get used(): Size {
    return this.#used;
  }

  /** How much may be used at present. */
  get limit(): Room {
    return this.#limit;
  }

  get isOver(): boolean {
    return sorts.some((sort) => this.#used[sort] > this.#limit[sort]);
  }

  /** Whether a Service may grow. What becomes no larger always fits. */
  fits(namespace: string, from: Size, to: Size): boolean {
    const own = this.#byNamespace.get(namespace) ?? nothing;
    return sorts.every((sort) => {
      const more = to[sort] - from[sort];
      const free = this.#limit[sort] - this.#used[sort] - this.#leaving[sort];
      return more <= 0 || (to[sort] <= ofServiceMax[sort] && own[sort] + more <= free - more);
    });
  }

  /** Records that a Service has become larger or smaller. */
  move(namespace: string, from: Size, to: Size): void {
    const own = moved(this.#byNamespace.get(namespace) ?? nothing, from, to);
    if (own.frontends + own.endpoints === 0) this.#byNamespace.delete(namespace);
    else this.#byNamespace.set(namespace, own);
    this.#used = moved(this.#used, from, to);
    this.#leaving = {
      frontends: this.#leaving.frontends + Math.max(0, from.frontends - to.frontends),
      endpoints: this.#leaving.endpoints + Math.max(0, from.endpoints - to.endpoints),
    };
  }

  /** The batch that is taken deletes what was leaving. Returns whether there is more room now. */
  taken(): boolean {
    const { frontends, endpoints } = this.#leaving;
    this.#leaving = nothing;
    return frontends + endpoints > 0;
  }

  /** Nothing is used; the limit stays. */
  clear(): void {
    this.#used = nothing;
    this.#leaving = nothing;
    this.#byNamespace.clear();
  }

  /** The kernel refused for want of room: from now on half of what is used may be used. */
  halve(): void {
    const { frontends, endpoints } = this.#used;
    this.#limit = { frontends: Math.floor(frontends / 2), endpoints: Math.floor(endpoints / 2) };
  }

  /** Tries twice as much, but no more than there is. */
  double(): void {
    this.#limit = {
      frontends: Math.min(this.#most.frontends, 2 * this.#limit.frontends + 1),
      endpoints: Math.min(this.#most.endpoints, 2 * this.#limit.endpoints + 1),
    };
  }
}

function moved(size: Size, from: Size, to: Size): Size {
  return {
    frontends: size.frontends - from.frontends + to.frontends,
    endpoints: size.endpoints - from.endpoints + to.endpoints,
  };
}
