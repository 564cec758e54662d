/** Chooses endpoints for the clients of one frontend: in turn, or the one that a client had. */
import { type Address, cidrContains, formatAddress, parseAddress } from '../../net/address.ts';
import type { EndpointList } from '../../net/endpoint-list.ts';
import type { ClientKind } from '../../state/paths.ts';
import type { RefusalReason } from '../traffic-counts.ts';
import type { Endpoint } from './connection.ts';
import type { ServedFrontend } from './frontends.ts';
import type { Memories, Memory } from './memory.ts';
import type { Traffic } from './traffic.ts';

/** How many turns are looked at for an endpoint that was not tried: a pool may have many slots. */
const turnsMax = 256;
const untried: readonly Endpoint[] = [];

export class Balancer {
  /** Random at first, so that nodes do not begin with the same endpoint. */
  #turn = Math.floor(Math.random() * 0x1_0000);
  #frontend: ServedFrontend;
  readonly #memories: Memories;
  readonly #traffic: Traffic;
  #memory: Memory;

  constructor(frontend: ServedFrontend, memories: Memories, traffic: Traffic) {
    this.#frontend = frontend;
    this.#memories = memories;
    this.#traffic = traffic;
    this.#memory = memories.join(frontend.affinity);
  }

  get frontend(): ServedFrontend {
    return this.#frontend;
  }

  /** Counts a connection of the client. Returns an endpoint for it; undefined = it reaches none. */
  first(client: string): Endpoint | undefined {
    const pool = poolFor(this.#frontend, client);
    if (pool === undefined) return undefined;
    if (pool !== 'source_ranges') this.#traffic.connection(this.#frontend);
    if (typeof pool === 'object') return this.#choose(pool, client);
    this.#traffic.refused(this.#frontend, pool);
    return undefined;
  }

  /**
   * None of these endpoints answered: the client gets another one, now and next time. Clients that
   * came in between had turns, too, so that the next turn may be that of the same endpoint.
   */
  another(client: string, tried: readonly Endpoint[]): Endpoint | undefined {
    this.#memory.forget(this.#nameOf(client));
    const pool = poolFor(this.#frontend, client);
    return typeof pool === 'object' ? this.#choose(pool, client, tried) : undefined;
  }

  /** Counts a connection to the endpoint. */
  joined(endpoint: Endpoint): void {
    this.#traffic.joined(this.#frontend, endpoint);
  }

  /** The frontend has changed, and may belong to another Service. */
  update(next: ServedFrontend): void {
    const memory = this.#memories.join(next.affinity);
    this.close();
    this.#memory = memory;
    this.#frontend = next;
    memory.retain(next.affinity);
  }

  /** No more clients. */
  close(): void {
    this.#memories.leave(this.#frontend.affinity);
  }

  #choose(pool: EndpointList, client: string, tried = untried): Endpoint {
    const { timeoutSeconds } = this.#frontend.affinity;
    if (timeoutSeconds === 0) return { pool, index: this.#next(pool, tried) };
    const name = this.#nameOf(client);
    const index = this.#memory.recall(pool, name) ?? this.#next(pool, tried);
    this.#memory.remember(name, pool.key(index), timeoutSeconds);
    return { pool, index };
  }

  /** The node connects from any address that is bound on it: all of these are one client. */
  #nameOf(client: string): string {
    return client === formatAddress(this.#frontend.address.bytes) ? 'node' : client;
  }

  /** Where all were tried, one of them is again. */
  #next(pool: EndpointList, tried: readonly Endpoint[]): number {
    const keys = tried.map((one) => one.pool.key(one.index));
    for (let i = 0; i < turnsMax; i += 1) {
      this.#turn += 1;
      const index = this.#turn % pool.length;
      if (keys.length === 0 || !keys.includes(pool.key(index))) return index;
    }
    return this.#turn % pool.length;
  }
}

/** The endpoints that this client may reach, or why it reaches none; undefined = it has gone. */
function poolFor(
  frontend: ServedFrontend,
  client: string,
): EndpointList | RefusalReason | undefined {
  // A link-local address may have a zone.
  const address = parseAddress(client.split('%')[0]!);
  if (address === undefined) return undefined;
  if (!isAllowed(frontend, address)) return 'source_ranges';
  const pool = frontend.pools[kindOf(frontend, address)];
  // Where there is no endpoint at all, no socket listens.
  return pool.length === 0 ? 'no_local_endpoints' : pool;
}

function isAllowed({ clients, selfClients }: ServedFrontend, client: Address): boolean {
  if (clients === undefined || clients.holds(client.bytes)) return true;
  return selfClients.some(({ key }) => key === client.key);
}

function kindOf({ address, networks }: ServedFrontend, client: Address): ClientKind {
  if (networks === undefined) return 'outside';
  // The node connects to a bound address from that address itself.
  if (client.key === address.key) return 'node';
  const { hostAddresses, podCIDR } = networks;
  if (hostAddresses.some(({ key }) => key === client.key)) return 'node';
  return podCIDR !== undefined && cidrContains(podCIDR, client) ? 'pod' : 'outside';
}
