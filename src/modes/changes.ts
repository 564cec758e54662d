/** How each frontend has changed since the last batch, whichever Forwardings it belongs to. */
import { comparePrecedence } from '../state/precedence.ts';
import type { Frontend } from '../state/types.ts';

/** A frontend in a mode's own terms. */
export interface ModeFrontend {
  readonly id: string;
  readonly isShared?: undefined;
  /** What it costs in a batch, in bytes of ops; default 0. */
  readonly bytes?: number;
  /**
   * What it is of the Service, at an address that accepts node ports, in a mode that knows node
   * ports by address. A node port and a frontend of the address may both be claimed: when the
   * address is a ClusterIP, or while Services are resolved for new addresses of the node. Then
   * `state/precedence.ts` decides, as always.
   */
  readonly claimKind?: Frontend['kind'] | undefined;
}

/** The change of one frontend within a batch. `owner`: whom to blame when the kernel refuses it. */
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
  /** What was in force before; undefined = nothing that is known. */
  before: Claim<T> | undefined;
  /** Claims since then that were not released, in their order. */
  claims: readonly Claim<T>[];
}

/**
 * When a frontend gets another owner, one Forwarding releases it and another claims it, in any
 * order and any number of times, but within one batch (`sync/handover.ts` sees to that). `T` is a
 * frontend in a mode's own terms.
 */
export class FrontendChanges<T extends ModeFrontend> {
  readonly #changes = new Map<string, Change<T>>();
  /** All claims to each frontend with a `claimKind`, whether or not they are granted. */
  readonly #claimants = new Map<string, readonly Claim<T>[]>();

  get isAny(): boolean {
    return this.#changes.size > 0;
  }

  has(id: string): boolean {
    return this.#changes.has(id);
  }

  claim(owner: string, frontend: T): void {
    if (frontend.claimKind !== undefined) {
      this.#contest(frontend.id, (claims) => [...claims, { owner, frontend }]);
      return;
    }
    const change = this.#changeOf(frontend.id);
    const claim = { owner, frontend };
    const others = without(change.claims, owner);
    change.claims = others.length === 0 ? [claim] : [...others, claim];
  }

  /** What was claimed since the last batch was not in force before it. */
  release(owner: string, frontend: T): void {
    if (frontend.claimKind !== undefined) {
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

  /** A claim to a frontend in force, which changes nothing. */
  resume(owner: string, frontend: T): void {
    if (frontend.claimKind === undefined) return;
    const claims = this.#claimants.get(frontend.id) ?? [];
    this.#claimants.set(frontend.id, [...claims, { owner, frontend }]);
  }

  /** Whether this Forwarding is the owner of the frontend. */
  holds(owner: string, { id, claimKind }: T): boolean {
    return claimKind === undefined || best(this.#claimants.get(id) ?? [])?.owner === owner;
  }

  /** Forgets all changes and claims; `resume` makes the claims again. */
  reset(): void {
    this.#changes.clear();
    this.#claimants.clear();
  }

  /** Calls for each change, except of frontends that came and went since the last batch. */
  each(call: (id: string, change: FrontendChange<T>) => void): void {
    this.#changes.forEach(({ before, claims }, id) => {
      const after = claims.at(-1);
      const owner = (after ?? before)?.owner;
      if (owner === undefined) return;
      call(id, { owner, before: before?.frontend, after: after?.frontend });
    });
  }

  /** Nothing of what was in force is left in the kernel. */
  startOver(): void {
    for (const change of this.#changes.values()) change.before = undefined;
  }

  clear(): void {
    this.#changes.clear();
  }

  #changeOf(id: string): Change<T> {
    let change = this.#changes.get(id);
    if (change === undefined) {
      change = { before: undefined, claims: noClaims };
      this.#changes.set(id, change);
    }
    return change;
  }
}

const noClaims: readonly never[] = [];

function without<T>(claims: readonly Claim<T>[], owner: string): readonly Claim<T>[] {
  return claims.length === 0 ? claims : claims.filter((claim) => claim.owner !== owner);
}

function best<T extends ModeFrontend>(claims: readonly Claim<T>[]): Claim<T> | undefined {
  let found = claims[0];
  for (const claim of claims) {
    const isBetter = comparePrecedence(claim.frontend.claimKind!, found!.frontend.claimKind!) < 0;
    if (isBetter) found = claim;
  }
  return found;
}
