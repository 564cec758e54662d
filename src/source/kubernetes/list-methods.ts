import type { ListMethod } from '../source.ts';

/**
 * Selects the method of the next list. A streaming list costs the server least, so it comes first.
 * After each failure the other method is next, because proxies may break either one (client-go only
 * falls back from streams to pages). After a paged list, pages come first for a while.
 */
export class ListMethods {
  readonly #pagesFirstMs: number;
  #next: ListMethod = 'streaming';
  #pagesUntilMs = Number.POSITIVE_INFINITY;

  /** After a paged list, streams are not tried during `pagesFirstMs`. */
  constructor(pagesFirstMs: number) {
    this.#pagesFirstMs = pagesFirstMs;
  }

  choose(nowMs: number): ListMethod {
    if (nowMs >= this.#pagesUntilMs) {
      this.#next = 'streaming';
      this.#pagesUntilMs = Number.POSITIVE_INFINITY;
    }
    return this.#next;
  }

  failed(method: ListMethod): void {
    this.#next = method === 'streaming' ? 'paged' : 'streaming';
  }

  succeeded(method: ListMethod, nowMs: number): void {
    this.#next = method;
    if (method === 'paged') this.#pagesUntilMs = nowMs + this.#pagesFirstMs;
  }
}
