import { requestBackoff } from '../../time/backoff.ts';
import { pause } from '../../time/clock.ts';
import type { ApiStream } from './api-stream.ts';
import type { Query } from './client.ts';
import { ApiError, retryAfterMs } from './errors.ts';
import { type PageOptions, readVersion } from './paged-list.ts';
import type { ReflectorTiming } from './timing.ts';

type Open = (query: Query, signal: AbortSignal) => Promise<ApiStream>;

/** The most requests while the server refuses them. */
const attemptsMax = 4;

/**
 * Detects that the server's resourceVersion went back, as after restoring etcd from a backup. The
 * server accepts a watch from a future version, and is silent until that version is reached. Each
 * resource is checked separately: versions of different resources cannot be compared (KEP-5504),
 * because a server may keep them in different etcds (--etcd-servers-overrides). When one resource
 * went back, all are listed again: the server may have reached the positions of others by then.
 */
export class RollbackProbe {
  readonly #timing: ReflectorTiming;
  #probedAtMs = Number.NEGATIVE_INFINITY;
  /** Since when it is suspected. */
  #lostAtMs: number | undefined;

  constructor(timing: ReflectorTiming) {
    this.#timing = timing;
  }

  /** The server was lost, or failed: the next one to answer may be another one, or restored. */
  suspect(): void {
    this.#lostAtMs ??= performance.now();
  }

  /**
   * When the server was lost, if its version is before `position`; undefined: it is not; `unknown`:
   * it does not say. Sends a request only if there is a reason. Rejects only if the server asks us
   * to wait: the next watch shows other errors.
   */
  async finds(
    position: string,
    isMute: boolean,
    open: Open,
    options: PageOptions,
    signal: AbortSignal,
  ): Promise<number | 'unknown' | undefined> {
    const nowMs = performance.now();
    const isDue = isMute && nowMs - this.#probedAtMs > this.#timing.probeMs;
    if (!isDue && this.#lostAtMs === undefined) return undefined;
    this.#probedAtMs = nowMs;
    const { backoffBaseMs, backoffMaxMs, probeMaxMs } = this.#timing;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(probeMaxMs)]);
    const backoff = requestBackoff(backoffBaseMs, backoffMaxMs);
    for (let attempt = 1; ; attempt += 1) {
      try {
        const version = await readVersion((query) => open(query, limit), options);
        const lostAtMs = this.#lostAtMs ?? nowMs;
        this.#lostAtMs = undefined;
        return isOlder(version, position) ? lostAtMs : undefined;
      } catch (error) {
        if (retryAfterMs(error) > 0) throw error;
        // A starting server refuses requests, or does not answer, until it has loaded the roles.
        if (!(error instanceof ApiError) || attempt === attemptsMax) return 'unknown';
        await pause(backoff.failed(), limit);
      }
    }
  }
}

const wholeNumber = /^[1-9][0-9]*$/;

/**
 * Whether an event with this resourceVersion is newer than `position`. Versions of one resource are
 * increasing integers of any length (KEP-5504). Events with other versions count as new.
 */
export function isNewer(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined) return true;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return true;
  if (resourceVersion.length !== position.length) return resourceVersion.length > position.length;
  return resourceVersion > position;
}

/** Whether this resourceVersion is certainly older than `position`. */
function isOlder(resourceVersion: string, position: string | undefined): boolean {
  if (position === undefined || resourceVersion === position) return false;
  if (!wholeNumber.test(resourceVersion) || !wholeNumber.test(position)) return false;
  return !isNewer(resourceVersion, position);
}
