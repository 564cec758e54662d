/**
 * Real servers that are not desired any more. They have weight 0, so that they get no new
 * connections, and are deleted when their last connection has ended, or is to be ended. After a
 * restart they are read from the kernel.
 */
import { type EndpointKey, endpointKey } from '../../net/endpoint-list.ts';
import { UndoMap } from '../undo-map.ts';
import type { VirtualService } from './observed.ts';

/** The draining real servers of one virtual service. */
interface Drain {
  readonly service: VirtualService;
  /** Each as in an EndpointList. */
  readonly servers: readonly (readonly [EndpointKey, Uint8Array])[];
}

interface ServiceDrain {
  readonly service: VirtualService;
  readonly servers: UndoMap<Uint8Array, EndpointKey>;
}

export class Draining {
  readonly #services = new Map<string, ServiceDrain>();
  /** Those that changed since `confirm`. */
  readonly #changed = new Set<ServiceDrain>();
  /** Those whose connections end by a deletion that is not in force yet, by virtual service. */
  readonly #ending = new Map<string, Set<EndpointKey>>();

  get isAny(): boolean {
    for (const { servers } of this.#services.values()) if (servers.size > 0) return true;
    return false;
  }

  entries(): Drain[] {
    return [...this.#services.values()]
      .filter(({ servers }) => servers.size > 0)
      .map(({ service, servers }) => ({ service, servers: servers.entries() }));
  }

  /** Those of one virtual service. */
  serversOf(id: string): readonly (readonly [EndpointKey, Uint8Array])[] {
    return this.#services.get(id)?.servers.entries() ?? [];
  }

  put(service: VirtualService, packed: Uint8Array): void {
    const drain = this.#services.get(service.id) ?? { service, servers: new UndoMap() };
    this.#services.set(service.id, drain);
    this.#set(drain, endpointKey(service.address.family, packed, 0), packed);
  }

  remove(id: string, endpoint: EndpointKey): void {
    const drain = this.#services.get(id);
    if (drain?.servers.get(endpoint) !== undefined) this.#set(drain, endpoint, undefined);
  }

  /** The real server is deleted, whatever becomes of the batch that is to do it. */
  end(id: string, endpoint: EndpointKey): void {
    const ending = this.#ending.get(id);
    if (ending === undefined) this.#ending.set(id, new Set([endpoint]));
    else ending.add(endpoint);
  }

  /** Those of which `end` was called, and perhaps nothing was written; they are forgotten. */
  takeEnding(id: string): ReadonlySet<EndpointKey> | undefined {
    const ending = this.#ending.get(id);
    this.#ending.delete(id);
    return ending;
  }

  /** The virtual service is deleted, or is read again, with all its real servers. */
  forget(id: string): void {
    const drain = this.#services.get(id);
    for (const [endpoint] of drain?.servers.entries() ?? []) this.#set(drain!, endpoint, undefined);
  }

  /** A batch has what was recorded so far. */
  taken(): void {
    for (const { servers } of this.#changed) servers.take();
  }

  /** The batch is in force in the kernel. */
  confirm(): void {
    this.#ending.clear();
    this.#settle((servers) => servers.confirmTaken());
  }

  /** What was recorded since `confirm` never happened. */
  rollback(): void {
    this.#settle((servers) => servers.rollback());
  }

  #set(drain: ServiceDrain, endpoint: EndpointKey, packed: Uint8Array | undefined): void {
    drain.servers.put(endpoint, packed);
    this.#changed.add(drain);
  }

  #settle(how: (servers: ServiceDrain['servers']) => void): void {
    for (const drain of this.#changed) {
      const { service, servers } = drain;
      how(servers);
      if (servers.isChanged) continue;
      this.#changed.delete(drain);
      if (servers.size === 0) this.#services.delete(service.id);
    }
  }
}
