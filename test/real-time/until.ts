/** The limit for what hangs: at a load of 35, a process of Node took 20 s to begin. */
const hangsMs = 100_000;

/** Resolves once it holds. Fails with what `holds` last threw, or with `what`, if that hangs. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + hangsMs;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`not within ${hangsMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
