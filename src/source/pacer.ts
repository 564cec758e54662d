/**
 * Keeps long work from holding the event loop. Between two objects ask `due`; when it is, await
 * `rest`. One Pacer is shared by all that may work at the same time: resting tasks are let go on
 * one a turn of the loop, so that four of them do not add up to four budgets in one turn.
 *
 * What is read in one turn becomes one batch: with 3 ms instead of 5, more and smaller batches take
 * a tenth more processor time under churn, and changes wait four times as long.
 */
export class Pacer {
  readonly #budgetMs: number;
  #turn: Promise<void> = Promise.resolve();
  #turnStartMs = performance.now();

  constructor(budgetMs = 5) {
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
