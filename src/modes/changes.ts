/** What has become of each frontend since the last batch, through whichever Forwardings. */

/** A frontend in a mode's own terms. */
export interface ModeFrontend {
  readonly id: string;
  /**
   * It is at an address that accepts node ports, in a mode that knows node ports by address: a
   * frontend with an address of its own and a node port may be one there. The former has it.
   */
  readonly rank?: 'address' | 'node port' | undefined;
}

/** The change of one frontend within a batch. `owner` is whose failure it would be. */
export interface FrontendChange<T> {
  readonly owner: string;
  readonly before: T | undefined;
  readonly after: T | undefined;
}

interface Claim<T> {
  readonly owner: string;
  readonly frontend: T;
}

interface Change<T> {
  /** What was in force before; undefined = nothing, as far as anyone has said. */
  before: Claim<T> | undefined;
  /** Those who took it since and have not given it up, the last of them last. */
  claims: readonly Claim<T>[];
}

/**
 * A frontend that changes hands is given up by one Forwarding and taken by another, in any order
 * and any number of times, but within one batch: whoever tells a planner of changes sees to that
 * (`sync/handover.ts`). `T` is a frontend in a mode's own terms.
 */
export class FrontendChanges<T extends ModeFrontend> {
  readonly #changes = new Map<string, Change<T>>();
  /** All who want a frontend that has a rank, whether or not they get it. */
  readonly #claimants = new Map<string, readonly Claim<T>[]>();

  has(id: string): boolean {
    return this.#changes.has(id);
  }

  claim(owner: string, frontend: T): void {
    if (frontend.rank !== undefined) {
      this.#contest(frontend.id, (claims) => [...claims, { owner, frontend }]);
      return;
    }
    const change = this.#changeOf(frontend.id);
    change.claims = [...without(change.claims, owner), { owner, frontend }];
  }

  /** Only what was not taken since the last batch can have been in force before. */
  release(owner: string, frontend: T): void {
    if (frontend.rank !== undefined) {
      this.#contest(frontend.id, (claims) => without(claims, owner));
      return;
    }
    const change = this.#changeOf(frontend.id);
    const rest = without(change.claims, owner);
    if (rest.length === change.claims.length) change.before = { owner, frontend };
    else change.claims = rest;
  }

  #contest(id: string, step: (claims: readonly Claim<T>[]) => readonly Claim<T>[]): void {
    const claims = this.#claimants.get(id) ?? [];
    const change = this.#changes.get(id) ?? { before: best(claims), claims: [] };
    const now = step(claims);
    const holder = best(now);
    if (now.length > 0) this.#claimants.set(id, now);
    else this.#claimants.delete(id);
    change.claims = holder === undefined ? [] : [holder];
    this.#changes.set(id, change);
  }

  /** A claim to what is in force already: there is no change. */
  resume(owner: string, frontend: T): void {
    if (frontend.rank === undefined) return;
    const claims = this.#claimants.get(frontend.id) ?? [];
    this.#claimants.set(frontend.id, [...claims, { owner, frontend }]);
  }

  /** Whether this Forwarding gets the frontend that it wants. */
  holds(owner: string, { id, rank }: T): boolean {
    return rank === undefined || best(this.#claimants.get(id) ?? [])?.owner === owner;
  }

  /** Nothing waits any more; who wants what is to be told by `resume`. */
  reset(): void {
    this.#changes.clear();
    this.#claimants.clear();
  }

  /** All but those that have come and gone since the last batch. */
  *entries(): Generator<[id: string, FrontendChange<T>]> {
    for (const [id, { before, claims }] of this.#changes) {
      const after = claims.at(-1);
      const owner = (after ?? before)?.owner;
      if (owner === undefined) continue;
      yield [id, { owner, before: before?.frontend, after: after?.frontend }];
    }
  }

  /** Nothing of what was in force is left in the kernel. */
  startAnew(): void {
    for (const change of this.#changes.values()) change.before = undefined;
  }

  clear(): void {
    this.#changes.clear();
  }

  #changeOf(id: string): Change<T> {
    let change = this.#changes.get(id);
    if (change === undefined) {
      change = { before: undefined, claims: [] };
      this.#changes.set(id, change);
    }
    return change;
  }
}

function without<T>(claims: readonly Claim<T>[], owner: string): readonly Claim<T>[] {
  return claims.length === 0 ? claims : claims.filter((claim) => claim.owner !== owner);
}

function best<T extends ModeFrontend>(claims: readonly Claim<T>[]): Claim<T> | undefined {
  return claims.find(({ frontend }) => frontend.rank === 'address') ?? claims[0];
}
