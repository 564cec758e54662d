/** Does all steps of something at once, where nobody waits for a turn between them. */
export function finish<T>(steps: Generator<undefined, T>): T {
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}
