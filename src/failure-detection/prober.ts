/** Tries connections to endpoints from this node: a bounded number, at a bounded rate. */
import { type ReachTarget, reach } from '../host/reach.ts';
import type { Evidence } from './evidence.ts';
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
  /** What is open, and who asked for it. */
  readonly #open = new Map<Followed, Set<Evidence>>();
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
   * Probes what the queue yields, until it is empty or as many as may be were begun. What was not
   * begun is not taken from the queue. Ports that ask for the same endpoint get the answer of one
   * probe: it has no more of them, however many ports name it.
   */
  turn(queue: Iterator<PortMember>): void {
    let left = Math.min(probeLimits.turn, probeLimits.together - this.#open.size);
    while (left > 0) {
      const next = queue.next();
      if (next.done) return;
      const { evidence, followed } = next.value;
      const asking = this.#open.get(followed);
      if (asking !== undefined) {
        asking.add(evidence);
        continue;
      }
      left -= 1;
      this.#probe(followed, new Set([evidence]));
    }
  }

  #probe(followed: Followed, asking: Set<Evidence>): void {
    const { address, family, port } = followed;
    const { connect = connectByReach, now } = this.#options;
    this.#open.set(followed, asking);
    followed.probes += 1;
    void connect({ family, address, port }, timeoutMs).then((isAccepted) => {
      this.#open.delete(followed);
      if (isAccepted) this.#succeeded += 1;
      else this.#failed += 1;
      const nowMs = now();
      for (const evidence of asking) evidence.probed(isAccepted, nowMs);
    });
  }
}

async function connectByReach(target: ReachTarget, ms: number): Promise<boolean> {
  return (await reach('TCP', target, ms))?.answer === 'connected';
}
