/** After the last question. A page that is open asks every two seconds. */
export const keepMs = 10_000;

/** A value that is kept while there are questions for it. */
export class WhileAsked<T> {
  #value: T | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** Undefined: there is none, or there was no question for a while. */
  get value(): T | undefined {
    this.#timer ??= setTimeout(() => {
      this.#value = undefined;
    }, keepMs).unref();
    this.#timer.refresh();
    return this.#value;
  }

  set value(value: T) {
    this.#value = value;
  }
}
