/** How fast the cost of something grows with its size. */

const repeats = 9;

/** Milliseconds of the fastest of some runs: what others do to this machine only ever adds. */
function fastestMs(run: () => unknown): number {
  let fastest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < repeats; i += 1) {
    const startMs = performance.now();
    run();
    fastest = Math.min(fastest, performance.now() - startMs);
  }
  return fastest;
}

/**
 * Times as long as `make(size)`'s work takes `make(factor * size)`'s: near `factor` when the cost
 * is linear, near its square when it is quadratic. What `make` does does not count.
 */
export function growth(size: number, factor: number, make: (size: number) => () => unknown) {
  const [small, large] = [make(size), make(factor * size)];
  // Compiled before it is measured.
  small();
  large();
  return fastestMs(large) / fastestMs(small);
}
