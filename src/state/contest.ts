/** The claims to one frontend. There is seldom more than one. */

/** One Service's claim. */
interface Claim {
  readonly service: string;
  readonly createdMs: number;
  /** Of the kind of frontend: the lowest is best. */
  readonly rank: number;
  held: boolean;
  /** The better claimant that has been reported. */
  lostTo: string | undefined;
}

/**
 * Several claims: a heap, because nobody but the best is ever asked for, and a thousand Services
 * that claim the same come and go in any order.
 */
class Contest {
  holder: Claim | undefined;
  readonly #byService: Map<string, Claim>;
  /** The parent of `i` is at `(i - 1) >> 1` and better. The first one is there, others may be gone. */
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

  /** Not the only one. */
  remove(claim: Claim): void {
    this.#byService.delete(claim.service);
    if (this.holder === claim) this.holder = undefined;
    // Sorted, it is a heap.
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

/** All claims to a frontend: an object for each would take megabytes where there is but one. */
export type Entry = Claim | Contest;

export function bestOf(entry: Entry): Claim {
  return entry instanceof Contest ? entry.best : entry;
}

export function claimOf(entry: Entry | undefined, service: string): Claim | undefined {
  if (entry instanceof Contest) return entry.of(service);
  return entry?.service === service ? entry : undefined;
}

/** With a claim of a Service that has none there. */
export function withClaim(entry: Entry | undefined, claim: Claim): Entry {
  if (entry === undefined) return claim;
  const contest = entry instanceof Contest ? entry : new Contest(entry);
  contest.add(claim);
  return contest;
}

/** Without one that is there. */
export function withoutClaim(entry: Entry | undefined, claim: Claim): Entry | undefined {
  if (!(entry instanceof Contest)) return undefined;
  entry.remove(claim);
  return entry.only ?? entry;
}

/** The best claimant takes the frontend, or asks who holds it to claim again. */
export function take(entry: Entry, best: Claim, again: Set<string>): void {
  const holder = holderOf(entry);
  if (holder === best) return;
  if (holder === undefined) setHeld(entry, best, true);
  else again.add(holder.service);
}

/** A claimant holds the frontend no more. */
export function release(entry: Entry, claim: Claim): void {
  setHeld(entry, claim, false);
}

/** Notes who has to claim again: the best claimant when nobody holds it, else a worse holder. */
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
