/** Limits the number of connections, and closes connections above the limit. */
import { addCount } from '../../net/counts.ts';

export interface Member {
  /** The peer of the connection: see `hostBlock`. */
  readonly peer: string;
  destroy(): void;
}

/**
 * The connections of some ports, `max` at most. Any client that reaches a port can open connections
 * and send nothing: these must not use up the file descriptors that netlink, the API server and
 * other probes need. Above the limit, the oldest connection of the peer with the most connections
 * is closed, so that others keep theirs.
 */
export class ConnectionLimit {
  readonly #max: number;
  /** Oldest first. */
  readonly #members = new Set<Member>();
  readonly #byPeer = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#members.size;
  }

  add(member: Member): void {
    this.#members.add(member);
    addCount(this.#byPeer, member.peer);
    if (this.#members.size <= this.#max) return;
    const most = Math.max(...this.#byPeer.values());
    for (const one of this.#members) {
      if (this.#byPeer.get(one.peer) !== most) continue;
      this.delete(one);
      one.destroy();
      return;
    }
  }

  delete(member: Member): void {
    if (this.#members.delete(member)) addCount(this.#byPeer, member.peer, -1);
  }
}
