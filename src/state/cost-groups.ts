/**
 * Who is next, where some cost a thousand times as much as others. Those that cost about the same
 * wait in one group, in the order of their arrival, and groups get equal shares of what is spent.
 * So one that costs little waits for one step of each group of those that cost more, however many
 * these are, and one that costs much always has a share.
 */

/** What can wait in `CostGroups`, which alone changes `group`; undefined: it does not wait. */
export interface Waiting {
  /** What it costs in all, in any unit. It never falls. */
  cost: number;
  group: number | undefined;
}

/** Each group is for four times the cost of the one before. The last one has all that cost more. */
const groupsMax = 12;

class Group<T extends Waiting> {
  readonly number: number;
  /**
   * Those before `#first` were taken, and are forgotten once they are half of all. One that left, or
   * went to another group, has its entry.
   */
  #entries: T[] = [];
  #first = 0;
  size = 0;
  spent = 0;

  constructor(number: number) {
    this.number = number;
  }

  /** The next one. There must be one. */
  get next(): T {
    while (this.#entries[this.#first]!.group !== this.number) this.#first += 1;
    return this.#entries[this.#first]!;
  }

  push(one: T): void {
    if (2 * this.#first >= this.#entries.length) this.#forget(this.#first);
    this.#entries.push(one);
    one.group = this.number;
    this.size += 1;
  }

  /** Puts one before the others: it was taken last. */
  unshift(one: T): void {
    if (this.#first > 0) this.#first -= 1;
    else this.#entries.unshift(one);
    this.#entries[this.#first] = one;
    one.group = this.number;
    this.size += 1;
  }

  /** Takes the next one: it may be pushed again. */
  take(): void {
    const one = this.next;
    this.#first += 1;
    this.drop(one);
  }

  drop(one: T): void {
    one.group = undefined;
    this.size -= 1;
    if (this.size === 0) this.#forget(this.#entries.length);
  }

  #forget(count: number): void {
    this.#entries.splice(0, count);
    this.#first = 0;
  }

  *[Symbol.iterator](): Generator<T> {
    for (let i = this.#first; i < this.#entries.length; i += 1) {
      const one = this.#entries[i]!;
      if (one.group === this.number) yield one;
    }
  }
}

export class CostGroups<T extends Waiting> {
  readonly #groups = Array.from({ length: groupsMax }, (_, number) => new Group<T>(number));
  #size = 0;
  /** What the group that had the last turn had spent before it. */
  #spent = 0;
  /** Its number. */
  #last = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds a new one, or one that was taken, at the end of its group. */
  add(one: T): void {
    const group = this.#groups[groupOf(one.cost)]!;
    // A group saves nothing while it is empty.
    if (group.size === 0) group.spent = Math.max(group.spent, this.#spent);
    group.push(one);
    this.#size += 1;
  }

  /**
   * Adds the one that was taken last, whose turn has not finished it. It is before the others of
   * its group: with turns for each, many would be in memory half done, and none would be finished.
   * In another group it is the last, so that new ones do not hold up all that wait there.
   */
  addAgain(one: T): void {
    const number = groupOf(one.cost);
    const group = this.#groups[number]!;
    if (number !== this.#last || group.size === 0) this.add(one);
    else {
      group.unshift(one);
      this.#size += 1;
    }
  }

  /** Removes one for good. */
  remove(one: T): void {
    this.#groups[one.group!]!.drop(one);
    this.#size -= 1;
  }

  /** Adds to the cost of one that waits. */
  grow(one: T, cost: number): void {
    one.cost += cost;
    if (groupOf(one.cost) === one.group) return;
    this.remove(one);
    this.add(one);
  }

  /** The next one; undefined: none waits in the first `groups` of the groups. */
  next(groups = groupsMax): T | undefined {
    return this.#nextGroup(groups)?.next;
  }

  /**
   * Takes the next one, before its turn: others may be added during that.
   * @returns what is called after its turn, with what that cost
   */
  take(groups = groupsMax): (cost: number) => void {
    const group = this.#nextGroup(groups)!;
    this.#spent = group.spent;
    this.#last = group.number;
    group.take();
    this.#size -= 1;
    return (cost) => {
      group.spent += cost;
    };
  }

  /** Those that wait, group by group. */
  *[Symbol.iterator](): Generator<T> {
    for (const group of this.#groups) yield* group;
  }

  /** The one that has spent least, of several the one with the smallest cost. */
  #nextGroup(groups: number): Group<T> | undefined {
    if (this.#size === 0) return undefined;
    let least: Group<T> | undefined;
    for (const group of this.#groups) {
      if (group.number === groups) break;
      if (group.size > 0 && (least === undefined || group.spent < least.spent)) least = group;
    }
    return least;
  }
}

function groupOf(cost: number): number {
  return Math.min(groupsMax - 1, Math.floor(Math.log2(Math.max(1, cost)) / 2));
}
