import type { ListWay } from '../source.ts';

/**
 * How to ask for the next list. A stream costs the server least, so it comes first. After any
 * failure of one way the other one is next, because proxies in between may break either (client-go
 * only falls back from streams to pages). After a list in pages, pages come first for a while.
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
