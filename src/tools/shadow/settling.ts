/** Reports differences that last: kube-proxy needs time to program a change of the cluster. */
import { type Difference, differenceKey } from './compare.ts';

interface Seen {
  difference: Difference;
  readonly sinceMs: number;
  isReported: boolean;
}

/** What changed since the look before. */
interface Settled {
  /** Differences that have lasted long enough by now, and were not reported before. */
  readonly found: readonly Difference[];
  /** Differences that were reported, and are gone. */
  readonly gone: readonly Difference[];
}

export class Settling {
  readonly #settleMs: number;
  #seen = new Map<string, Seen>();

  constructor(settleMs: number) {
    this.#settleMs = settleMs;
  }

  /** The number of differences that have not lasted long enough yet. */
  get pending(): number {
    return [...this.#seen.values()].filter(({ isReported }) => !isReported).length;
  }

  /** Differences that have lasted long enough, and are still there. */
  get lasting(): readonly Difference[] {
    const reported = [...this.#seen.values()].filter(({ isReported }) => isReported);
    return reported.map(({ difference }) => difference);
  }

  /** Takes the differences of a look. `nowMs` must never go back. */
  look(differences: readonly Difference[], nowMs: number): Settled {
    const before = this.#seen;
    this.#seen = new Map();
    const found: Difference[] = [];
    for (const difference of differences) {
      const key = differenceKey(difference);
      const seen = before.get(key) ?? { difference, sinceMs: nowMs, isReported: false };
      before.delete(key);
      seen.difference = difference;
      this.#seen.set(key, seen);
      if (seen.isReported || nowMs - seen.sinceMs < this.#settleMs) continue;
      seen.isReported = true;
      found.push(difference);
    }
    const gone = [...before.values()].filter(({ isReported }) => isReported);
    return { found, gone: gone.map(({ difference }) => difference) };
  }
}
