import type { Clock } from '../../../src/cli/reader.ts';

/** Pauses return immediately. `beforePause` is called by each, and may change the state. */
export class TestClock implements Clock {
  nowMs = 0;
  readonly #acts = new Set<() => void>();
  readonly #beforePause: (pause: number) => unknown;
  #pauses = 0;

  constructor(beforePause: (pause: number) => unknown) {
    this.#beforePause = beforePause;
  }

  now(): number {
    return this.nowMs;
  }

  async sleep(ms: number): Promise<void> {
    this.#pauses += 1;
    if (this.#pauses > 1000) throw new Error('it does not end');
    await this.#beforePause(this.#pauses);
    for (const endMs = this.nowMs + ms; this.nowMs < endMs; ) {
      this.nowMs += 1000;
      for (const act of this.#acts) act();
    }
  }

  every(_ms: number, act: () => void): () => void {
    this.#acts.add(act);
    return () => this.#acts.delete(act);
  }
}
