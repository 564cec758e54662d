import { setTimeout as sleep } from 'node:timers/promises';

/**
 * The client-side limit of kube-api-qps and kube-api-burst: a bucket of `burst` tokens that is
 * refilled at `qps` per second. A qps below zero means no limit, as in client-go.
 */
export class RateLimiter {
  readonly #qps: number;
  readonly #burst: number;
  /** May be negative: tokens that waiting requests have taken in advance. */
  #tokens: number;
  #filledAtMs = performance.now();

  constructor(qps: number, burst: number) {
    this.#qps = qps;
    this.#burst = Math.max(1, burst);
    this.#tokens = this.#burst;
  }

  /** Resolves when a request may be sent. Rejects when `signal` aborts. */
  async take(signal: AbortSignal): Promise<void> {
    if (this.#qps < 0) return;
    const nowMs = performance.now();
    const filled = ((nowMs - this.#filledAtMs) / 1000) * this.#qps;
    this.#tokens = Math.min(this.#burst, this.#tokens + filled) - 1;
    this.#filledAtMs = nowMs;
    if (this.#tokens < 0) await sleep((-this.#tokens / this.#qps) * 1000, undefined, { signal });
  }
}
