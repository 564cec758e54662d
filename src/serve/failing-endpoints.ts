/**
 * Endpoints that have accepted none of their last connections, as far as the kernel has counted
 * them. What it counted is compared with what it counted before, so that a connection counts as
 * failed until its endpoint has answered any.
 */
import type { Whom } from '../state/frontends-in-force.ts';
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
export const failedLeast = 5;
/** An answer may still be on its way: a client sends its first packet again after 1 and 3 s. */
const patienceMs = 10_000;
/** Without another connection, it is unknown whether it still fails. */
const forgetMs = 10 * 60_000;
/** The most of all, and of each namespace: of more, those count that failed first. */
export const failingMax = { all: 10_000, namespace: 1000 } as const;

/** As many of each namespace come before any has more: no tenant hides those of others. */
export const firstOfEach = 10;

export class FailingEndpoints {
  /** By namespace: no tenant leaves others without room. */
  readonly #failing = new Map<string, Map<string, Failing>>();
  #size = 0;

  /** Takes what was counted of an endpoint since the reading before. */
  note(whom: Whom, endpoint: string, { answered, reset, tried }: Outcomes, nowMs: number): void {
    const { namespace } = whom;
    const id = [whom.family, whom.service, whom.port, whom.protocol, endpoint].join(' ');
    if (answered > 0) {
      this.#forget(namespace, id);
      return;
    }
    const own = this.#failing.get(namespace) ?? new Map<string, Failing>();
    const known = own.get(id);
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
    if (own.size >= failingMax.namespace || this.#size >= failingMax.all) return;
    const times = { firstMs: nowMs, lastMs: nowMs };
    this.#failing.set(
      namespace,
      own.set(id, { ...whom, endpoint, failed: tried, reset, ...times }),
    );
    this.#size += 1;
  }

  #forget(namespace: string, id: string): void {
    const own = this.#failing.get(namespace);
    if (own === undefined || !own.delete(id)) return;
    this.#size -= 1;
    if (own.size === 0) this.#failing.delete(namespace);
  }

  /** Forgets those that `isInUse` does not name, and those without a connection for long. */
  async prune(
    nowMs: number,
    isInUse: (one: FailingEndpoint) => boolean,
    pause: Pause,
  ): Promise<void> {
    for (const [namespace, own] of this.#failing) {
      for (const [id, one] of own) {
        if (nowMs - one.lastMs >= forgetMs || !isInUse(one)) this.#forget(namespace, id);
        const rest = pause();
        if (rest !== undefined) await rest;
      }
    }
  }

  get size(): number {
    return this.#size;
  }

  clear(): void {
    this.#failing.clear();
    this.#size = 0;
  }

  /**
   * Those that are certain by now: some of each namespace, then the others; the most failed
   * connections first.
   */
  known(nowMs: number): readonly FailingEndpoint[] {
    const sorted = [...this.#failing.values()]
      .flatMap((own) => [...own.values()])
      .filter(({ failed, firstMs }) => failed >= failedLeast && nowMs - firstMs >= patienceMs)
      .sort((a, b) => b.failed - a.failed);
    const [first, further]: [FailingEndpoint[], FailingEndpoint[]] = [[], []];
    const ofNamespaces = new Map<string, number>();
    for (const one of sorted) {
      const before = ofNamespaces.get(one.namespace) ?? 0;
      ofNamespaces.set(one.namespace, before + 1);
      (before < firstOfEach ? first : further).push(one);
    }
    return first.concat(further);
  }
}
