/**
 * Session affinity: which endpoint a client of a Service port got, whichever of its frontends it
 * came by.
 */
import type { EndpointKey, EndpointList } from '../../net/endpoint-list.ts';

/** What sockets of one Service port have in common; `id` is the same for all of them. */
export interface Remembering {
  readonly id: string;
  /** 0 = no session affinity. */
  readonly timeoutSeconds: number;
  /** All endpoints that any frontend of the Service port may lead to. */
  readonly pools: readonly EndpointList[];
}

interface Remembered {
  readonly endpoint: EndpointKey;
  /** As `performance.now` tells it. */
  readonly untilMs: number;
}

/** Beyond this the client that has been away longest is forgotten. */
const clientsMax = 65_536;

/** As many as pools: a client may get another endpoint where a policy does not allow its own. */
const endpointsMax = 2;

export class Memory {
  /** By name; who connected last is the last one, and its last endpoint the first. */
  readonly #clients = new Map<string, readonly Remembered[]>();
  users = 0;

  /** The index of the endpoint of `pool` that the client had last; undefined = none. */
  recall(pool: EndpointList, client: string): number | undefined {
    const now = performance.now();
    for (const { endpoint, untilMs } of this.#clients.get(client) ?? []) {
      const index = now > untilMs ? undefined : indexOf(pool, endpoint);
      if (index !== undefined) return index;
    }
    return undefined;
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

  /** Endpoints that the Service port has no more are forgotten. */
  retain({ timeoutSeconds, pools }: Remembering): void {
    if (this.#clients.size === 0) return;
    const held = timeoutSeconds > 0 ? new Set(pools) : [];
    const keys = new Set<EndpointKey>();
    for (const pool of held) {
      for (let i = 0; i < pool.length; i += 1) keys.add(pool.key(i));
    }
    for (const [client, all] of this.#clients) {
      const kept = all.filter(({ endpoint }) => keys.has(endpoint));
      if (kept.length === 0) this.#clients.delete(client);
      else if (kept.length < all.length) this.#clients.set(client, kept);
    }
  }
}

function indexOf(pool: EndpointList, endpoint: EndpointKey): number | undefined {
  for (let i = 0; i < pool.length; i += 1) {
    if (pool.key(i) === endpoint) return i;
  }
  return undefined;
}

/** The memories of all Service ports that have sockets; each is gone with its last socket. */
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
