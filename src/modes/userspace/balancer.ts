/** Chooses endpoints for the clients of one frontend: in turn, or the one that a client had. */
import type { EndpointKey, EndpointList } from '../../state/endpoint-list.ts';
import { poolFor } from './clients.ts';
import type { Endpoint } from './connection.ts';
import type { ServedFrontend } from './frontends.ts';

interface Remembered {
  readonly endpoint: EndpointKey;
  /** As `performance.now` tells it. */
  readonly untilMs: number;
}

/** Beyond this the client that has been away longest is forgotten. */
const clientsMax = 65_536;

export class Balancer {
  /** Not the same on every node. */
  #turn = Math.floor(Math.random() * 0x1_0000);
  /** By address; the last one that connected is the last one. */
  readonly #clients = new Map<string, Remembered>();

  /** An endpoint for a client of the frontend; undefined = it may reach none. */
  choose(frontend: ServedFrontend, client: string): Endpoint | undefined {
    const pool = poolFor(frontend, client);
    if (pool === undefined) return undefined;
    const { affinityTimeoutSeconds } = frontend;
    const known = affinityTimeoutSeconds > 0 ? this.#recall(pool, client) : undefined;
    const index = known ?? this.#next(pool);
    if (affinityTimeoutSeconds > 0) {
      const untilMs = performance.now() + affinityTimeoutSeconds * 1000;
      this.#remember(client, { endpoint: pool.key(index), untilMs });
    }
    return { pool, index };
  }

  /** The client's endpoint did not answer: it gets another one. */
  forget(client: string): void {
    this.#clients.delete(client);
  }

  /** Clients of endpoints that the frontend has no more are forgotten. */
  retain({ affinityTimeoutSeconds, pools }: ServedFrontend): void {
    if (this.#clients.size === 0) return;
    const held = affinityTimeoutSeconds > 0 ? Object.values(pools) : [];
    const keys = new Set<EndpointKey>();
    for (const pool of new Set(held)) {
      for (let i = 0; i < pool.length; i += 1) keys.add(pool.key(i));
    }
    for (const [client, { endpoint }] of this.#clients) {
      if (!keys.has(endpoint)) this.#clients.delete(client);
    }
  }

  #next(pool: EndpointList): number {
    this.#turn += 1;
    return this.#turn % pool.length;
  }

  #recall(pool: EndpointList, client: string): number | undefined {
    const remembered = this.#clients.get(client);
    if (remembered === undefined || performance.now() > remembered.untilMs) return undefined;
    return indexOf(pool, remembered.endpoint);
  }

  #remember(client: string, remembered: Remembered): void {
    this.#clients.delete(client);
    this.#clients.set(client, remembered);
    if (this.#clients.size <= clientsMax) return;
    const [oldest] = this.#clients.keys();
    this.#clients.delete(oldest!);
  }
}

function indexOf(pool: EndpointList, endpoint: EndpointKey): number | undefined {
  for (let i = 0; i < pool.length; i += 1) {
    if (pool.key(i) === endpoint) return i;
  }
  return undefined;
}
