import { type Clock, systemClock } from '../../src/time/clock.ts';

interface Timer {
  readonly dueMs: number;
  readonly call: () => void;
  cancel: () => void;
}

/**
 * The time since the machine was started, and what a test has skipped. The time of day stays that
 * of the machine, as the kernel's own clocks do.
 */
export class AheadClock implements Clock {
  readonly #timers = new Set<Timer>();
  #aheadMs = 0;

  /** What is due by then is called now, in the order of its times. */
  skip(timeMs: number): void {
    this.#aheadMs += timeMs;
    for (const timer of [...this.#timers].sort((a, b) => a.dueMs - b.dueMs)) {
      // One that was called before may have cancelled it.
      if (!this.#timers.has(timer)) continue;
      timer.cancel();
      if (timer.dueMs <= this.now()) this.#call(timer);
      else this.#wait(timer);
    }
  }

  now(): number {
    return systemClock.now() + this.#aheadMs;
  }

  after(delayMs: number, call: () => void): () => void {
    const timer: Timer = { dueMs: this.now() + delayMs, call, cancel: () => {} };
    this.#timers.add(timer);
    this.#wait(timer);
    return () => {
      this.#timers.delete(timer);
      timer.cancel();
    };
  }

  wallMs(): number {
    return systemClock.wallMs();
  }

  turn(): Promise<void> {
    return systemClock.turn();
  }

  random(): number {
    return systemClock.random();
  }

  #wait(timer: Timer): void {
    timer.cancel = systemClock.after(Math.max(0, timer.dueMs - this.now()), () => {
      this.#call(timer);
    });
  }

  #call(timer: Timer): void {
    this.#timers.delete(timer);
    timer.call();
  }
}
