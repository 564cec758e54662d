/**
 * Real servers that get no new connections (weight 0) because nobody wants them any more: they go
 * when their last connection has ended. The kernel knows them, so a restart forgets none.
 */
import { type EndpointKey, endpointKey } from '../../state/endpoint-list.ts';
import { UndoMap } from '../undo-map.ts';
import type { IPVSFrontend } from './frontends.ts';

export type VirtualService = Pick<IPVSFrontend, 'id' | 'address' | 'protocol' | 'port'>;

/** The draining real servers of one virtual service. */
export interface Drain {
  readonly service: VirtualService;
  /** As in an EndpointList. */
  readonly packed: ReadonlyMap<EndpointKey, Uint8Array>;
}

export class Draining {
  readonly #services = new UndoMap<Drain>();

  get size(): number {
    return this.#services.size;
  }

  entries(): Drain[] {
    return this.#services.entries().map(([, drain]) => drain);
  }

  has(id: string, endpoint: EndpointKey): boolean {
    return this.#services.get(id)?.packed.has(endpoint) ?? false;
  }

  put(service: VirtualService, packed: Uint8Array): void {
    const known = this.#services.get(service.id)?.packed;
    const key = endpointKey(service.address.family, packed, 0);
    this.#services.put(service.id, { service, packed: new Map(known).set(key, packed) });
  }

  remove(id: string, endpoint: EndpointKey): void {
    const known = this.#services.get(id);
    if (known === undefined || !known.packed.has(endpoint)) return;
    const packed = new Map(known.packed);
    packed.delete(endpoint);
    this.#services.put(id, packed.size === 0 ? undefined : { ...known, packed });
  }

  /** The virtual service goes, or is read anew, with all its real servers. */
  forget(id: string): void {
    if (this.#services.get(id) !== undefined) this.#services.put(id, undefined);
  }

  /** What was recorded so far is in force in the kernel. */
  confirm(): void {
    this.#services.confirm();
  }

  /** What was recorded since `confirm` never happened. */
  rollback(): void {
    this.#services.rollback();
  }
}
