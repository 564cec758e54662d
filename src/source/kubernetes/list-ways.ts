import type { ListWay } from '../source.ts';

/**
 * Which way to ask for the next list. A stream costs the server least, so it is asked for first.
 * Whatever goes wrong with one way, the other one is next: of two ways that may both be barred by
 * what is in between, neither is given up (client-go falls back from streams to pages only). Where
 * pages did it, they come first for a while.
 */
export class ListWays {
  readonly #pagesFirstMs: number;
  #next: ListWay = 'streaming';
  #pagesUntilMs = Number.POSITIVE_INFINITY;

  /** After a list in pages, streams are not asked for during `pagesFirstMs`. */
  constructor(pagesFirstMs: number) {
    this.#pagesFirstMs = pagesFirstMs;
  }

  choose(nowMs: number): ListWay {
    if (nowMs >= this.#pagesUntilMs) {
      this.#next = 'streaming';
      this.#pagesUntilMs = Number.POSITIVE_INFINITY;
    }
    return this.#next;
  }

  failed(way: ListWay): void {
    this.#next = way === 'streaming' ? 'paged' : 'streaming';
  }

  succeeded(way: ListWay, nowMs: number): void {
    this.#next = way;
    if (way === 'paged') this.#pagesUntilMs = nowMs + this.#pagesFirstMs;
  }
}
