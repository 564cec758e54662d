/** How much of the maps of one family is used. */

import { namespaceOf } from '../../state/types.ts';
import type { Room } from './placement.ts';

export const nothing: Room = { frontends: 0, endpoints: 0 };

/**
 * The most that one Service may have in the maps of a family, so that no Service fills them alone.
 * A Service is added and removed in one turn of the event loop: a frontend costs 10 to 20 µs there,
 * an endpoint a 64th of that.
 */
export const ofServiceMax: Room = { frontends: 2 ** 9, endpoints: 2 ** 15 };

const sorts = ['frontends', 'endpoints'] as const;

/**
 * The Services of a namespace may have this part of the maps of a family together, so that no
 * tenant leaves all others without.
 */
const namespacePart = 1 / 2;

/** The room of one Forwarding. */
interface Claim {
  /** For its desired elements. */
  readonly desired: Room;
  /** For the most elements that the kernel may have of it before the next `settle`. */
  inKernel: Room;
}

export class MapRoom {
  readonly #most: Room;
  #limit: Room;
  #used: Room = nothing;
  readonly #ofNamespaces = new Map<string, Room>();
  /** By key of the Forwarding. */
  readonly #claims = new Map<string, Claim>();

  constructor(most: Room) {
    this.#most = most;
    this.#limit = most;
  }

  /** Includes what the kernel has not deleted yet: a batch adds before it deletes. */
  get used(): Room {
    return this.#used;
  }

  get limit(): Room {
    return this.#limit;
  }

  get isOver(): boolean {
    return sorts.some((sort) => this.#used[sort] > this.#limit[sort]);
  }

  /** Whether a Service (`namespace/name`) may change its size. One that does not grow always fits. */
  fits(service: string, from: Room, to: Room): boolean {
    const ofNamespace = this.#ofNamespaces.get(namespaceOf(service)) ?? nothing;
    return sorts.every((sort) => {
      const more = to[sort] - from[sort];
      if (more <= 0) return true;
      const limit = this.#limit[sort];
      if (ofNamespace[sort] + more > limit * namespacePart) return false;
      return to[sort] <= ofServiceMax[sort] && this.#used[sort] + more <= limit;
    });
  }

  /** Sets the size of the desired elements of a Forwarding. */
  desire(key: string, size: Room): void {
    const { desired, inKernel } = this.#claims.get(key) ?? { desired: nothing, inKernel: nothing };
    this.#set(key, { desired: size, inKernel: larger(desired, inKernel) });
  }

  /**
   * Sets the size of its elements in the kernel while no batch is in flight. Returns whether it is
   * the desired one.
   */
  settle(key: string, size: Room): boolean {
    const claim = this.#claims.get(key);
    const { desired, inKernel } = claim ?? { desired: nothing, inKernel: nothing };
    const isSettled = isWithin(size, desired) && isWithin(desired, size);
    // The usual case: what was desired is there, and takes no more than before.
    if (claim !== undefined && isSettled && size !== nothing && isWithin(inKernel, desired)) {
      claim.inKernel = size;
    } else this.#set(key, { desired, inKernel: size });
    return isSettled;
  }

  /** The kernel had no room or no memory: sets the limit to half of what is used. */
  halve(): void {
    this.#limit = roomOf((sort) => Math.floor(this.#used[sort] / 2));
  }

  /** Doubles the limit, at most to the size of the maps. */
  double(): void {
    this.#limit = roomOf((sort) => Math.min(this.#most[sort], 2 * this.#limit[sort] + 1));
  }

  #set(key: string, claim: Claim): void {
    const before = this.#claims.get(key);
    const size = larger(claim.desired, claim.inKernel);
    const previous = before && larger(before.desired, before.inKernel);
    this.#used = moved(this.#used, previous, size);
    const namespace = namespaceOf(key);
    const all = moved(this.#ofNamespaces.get(namespace), previous, size);
    if (isWithin(all, nothing)) this.#ofNamespaces.delete(namespace);
    else this.#ofNamespaces.set(namespace, all);
    if (size.frontends + size.endpoints === 0) this.#claims.delete(key);
    else this.#claims.set(key, claim);
  }
}

function roomOf(size: (sort: keyof Room) => number): Room {
  return { frontends: size('frontends'), endpoints: size('endpoints') };
}

function isWithin(a: Room, b: Room): boolean {
  return sorts.every((sort) => a[sort] <= b[sort]);
}

function larger(a: Room, b: Room): Room {
  return roomOf((sort) => Math.max(a[sort], b[sort]));
}

/** The sum of `size`, less `from` and plus `to`. */
export function moved(size: Room = nothing, from: Room = nothing, to: Room = nothing): Room {
  return roomOf((sort) => size[sort] - from[sort] + to[sort]);
}
