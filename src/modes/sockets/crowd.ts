/** The clients of a share, and which of them makes room where it is used up. */

/** What was taken and can be taken away. */
export interface Holding {
  /** Of its client, as `blocksOf` has them: the address, and the blocks that it is in. */
  readonly blocks: readonly string[];
  /** Takes it away: a connection is reset, a flow of datagrams ends. */
  readonly end: () => void;
}

/**
 * An address makes room, and each wider block, if it has more than this part of the share: many
 * small clients keep what they have. The pods of a node are in one block, too.
 */
const muchParts = [1 / 512, 1 / 16, 1 / 16] as const;

export class Crowd<T extends Holding> {
  readonly #levels = muchParts.map((part, level) => ({ part, groups: new Groups<T>(level) }));

  get isEmpty(): boolean {
    return this.#levels[0]!.groups.isEmpty;
  }

  add(holding: T): void {
    for (const { groups } of this.#levels) groups.add(holding);
  }

  delete(holding: T): void {
    for (const { groups } of this.#levels) groups.delete(holding);
  }

  /**
   * What makes room for a client in these blocks, in a share of `max`: the oldest of the address
   * that has most, if that has much, and more than twice as many as this client. Otherwise one may
   * own many addresses: the same of a block, and in it the oldest of the address that has most.
   */
  roomFor(blocks: readonly string[], max: number): T | undefined {
    for (const [level, { part, groups }] of this.#levels.entries()) {
      const own = groups.countOf(blocks[level]);
      if (groups.most > 2 * own && groups.most >= max * part) return groups.oldestOfMost;
    }
    return undefined;
  }
}

/** By address, or by block. */
class Groups<T extends Holding> {
  readonly #level: number;
  /** Those of an address, the oldest first; those of a block, by address. */
  readonly #members = new Map<string, Set<T> | Groups<T>>();
  /** Names of groups by the number of their members. */
  readonly #byCount = new Map<number, Set<string>>();
  #most = 0;
  #size = 0;

  constructor(level: number) {
    this.#level = level;
  }

  get isEmpty(): boolean {
    return this.#members.size === 0;
  }

  /** All that there are. */
  get size(): number {
    return this.#size;
  }

  countOf(name: string | undefined): number {
    return (name === undefined ? undefined : this.#members.get(name)?.size) ?? 0;
  }

  /** How many the group has that has most. */
  get most(): number {
    return this.#most;
  }

  get oldestOfMost(): T | undefined {
    const [name] = this.#byCount.get(this.#most) ?? [];
    const its = name === undefined ? undefined : this.#members.get(name);
    if (its instanceof Groups) return its.oldestOfMost;
    const [oldest] = its ?? [];
    return oldest;
  }

  add(holding: T): void {
    const name = holding.blocks[this.#level]!;
    const its = this.#members.get(name) ?? (this.#level === 0 ? new Set<T>() : new Groups<T>(0));
    this.#members.set(name, its);
    its.add(holding);
    this.#move(name, its.size - 1, its.size);
  }

  /** Returns whether it was there. */
  delete(holding: T): boolean {
    const name = holding.blocks[this.#level]!;
    const its = this.#members.get(name);
    if (its === undefined || !its.delete(holding)) return false;
    if (its.size === 0) this.#members.delete(name);
    this.#move(name, its.size + 1, its.size);
    return true;
  }

  /** The counts differ by one. */
  #move(name: string, from: number, to: number): void {
    this.#size += to - from;
    const before = this.#byCount.get(from);
    before?.delete(name);
    if (before?.size === 0) this.#byCount.delete(from);
    if (to > 0) this.#byCount.set(to, (this.#byCount.get(to) ?? new Set()).add(name));
    if (to > this.#most || !this.#byCount.has(this.#most)) this.#most = to;
  }
}
