/**
 * Which Forwarding owns which pool id. Ids are digests, so two pools might have the same id, and
 * connections of one tenant would reach endpoints of another. The maps take the first one only.
 */

import { binary } from '../../modes/elements.ts';
import type { Forwarding } from '../../state/types.ts';
import { poolsOf, type Setting } from './frontends.ts';
import type { PoolId } from './pool-ids.ts';

interface Owner {
  readonly key: string;
  readonly pool: 'cluster' | 'local';
  /** It is no longer desired; the kernel may still have its elements. */
  isLeaving: boolean;
}

export class PoolOwners {
  readonly #setting: Setting;
  readonly #poolId: PoolId;
  /** By `binary` of the id. */
  readonly #owners = new Map<string, Owner>();
  /** Ids of pools that will be deleted, by key of the owning Forwarding. */
  readonly #leaving = new Map<string, Set<string>>();

  constructor(setting: Setting, poolId: PoolId) {
    this.#setting = setting;
    this.#poolId = poolId;
  }

  /** Whether all of them may be in the maps: no id has another owner, or two owners among them. */
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

  /** Takes the ids for the Forwarding; `areFree` must be true. */
  add(forwarding: Forwarding): void {
    const { key } = forwarding;
    for (const pool of poolsOf(forwarding, this.#setting)) {
      const id = this.#idOf(forwarding, pool);
      this.#owners.set(id, { key, pool, isLeaving: false });
      this.#leaving.get(key)?.delete(id);
    }
  }

  /** An id keeps its owner until the kernel has no element of the pool. */
  remove(forwarding: Forwarding): void {
    const { key } = forwarding;
    for (const pool of poolsOf(forwarding, this.#setting)) {
      const id = this.#idOf(forwarding, pool);
      const owner = this.#owners.get(id);
      if (owner === undefined || !isOf(owner, forwarding, pool)) continue;
      owner.isLeaving = true;
      const leaving = this.#leaving.get(key) ?? new Set();
      this.#leaving.set(key, leaving.add(id));
    }
  }

  /** Returns false, and changes nothing, if ids of `next` have other owners. */
  replace(previous: Forwarding | undefined, next: Forwarding | undefined): boolean {
    if (previous !== undefined && next !== undefined && this.#hasSamePools(previous, next)) {
      return true;
    }
    if (next !== undefined && !this.areFree([next])) return false;
    if (previous !== undefined) this.remove(previous);
    if (next !== undefined) this.add(next);
    return true;
  }

  /** The kernel has the elements of `held`, and no batch is in flight: frees other ids. */
  settle(key: string, held: Forwarding | undefined): void {
    const leaving = this.#leaving.get(key);
    if (leaving === undefined) return;
    const pools = held === undefined ? new Set() : poolsOf(held, this.#setting);
    for (const id of leaving) {
      const owner = this.#owners.get(id);
      if (owner !== undefined && pools.has(owner.pool)) continue;
      if (owner?.isLeaving === true) this.#owners.delete(id);
      leaving.delete(id);
    }
    if (leaving.size === 0) this.#leaving.delete(key);
  }

  /** Whether pools of the Forwarding will be deleted. */
  isLeaving(key: string): boolean {
    return (this.#leaving.get(key)?.size ?? 0) > 0;
  }

  #idOf(forwarding: Forwarding, pool: 'cluster' | 'local'): string {
    return binary(this.#poolId(forwarding, pool));
  }

  #hasSamePools(previous: Forwarding, next: Forwarding): boolean {
    const before = poolsOf(previous, this.#setting);
    const after = poolsOf(next, this.#setting);
    return before.size === after.size && [...before].every((pool) => after.has(pool));
  }
}

function isOf(owner: Owner, { key }: Forwarding, pool: 'cluster' | 'local'): boolean {
  return owner.key === key && owner.pool === pool;
}
