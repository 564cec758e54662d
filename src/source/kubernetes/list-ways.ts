import type { ListWay } from '../source.ts';

/**
 * Selects the method of the next list. A streaming list costs the server least, so it comes first.
 * After each failure the other method is next, because proxies may break either one (client-go only
 * falls back from streams to pages). After a paged list, pages come first for a while.
 */
export class ListWays {
  readonly #pagesFirstMs: number;
  #next: ListWay = 'streaming';
  #pagesUntilMs = Number.POSITIVE_INFINITY;

  /** After a paged list, streams are not tried during `pagesFirstMs`. */
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
