import type { Cause } from './batch.ts';

/** Keys of Forwardings, and why each changed, where that is known. */
export type Causes = Map<string, Cause | undefined>;

/** The Forwardings that changed since they were last planned. */
export class Marks {
  #waiting: Causes = new Map();
  /** The part of the sync under way that is not planned yet. */
  #begun: Causes = new Map();

  /** Whether a sync has anything to begin with. */
  get any(): boolean {
    return this.#waiting.size > 0;
  }

  /** A change joins those that the key is marked for already. */
  mark(key: string, cause: Cause | undefined): void {
    const marked = this.#begun.has(key) ? this.#begun : this.#waiting;
    const earlier = marked.get(key);
    marked.set(key, earlier && cause ? mergedCause(earlier, cause) : (earlier ?? cause));
  }

  delete(key: string): void {
    this.#waiting.delete(key);
  }

  /** Takes away all that is marked. */
  takeAll(): Causes {
    const all = this.#waiting;
    this.#waiting = new Map();
    return all;
  }

  /** Begins a sync: each of these keys is to be planned, and taken then. */
  begin(): Iterable<string> {
    this.#begun = this.takeAll();
    return this.#begun.keys();
  }

  /** Why the key, which is being planned, has changed. */
  take(key: string): Cause | undefined {
    const cause = this.#begun.get(key);
    this.#begun.delete(key);
    return cause;
  }

  /** The sync has failed: what it has not taken waits again. */
  giveBack(): void {
    for (const [key, cause] of this.#begun) this.#waiting.set(key, cause);
    this.#begun = new Map();
  }
}

function mergedCause(earlier: Cause, later: Cause): Cause {
  const triggerTimesMs = [...earlier.triggerTimesMs, ...later.triggerTimesMs];
  return { ...earlier, triggerTimesMs };
}
