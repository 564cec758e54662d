/**
 * A watch that was opened while another one ran begins with what the other one delivered after
 * that. Knows this prefix by its length and its last event, whatever its size, and leaves it out:
 * otherwise objects would for a moment be what they were before.
 */
export class Repeats {
  /** What came since the next watch was asked for. */
  #recorded: { count: number; last: string } | undefined;
  /** What the current watch still has to repeat. */
  #expected: { count: number; last: string } | undefined;

  /** The next watch is being asked for. */
  record(): void {
    this.#recorded = { count: 0, last: '' };
  }

  /** There will be no next watch. */
  forget(): void {
    this.#recorded = undefined;
    this.#expected = undefined;
  }

  /** The next watch is the current one now. */
  handOver(): void {
    this.#expected = this.#recorded?.count ? this.#recorded : undefined;
    this.#recorded = undefined;
  }

  get expected(): boolean {
    return this.#expected !== undefined;
  }

  /** `lost`: the watch does not repeat what it should, so it did not begin where it should. */
  judge(event: string): 'new' | 'repeat' | 'lost' {
    if (this.#expected !== undefined) {
      this.#expected.count -= 1;
      const ended = event === this.#expected.last;
      const exhausted = this.#expected.count <= 0;
      if (ended || exhausted) this.#expected = undefined;
      return exhausted && !ended ? 'lost' : 'repeat';
    }
    if (this.#recorded !== undefined) {
      this.#recorded.count += 1;
      this.#recorded.last = event;
    }
    return 'new';
  }

  /** Whether `judge` needs to be asked. */
  get active(): boolean {
    return this.#recorded !== undefined || this.#expected !== undefined;
  }
}
