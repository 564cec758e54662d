/** The claims to one frontend. Usually there is only one. */
import type { Frontend } from './types.ts';

/** Ranks of claims: the lower one is better. */
export const ranks = {
  clusterIP: 0,
  loadBalancerIP: 1,
  nodePort: 2,
  externalIP: 3,
} as const satisfies Record<Frontend['kind'], number>;

/** One Service's claim. */
interface Claim {
  readonly service: string;
  readonly createdMs: number;
  /** The rank of the frontend's kind: the lowest is best. */
  readonly rank: number;
  held: boolean;
  /** The better claimant that was reported. */
  lostTo: string | undefined;
}

/**
 * Several claims. They are a heap: only the best one is ever needed, and a thousand Services with
 * the same claim may come and go in any order.
 */
class Contest {
  holder: Claim | undefined;
  readonly #byService: Map<string, Claim>;
  /**
   * The parent of `i` is at `(i - 1) >> 1` and better. Claims but the first may have been removed.
   */
  #heap: Claim[];

  constructor(only: Claim) {
    this.#heap = [only];
    this.#byService = new Map([[only.service, only]]);
    this.holder = only.held ? only : undefined;
  }

  get best(): Claim {
    return this.#heap[0]!;
  }

  /** The only claim that is left. */
  get only(): Claim | undefined {
    return this.#byService.size === 1 ? this.best : undefined;
  }

  of(service: string): Claim | undefined {
    return this.#byService.get(service);
  }

  add(claim: Claim): void {
    this.#byService.set(claim.service, claim);
    this.#heap.push(claim);
    this.#rise(this.#heap.length - 1);
    if (claim.held) this.holder = claim;
  }

  /** Removes a claim that is not the only one. */
  remove(claim: Claim): void {
    this.#byService.delete(claim.service);
    if (this.holder === claim) this.holder = undefined;
    // A sorted list is a heap.
    if (this.#heap.length > 2 * this.#byService.size + 8) {
      this.#heap = [...this.#byService.values()].sort(compare);
    }
    while (this.#byService.get(this.best.service) !== this.best) this.#removeBest();
  }

  #removeBest(): void {
    const last = this.#heap.pop()!;
    if (this.#heap.length === 0) return;
    this.#heap[0] = last;
    this.#sink();
  }

  #rise(from: number): void {
    const heap = this.#heap;
    const claim = heap[from]!;
    let at = from;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (compare(heap[parent]!, claim) <= 0) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = claim;
  }

  #sink(): void {
    const heap = this.#heap;
    const claim = heap[0]!;
    let at = 0;
    for (let child = 1; child < heap.length; child = 2 * at + 1) {
      const right = heap[child + 1];
      if (right !== undefined && compare(right, heap[child]!) < 0) child += 1;
      if (compare(claim, heap[child]!) <= 0) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = claim;
  }
}

/** All claims to a frontend. A single claim stands for itself, which saves megabytes. */
export type Entry = Claim | Contest;

export function bestOf(entry: Entry): Claim {
  return entry instanceof Contest ? entry.best : entry;
}

export function claimOf(entry: Entry | undefined, service: string): Claim | undefined {
  if (entry instanceof Contest) return entry.of(service);
  return entry?.service === service ? entry : undefined;
}

/** The entry with another claim, of a Service that has none in it. */
export function withClaim(entry: Entry | undefined, claim: Claim): Entry {
  if (entry === undefined) return claim;
  const contest = entry instanceof Contest ? entry : new Contest(entry);
  contest.add(claim);
  return contest;
}

/** The entry without one of its claims; undefined = none is left. */
export function withoutClaim(entry: Entry | undefined, claim: Claim): Entry | undefined {
  if (!(entry instanceof Contest)) return undefined;
  entry.remove(claim);
  return entry.only ?? entry;
}

/** Gives the frontend to the best claimant, or makes its holder claim again. */
export function take(entry: Entry, best: Claim, again: Set<string>): void {
  const holder = holderOf(entry);
  if (holder === best) return;
  if (holder === undefined) setHeld(entry, best, true);
  else again.add(holder.service);
}

/** Records that the claimant does not hold the frontend any more. */
export function release(entry: Entry, claim: Claim): void {
  setHeld(entry, claim, false);
}

/**
 * Adds to `again` who must claim again: a worse holder, or the best claimant when there is no
 * holder.
 */
export function askBest(entry: Entry, again: Set<string>): void {
  const best = bestOf(entry);
  const holder = holderOf(entry);
  if (holder !== best) again.add((holder ?? best).service);
}

export function holderOf(entry: Entry): Claim | undefined {
  if (entry instanceof Contest) return entry.holder;
  return entry.held ? entry : undefined;
}

function setHeld(entry: Entry, claim: Claim, held: boolean): void {
  claim.held = held;
  if (!(entry instanceof Contest)) return;
  if (held) entry.holder = claim;
  else if (entry.holder === claim) entry.holder = undefined;
}

function compare(a: Claim, b: Claim): number {
  if (a.rank !== b.rank) return a.rank - b.rank;
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  if (a.service === b.service) return 0;
  return a.service < b.service ? -1 : 1;
}
