/**
 * Keeps long work from holding the event loop. Between two objects ask `due`; when it is, await
 * `rest`. One Pacer is shared by all that may work at the same time: resting tasks are let go on
 * one a turn of the loop, so that four of them do not add up to four budgets in one turn.
 */
export class Pacer {
  readonly #budgetMs: number;
  #turn: Promise<void> = Promise.resolve();
  #turnStartMs = performance.now();

  constructor(budgetMs = 3) {
    this.#budgetMs = budgetMs;
  }

  get due(): boolean {
    return performance.now() - this.#turnStartMs > this.#budgetMs;
  }

  rest(): Promise<void> {
    this.#turn = this.#turn.then(nextTurn).then(() => {
      this.#turnStartMs = performance.now();
    });
    return this.#turn;
  }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
