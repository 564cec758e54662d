/** Claimed ports that a range of ports may have, too. */
import { type Claim, type Claims, firstOf, isSingle, rangeAt } from './claims.ts';
import type { ClaimKey } from './frontend-key.ts';

/** The number of claims that are looked at in one step. */
export const claimsAStep = 128;

type All = ReadonlyMap<ClaimKey, Claims | undefined>;

export class SinglePorts {
  /** By the key of a range at their address; undefined until there is a range. */
  #at: Map<ClaimKey, Set<ClaimKey>> | undefined;
  /** Claims from before the first range that were not added yet. */
  #rest: Iterable<readonly [ClaimKey, Claims | undefined]> = [];

  get isBegun(): boolean {
    return this.#at !== undefined;
  }

  at(range: ClaimKey): Iterable<ClaimKey> {
    return this.#at?.get(range) ?? [];
  }

  /** To be called before a range is claimed: the first call adds all claims that there are. */
  *begin(claims: All): Generator<undefined> {
    if (this.#at === undefined) {
      this.#at = new Map();
      this.#rest = claims.entries();
    }
    let added = 0;
    // An iterator: Services that come at the same time continue where it is.
    for (const [key, some] of this.#rest) {
      if (some !== undefined) this.add(key, firstOf(some));
      added += 1;
      if (added % claimsAStep === 0) yield;
    }
  }

  add(key: ClaimKey, claim: Claim): void {
    if (this.#at !== undefined && isSingle(claim.frontend)) add(this.#at, rangeAt(key, claim), key);
  }

  /** Removes those that no Service has claimed again. */
  *remove(gone: readonly (readonly [ClaimKey, Claim])[], claims: All): Generator<undefined> {
    let removed = 0;
    for (const [key, claim] of gone) {
      removed += 1;
      if (removed % claimsAStep === 0) yield;
      if (!claims.has(key)) remove(this.#at!, rangeAt(key, claim), key);
    }
  }
}

/** Of sets by keys, none of which is empty. */
export function add<K, V>(sets: Map<K, Set<V>>, key: K, value: V): void {
  const known = sets.get(key);
  if (known === undefined) sets.set(key, new Set([value]));
  else known.add(value);
}

export function remove<K, V>(sets: Map<K, Set<V>>, key: K, value: V): void {
  const known = sets.get(key);
  known?.delete(value);
  if (known?.size === 0) sets.delete(key);
}
