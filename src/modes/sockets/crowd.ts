/** The clients of a share, and what each of them has taken: which one has most is known. */

/** What was taken and can be taken away. */
export interface Holding {
  readonly client: string;
  /** Takes it away: a connection is reset, a flow of datagrams ends. */
  readonly end: () => void;
}

export class Crowd<T extends Holding> {
  /** By client, the oldest first. */
  readonly #holdings = new Map<string, Set<T>>();
  /** Clients by the number of their holdings. */
  readonly #byCount = new Map<number, Set<string>>();
  #most = 0;

  countOf(client: string): number {
    return this.#holdings.get(client)?.size ?? 0;
  }

  /** How many the client has that has most. */
  get most(): number {
    return this.#most;
  }

  /** The oldest of a client that has most. */
  get oldestOfMost(): T | undefined {
    const [client] = this.#byCount.get(this.#most) ?? [];
    const [oldest] = (client === undefined ? undefined : this.#holdings.get(client)) ?? [];
    return oldest;
  }

  add(holding: T): void {
    const { client } = holding;
    const its = this.#holdings.get(client) ?? new Set<T>();
    this.#holdings.set(client, its.add(holding));
    this.#move(client, its.size - 1, its.size);
  }

  delete(holding: T): void {
    const { client } = holding;
    const its = this.#holdings.get(client);
    if (its === undefined || !its.delete(holding)) return;
    if (its.size === 0) this.#holdings.delete(client);
    this.#move(client, its.size + 1, its.size);
  }

  /** The counts differ by one. */
  #move(client: string, from: number, to: number): void {
    const before = this.#byCount.get(from);
    before?.delete(client);
    if (before?.size === 0) this.#byCount.delete(from);
    if (to > 0) this.#byCount.set(to, (this.#byCount.get(to) ?? new Set()).add(client));
    if (to > this.#most || !this.#byCount.has(this.#most)) this.#most = to;
  }
}
