/**
 * Endpoints that have accepted none of their last connections, as far as the kernel has counted
 * them. What it counted is compared with what it counted before, so that a connection counts as
 * failed until its endpoint has answered any.
 */
import type { Whom } from '../state/frontends-by-service.ts';
import type { Pause } from '../time/pacer.ts';

/** What became of connections between two readings. */
export interface Outcomes {
  tried: number;
  answered: number;
  reset: number;
}

export interface FailingEndpoint extends Whom {
  /** `10.244.0.5:8080` */
  readonly endpoint: string;
  /** Connections to it since it was last seen to accept one. */
  readonly failed: number;
  /** Of `failed`, those that it, or a router on the way, has refused. */
  readonly reset: number;
}

interface Failing extends FailingEndpoint {
  failed: number;
  reset: number;
  /** When the first and the last of them were read, by the clock. */
  readonly firstMs: number;
  lastMs: number;
}

/** Fewer say nothing: a client may have given up. */
const failedLeast = 5;
/** An answer may still be on its way: a client sends its first packet again after 1 and 3 s. */
const patienceMs = 10_000;
/** Without another connection, it is unknown whether it still fails. */
const forgetMs = 10 * 60_000;
/** Beyond this, those that failed first are forgotten. */
const failingMax = 10_000;

export class FailingEndpoints {
  readonly #failing = new Map<string, Failing>();

  /** Takes what was counted of an endpoint since the reading before. */
  note(whom: Whom, endpoint: string, { answered, reset, tried }: Outcomes, nowMs: number): void {
    const id = [whom.family, whom.namespace, whom.service, whom.port, whom.protocol, endpoint].join(
      ' ',
    );
    if (answered > 0) {
      this.#failing.delete(id);
      return;
    }
    const known = this.#failing.get(id);
    if (tried === 0) {
      if (known !== undefined) known.reset += reset;
      return;
    }
    if (known !== undefined) {
      known.failed += tried;
      known.reset += reset;
      known.lastMs = nowMs;
      return;
    }
    const times = { firstMs: nowMs, lastMs: nowMs };
    this.#failing.set(id, { ...whom, endpoint, failed: tried, reset, ...times });
    if (this.#failing.size <= failingMax) return;
    const [first] = this.#failing.keys();
    this.#failing.delete(first!);
  }

  /** Forgets those that `isInUse` does not name, and those without a connection for long. */
  async prune(
    nowMs: number,
    isInUse: (one: FailingEndpoint) => boolean,
    pause: Pause,
  ): Promise<void> {
    for (const [id, one] of this.#failing) {
      if (nowMs - one.lastMs >= forgetMs || !isInUse(one)) this.#failing.delete(id);
      await pause();
    }
  }

  get size(): number {
    return this.#failing.size;
  }

  clear(): void {
    this.#failing.clear();
  }

  /** Those that are certain by now; the most failed connections first. */
  known(nowMs: number): readonly FailingEndpoint[] {
    return [...this.#failing.values()]
      .filter(({ failed, firstMs }) => failed >= failedLeast && nowMs - firstMs >= patienceMs)
      .sort((a, b) => b.failed - a.failed);
  }
}
