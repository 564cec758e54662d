/** What has become of each frontend since the last batch, through whichever Forwardings. */
import type { FrontendChange } from './frontend-writer.ts';
import type { FrontendElements } from './frontends.ts';

interface Claim {
  readonly owner: string;
  readonly frontend: FrontendElements;
}

interface Change {
  /** What was in force before; undefined = nothing, as far as anyone has said. */
  before: Claim | undefined;
  /** Those who took it since and have not given it up, the last of them last. */
  claims: readonly Claim[];
}

/**
 * A frontend that changes hands is given up by one Forwarding and taken by another, in any order
 * and any number of times within a batch.
 */
export class FrontendChanges {
  readonly #changes = new Map<string, Change>();

  has(id: string): boolean {
    return this.#changes.has(id);
  }

  claim(owner: string, frontend: FrontendElements): void {
    const change = this.#changeOf(frontend.id);
    change.claims = [...without(change.claims, owner), { owner, frontend }];
  }

  /** Only what was not taken since the last batch can have been in force before. */
  release(owner: string, frontend: FrontendElements): void {
    const change = this.#changeOf(frontend.id);
    const rest = without(change.claims, owner);
    if (rest.length === change.claims.length) change.before = { owner, frontend };
    else change.claims = rest;
  }

  /** All but those that have come and gone since the last batch. */
  *entries(): Generator<[id: string, FrontendChange]> {
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

  #changeOf(id: string): Change {
    let change = this.#changes.get(id);
    if (change === undefined) {
      change = { before: undefined, claims: none };
      this.#changes.set(id, change);
    }
    return change;
  }
}

const none: readonly Claim[] = [];

function without(claims: readonly Claim[], owner: string): readonly Claim[] {
  return claims.length === 0 ? claims : claims.filter((claim) => claim.owner !== owner);
}
