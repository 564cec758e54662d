import type { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import { retryAfterMs } from './errors.ts';
import { type PageOptions, readVersion } from './paged-list.ts';
import { isOlder } from './resource-version.ts';

type Open = (query: Query, signal: AbortSignal) => Promise<ApiStream>;

/**
 * Finds out whether the data of the server were set back, as when etcd is restored from a backup.
 * The server accepts a watch from a future version, and is silent until that version comes.
 * Each resource asks for itself: versions of different resources cannot be compared (KEP-5504),
 * because a server may keep them in different etcds (--etcd-servers-overrides).
 */
export class SetBackProbe {
  readonly #periodMs: number;
  readonly #maxMs: number;
  #probedAtMs = Number.NEGATIVE_INFINITY;
  #isSuspected = false;

  /** For silent watches it asks at most every `periodMs`. It waits for an answer for `maxMs`. */
  constructor(periodMs: number, maxMs: number) {
    this.#periodMs = periodMs;
    this.#maxMs = maxMs;
  }

  /** The connection was lost: who answers next may be another server. */
  suspect(): void {
    this.#isSuspected = true;
  }

  /**
   * Whether the server is at an earlier version than `position`. It asks only when there is a
   * reason. Rejects only when the server asks us to wait: the next watch shows other errors.
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
      // A starting server may not answer, or refuse all requests: then it is asked again later.
      if (limit.aborted) this.#isSuspected = false;
      if (retryAfterMs(error) > 0) throw error;
      return false;
    }
  }
}
