/** The claims to one frontend, from the best to the worst. There is seldom more than one. */

/** One Service's claim. */
export interface Claim {
  readonly service: string;
  readonly createdMs: number;
  /** Of the kind of frontend: the lowest is best. */
  readonly rank: number;
  held: boolean;
  /** The better claimant that has been reported. */
  lostTo: string | undefined;
}

/** Several claims: what is asked of them costs the same for a thousand as for two. */
class Contest {
  /** Ascending. */
  readonly claims: Claim[];
  readonly byService: Map<string, Claim>;
  holder: Claim | undefined;

  constructor(only: Claim) {
    this.claims = [only];
    this.byService = new Map([[only.service, only]]);
    this.holder = only.held ? only : undefined;
  }

  add(claim: Claim): void {
    this.claims.splice(this.#place(claim), 0, claim);
    this.byService.set(claim.service, claim);
    if (claim.held) this.holder = claim;
  }

  remove(claim: Claim): void {
    this.claims.splice(this.#place(claim), 1);
    this.byService.delete(claim.service);
    if (this.holder === claim) this.holder = undefined;
  }

  /** How many are better. */
  #place(claim: Claim): number {
    let [from, to] = [0, this.claims.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (compare(this.claims[middle]!, claim) < 0) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}

/** All claims to a frontend: an object for each would take megabytes where there is but one. */
export type Entry = Claim | Contest;

export function bestOf(entry: Entry): Claim {
  return entry instanceof Contest ? entry.claims[0]! : entry;
}

export function claimOf(entry: Entry | undefined, service: string): Claim | undefined {
  if (entry instanceof Contest) return entry.byService.get(service);
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
  return entry.claims.length === 1 ? entry.claims[0] : entry;
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
