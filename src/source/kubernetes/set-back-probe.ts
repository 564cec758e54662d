import type { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import { retryAfterMs } from './errors.ts';
import { type PageOptions, readVersion } from './paged-list.ts';
import { isOlder } from './resource-version.ts';

type Open = (query: Query, signal: AbortSignal) => Promise<ApiStream>;

/**
 * Finds out that the data of the server were set back, as when etcd is restored. A watch from a
 * version to come would be accepted, and stay silent until that has come.
 */
export class SetBackProbe {
  readonly #periodMs: number;
  readonly #maxMs: number;
  #probedAtMs = Number.NEGATIVE_INFINITY;
  #isSuspected = false;

  /** Mute watches are no reason to ask more often than each `periodMs`; it is given up after `maxMs`. */
  constructor(periodMs: number, maxMs: number) {
    this.#periodMs = periodMs;
    this.#maxMs = maxMs;
  }

  /** The connection was lost: who answers next may be another server. */
  suspect(): void {
    this.#isSuspected = true;
  }

  /**
   * Whether the server, if there is reason to ask it, does not know yet what came with `position`.
   * Rejects only when the server asks for patience: what else is wrong shows when the watch is
   * asked for.
   */
  async finds(
    position: string,
    isMute: boolean,
    open: Open,
    options: PageOptions,
    signal: AbortSignal,
  ): Promise<boolean> {
    const nowMs = performance.now();
    const isDue = isMute && nowMs - this.#probedAtMs > this.#periodMs;
    if (!isDue && !this.#isSuspected) return false;
    this.#probedAtMs = nowMs;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(this.#maxMs)]);
    try {
      const version = await readVersion((query) => open(query, limit), options);
      this.#isSuspected = false;
      return isOlder(version, position);
    } catch (error) {
      // A server that is about to start may not answer, or refuse all: then the question stands.
      if (limit.aborted) this.#isSuspected = false;
      if (retryAfterMs(error) > 0) throw error;
      return false;
    }
  }
}
