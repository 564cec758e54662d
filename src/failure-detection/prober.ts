/** Tries connections to endpoints from this node: a bounded number, at a bounded rate. */
import { type ReachTarget, reach } from '../host/reach.ts';
import type { Followed, PortMember } from './ports.ts';

/** Shorter than the time after which the kernel repeats a SYN, so that a probe is one packet. */
const timeoutMs = 900;
/** How many may begin in one turn, and be open together. */
export const probeLimits = { turn: 25, together: 100 } as const;

export interface ProberOptions {
  /** `Clock.now` */
  readonly now: () => number;
  /** Opens a TCP connection and closes it; whether it was accepted. Default: `reach`. */
  readonly connect?: (target: ReachTarget, timeoutMs: number) => Promise<boolean>;
}

export class Prober {
  readonly #options: ProberOptions;
  readonly #open = new Set<Followed>();
  #succeeded = 0;
  #failed = 0;

  constructor(options: ProberOptions) {
    this.#options = options;
  }

  /** Those that are over. */
  get results(): { readonly succeeded: number; readonly failed: number } {
    return { succeeded: this.#succeeded, failed: this.#failed };
  }

  /**
   * Probes what the queues yield, one of each after the other, until all are empty or as many as
   * may be were begun. What was not begun is not taken from its queue.
   */
  turn(queues: readonly Iterator<PortMember>[]): void {
    let left = Math.min(probeLimits.turn, probeLimits.together - this.#open.size);
    let waiting = queues;
    while (waiting.length > 0 && left > 0) {
      const more: Iterator<PortMember>[] = [];
      for (const queue of waiting) {
        if (left <= 0) break;
        const next = queue.next();
        if (next.done) continue;
        more.push(queue);
        if (this.#open.has(next.value.followed)) continue;
        left -= 1;
        this.#probe(next.value.followed);
      }
      waiting = more;
    }
  }

  #probe(followed: Followed): void {
    const { address, evidence, family, port } = followed;
    const { connect = connectByReach, now } = this.#options;
    this.#open.add(followed);
    evidence.probing();
    void connect({ family, address, port }, timeoutMs).then((isAccepted) => {
      this.#open.delete(followed);
      if (isAccepted) this.#succeeded += 1;
      else this.#failed += 1;
      evidence.probed(isAccepted, now());
    });
  }
}

async function connectByReach(target: ReachTarget, ms: number): Promise<boolean> {
  return (await reach('TCP', target, ms))?.answer === 'connected';
}
