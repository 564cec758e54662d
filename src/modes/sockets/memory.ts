/**
 * Session affinity: the endpoint that each client of a Service port got. All frontends of the
 * Service port share it.
 */
import { EndpointFinder } from '../../net/endpoint-finder.ts';
import { type EndpointKey, type EndpointList, endpointKeys } from '../../net/endpoint-list.ts';

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

/** Beyond this, the client that connected longest ago is forgotten. */
const clientsMax = 65_536;

/** Endpoints of one client: one of each pool, as a policy may forbid an endpoint in one of them. */
const endpointsMax = 2;

export class Memory {
  /** By client, the last to connect at the end; of each client, its last endpoint first. */
  readonly #clients = new Map<string, readonly Remembered[]>();
  /** Of the pools in use: a pool may have 10,000 endpoints, and each connection looks for one. */
  readonly #finders = new WeakMap<EndpointList, EndpointFinder>();
  users = 0;

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
    const known = this.#finders.get(pool);
    if (known !== undefined) return known;
    const finder = new EndpointFinder(pool);
    this.#finders.set(pool, finder);
    return finder;
  }

  remember(client: string, endpoint: EndpointKey, timeoutSeconds: number): void {
    const untilMs = performance.now() + timeoutSeconds * 1000;
    const others = this.#clients.get(client)?.filter((other) => other.endpoint !== endpoint) ?? [];
    this.#clients.delete(client);
    this.#clients.set(client, [{ endpoint, untilMs }, ...others].slice(0, endpointsMax));
    if (this.#clients.size <= clientsMax) return;
    const [oldest] = this.#clients.keys();
    this.#clients.delete(oldest!);
  }

  /** The client's endpoint did not answer. */
  forget(client: string): void {
    this.#clients.delete(client);
  }

  /** Forgets endpoints that the Service port does not have any more. */
  retain({ timeoutSeconds, pools }: Remembering): void {
    if (this.#clients.size === 0) return;
    const keys = endpointKeys(...(timeoutSeconds > 0 ? pools : []));
    for (const [client, all] of this.#clients) {
      const kept = all.filter(({ endpoint }) => keys.has(endpoint));
      if (kept.length === 0) this.#clients.delete(client);
      else if (kept.length < all.length) this.#clients.set(client, kept);
    }
  }
}

/**
 * The memories of all Service ports that have sockets. The last socket takes its memory with it.
 */
export class Memories {
  readonly #held = new Map<string, Memory>();

  join({ id }: Remembering): Memory {
    const memory = this.#held.get(id) ?? new Memory();
    this.#held.set(id, memory);
    memory.users += 1;
    return memory;
  }

  leave({ id }: Remembering): void {
    const memory = this.#held.get(id);
    if (memory === undefined) return;
    memory.users -= 1;
    if (memory.users === 0) this.#held.delete(id);
  }
}
