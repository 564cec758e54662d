/**
 * Session affinity: the endpoint that each client of a Service port got. All frontends of the
 * Service port share it.
 */

import { EndpointFinder } from '../../net/endpoint-finder.ts';
import { type EndpointKey, type EndpointList, endpointKeys } from '../../net/endpoint-list.ts';
import { listEquality, sameValue } from '../../net/equality.ts';
import { madeAt } from '../../net/made-at.ts';

/** The session affinity that all sockets of one Service port share. `id` identifies it. */
export interface Remembering {
  readonly id: string;
  /** 0 = no session affinity. */
  readonly timeoutSeconds: number;
  /** All endpoints that any frontend of the Service port may lead to. */
  readonly pools: readonly EndpointList[];
}

interface Remembered {
  readonly endpoint: EndpointKey;
  /** On the clock of `performance.now`. */
  readonly untilMs: number;
}

/** Of one Service port. Beyond this, the client that connected longest ago is forgotten. */
const clientsMax = 65_536;

/**
 * Of all Service ports: a tenant may have any number of these. Beyond this, the Service port with
 * most clients forgets a part of them.
 */
const allMax = 4 * clientsMax;
const forgottenPart = 1 / 16;

/** Endpoints of one client: one of each pool, as a policy may forbid an endpoint in one of them. */
const endpointsMax = 2;

export class Memory {
  /** By client, the last to connect at the end; of each client, its last endpoint first. */
  readonly #clients = new Map<string, readonly Remembered[]>();
  /** Of the pools in use: a pool may have 10,000 endpoints, and each connection looks for one. */
  readonly #finders = new WeakMap<EndpointList, EndpointFinder>();
  readonly #changed: (clients: 1 | -1) => void;
  /** The pools of the last `retain`. */
  #retained: readonly EndpointList[] | undefined;
  users = 0;

  /** `changed` is called when there is one client more or less. */
  constructor(changed: (clients: 1 | -1) => void) {
    this.#changed = changed;
  }

  /** How many clients it has. */
  get size(): number {
    return this.#clients.size;
  }

  /** The index of the endpoint of `pool` that the client had last; undefined = none. */
  recall(pool: EndpointList, client: string): number | undefined {
    const now = performance.now();
    for (const { endpoint, untilMs } of this.#clients.get(client) ?? []) {
      const index = now > untilMs ? -1 : this.#finderOf(pool).find(endpoint);
      if (index >= 0) return index;
    }
    return undefined;
  }

  #finderOf(pool: EndpointList): EndpointFinder {
    return madeAt(this.#finders, pool, () => new EndpointFinder(pool));
  }

  remember(client: string, endpoint: EndpointKey, timeoutSeconds: number): void {
    const untilMs = performance.now() + timeoutSeconds * 1000;
    const others = this.#clients.get(client)?.filter((other) => other.endpoint !== endpoint) ?? [];
    const isKnown = this.#clients.delete(client);
    this.#clients.set(client, [{ endpoint, untilMs }, ...others].slice(0, endpointsMax));
    if (this.#clients.size > clientsMax) this.forgetOldest(1);
    if (!isKnown) this.#changed(1);
  }

  /** The client's endpoint did not answer. */
  forget(client: string): void {
    if (this.#clients.delete(client)) this.#changed(-1);
  }

  /** Forgets those that connected longest ago. */
  forgetOldest(count: number): void {
    let left = count;
    for (const client of this.#clients.keys()) {
      if (left === 0) return;
      left -= 1;
      this.forget(client);
    }
  }

  /** Forgets endpoints that the Service port does not have any more. */
  retain({ timeoutSeconds, pools }: Remembering): void {
    const allowed = timeoutSeconds > 0 ? pools : [];
    // All frontends of the Service port say the same, one after the other.
    if (sameLists(allowed, this.#retained)) return;
    this.#retained = allowed;
    if (this.#clients.size === 0) return;
    const keys = endpointKeys(...allowed);
    for (const [client, all] of this.#clients) {
      const kept = all.filter(({ endpoint }) => keys.has(endpoint));
      if (kept.length === 0) this.forget(client);
      else if (kept.length < all.length) this.#clients.set(client, kept);
    }
  }
}

const sameLists = listEquality(sameValue<EndpointList>);

/**
 * The memories of all Service ports that have sockets. The last socket takes its memory with it.
 */
export class Memories {
  readonly #held = new Map<string, Memory>();
  readonly #max: number;
  /** Clients of all. */
  #size = 0;

  constructor(max = allMax) {
    this.#max = max;
  }

  join({ id }: Pick<Remembering, 'id'>): Memory {
    const memory = this.#held.get(id) ?? this.#make(id);
    memory.users += 1;
    return memory;
  }

  #make(id: string): Memory {
    const made = new Memory((clients) => {
      // A connection that looks for an endpoint may outlive the sockets that listen.
      if (this.#held.get(id) === made) this.#resize(clients);
    });
    this.#held.set(id, made);
    return made;
  }

  leave({ id }: Pick<Remembering, 'id'>): void {
    const memory = this.#held.get(id);
    if (memory === undefined) return;
    memory.users -= 1;
    if (memory.users > 0) return;
    this.#held.delete(id);
    this.#size -= memory.size;
  }

  #resize(clients: 1 | -1): void {
    this.#size += clients;
    if (this.#size <= this.#max) return;
    let [largest] = this.#held.values();
    for (const one of this.#held.values()) if (one.size > largest!.size) largest = one;
    largest!.forgetOldest(Math.ceil(largest!.size * forgottenPart));
  }
}
