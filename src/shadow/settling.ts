/** Which differences last: kube-proxy is given time to program what the cluster has just said. */
import { type Difference, differenceKey } from './compare.ts';

interface Seen {
  difference: Difference;
  readonly sinceMs: number;
  isTold: boolean;
}

/** What has become of differences since the look before. */
export interface Settled {
  /** They have lasted, and were not told before. */
  readonly found: readonly Difference[];
  /** They were told, and are no more. */
  readonly gone: readonly Difference[];
}

export class Settling {
  readonly #settleMs: number;
  #seen = new Map<string, Seen>();

  constructor(settleMs: number) {
    this.#settleMs = settleMs;
  }

  /** Those that have not lasted yet. */
  get pending(): number {
    return [...this.#seen.values()].filter(({ isTold }) => !isTold).length;
  }

  /** Those that have lasted, and still do. */
  get lasting(): readonly Difference[] {
    const told = [...this.#seen.values()].filter(({ isTold }) => isTold);
    return told.map(({ difference }) => difference);
  }

  /** `nowMs` never goes back. */
  look(differences: readonly Difference[], nowMs: number): Settled {
    const before = this.#seen;
    this.#seen = new Map();
    const found: Difference[] = [];
    for (const difference of differences) {
      const key = differenceKey(difference);
      const seen = before.get(key) ?? { difference, sinceMs: nowMs, isTold: false };
      before.delete(key);
      seen.difference = difference;
      this.#seen.set(key, seen);
      if (seen.isTold || nowMs - seen.sinceMs < this.#settleMs) continue;
      seen.isTold = true;
      found.push(difference);
    }
    const gone = [...before.values()].filter(({ isTold }) => isTold);
    return { found, gone: gone.map(({ difference }) => difference) };
  }
}
