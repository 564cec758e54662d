/**
 * Which Forwarding has which id of a pool. Ids are digests, so two pools might have one id, and
 * connections of one tenant would reach endpoints of another. The second one gets nothing.
 */
import type { Forwarding } from '../../state/types.ts';
import { binary } from '../elements.ts';
import { poolsOf, type Setting } from './frontends.ts';
import type { PoolId } from './pool-ids.ts';

interface Owner {
  readonly key: string;
  readonly pool: 'cluster' | 'local';
  /** The next batch deletes its elements. */
  isLeaving: boolean;
}

export class PoolOwners {
  readonly #setting: Setting;
  readonly #poolId: PoolId;
  /** By `binary` of the id. */
  readonly #owners = new Map<string, Owner>();
  readonly #leaving = new Set<string>();

  constructor(setting: Setting, poolId: PoolId) {
    this.#setting = setting;
    this.#poolId = poolId;
  }

  /** Whether they may all be in the maps: no id belongs to another, or to two of them. */
  areFree(forwardings: Iterable<Forwarding>): boolean {
    const ids = new Set<string>();
    for (const one of forwardings) {
      for (const pool of poolsOf(one, this.#setting)) {
        const id = this.#idOf(one, pool);
        const owner = this.#owners.get(id);
        if (ids.has(id) || (owner !== undefined && !isOf(owner, one, pool))) return false;
        ids.add(id);
      }
    }
    return true;
  }

  /** Only of what is free. */
  add(forwarding: Forwarding): void {
    for (const pool of poolsOf(forwarding, this.#setting)) {
      const id = this.#idOf(forwarding, pool);
      this.#owners.set(id, { key: forwarding.key, pool, isLeaving: false });
      this.#leaving.delete(id);
    }
  }

  /** An id stays with its owner until a batch has deleted what it leads to. */
  remove(forwarding: Forwarding): void {
    for (const pool of poolsOf(forwarding, this.#setting)) {
      const id = this.#idOf(forwarding, pool);
      const owner = this.#owners.get(id);
      if (owner === undefined || !isOf(owner, forwarding, pool)) continue;
      owner.isLeaving = true;
      this.#leaving.add(id);
    }
  }

  /** Returns false, and changes nothing, where `next` may not have its ids. */
  replace(previous: Forwarding | undefined, next: Forwarding | undefined): boolean {
    if (previous !== undefined && next !== undefined && this.#hasSamePools(previous, next)) {
      return true;
    }
    if (next !== undefined && !this.areFree([next])) return false;
    if (previous !== undefined) this.remove(previous);
    if (next !== undefined) this.add(next);
    return true;
  }

  /** A batch is taken. Returns the ids that are free when it is in force. */
  taken(): readonly string[] {
    const ids = [...this.#leaving];
    this.#leaving.clear();
    return ids;
  }

  /** That batch is in force. Ids that their owners have taken back stay theirs. */
  free(ids: readonly string[]): void {
    for (const id of ids) if (this.#owners.get(id)?.isLeaving) this.#owners.delete(id);
  }

  clear(): void {
    this.#owners.clear();
    this.#leaving.clear();
  }

  #idOf(forwarding: Forwarding, pool: 'cluster' | 'local'): string {
    return binary(this.#poolId(forwarding, pool));
  }

  #hasSamePools(previous: Forwarding, next: Forwarding): boolean {
    if (previous.key !== next.key) return false;
    const before = poolsOf(previous, this.#setting);
    const after = poolsOf(next, this.#setting);
    return before.size === after.size && [...before].every((pool) => after.has(pool));
  }
}

function isOf(owner: Owner, { key }: Forwarding, pool: 'cluster' | 'local'): boolean {
  return owner.key === key && owner.pool === pool;
}
