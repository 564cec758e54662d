/** What has changed and waits until its reader is done with it. */
import { CostGroups, type Waiting } from './cost-groups.ts';

/** A change that waits. Several of one key are one, in the newest state. */
export interface Pending extends Waiting {
  readonly key: string;
}

/**
 * Each key that changed waits here once, from its first change until `done`. `CostGroups` decides
 * which one is next, so that those that cost much do not hold up others.
 */
export class Cursor<T extends Pending> {
  readonly #pending = new Map<string, T>();
  readonly #ready = new CostGroups<T>();
  /** Ends the wait of the reader. */
  wake = (): void => {};

  get size(): number {
    return this.#pending.size;
  }

  get(key: string): T | undefined {
    return this.#pending.get(key);
  }

  /** Adds a change of a key that has none. Without `isReady`, it is not next before `release`. */
  add(one: T, isReady = true): void {
    this.#pending.set(one.key, one);
    if (isReady) this.#ready.add(one);
  }

  release(one: T): void {
    if (one.group === undefined) this.#ready.add(one);
  }

  /** The turn of the one that was taken last has not finished it. */
  continueLater(one: T): void {
    this.#ready.addAgain(one);
  }

  releaseAll(): void {
    for (const one of this.#pending.values()) this.release(one);
  }

  /** Adds to the cost of one that waits. */
  grow(one: T, cost: number): void {
    this.#ready.grow(one, cost);
  }

  /** The next one; undefined: none waits in the first `groups` of the groups. */
  next(groups?: number): T | undefined {
    return this.#ready.next(groups);
  }

  /**
   * Takes the next one for a turn, after which it is `done` or released.
   * @returns what is called after the turn, with what that cost
   */
  take(groups?: number): (cost: number) => void {
    return this.#ready.take(groups);
  }

  /** Nothing is left to do for it. */
  done(one: T): void {
    if (one.group !== undefined) this.#ready.remove(one);
    this.#pending.delete(one.key);
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#pending.values();
  }
}
