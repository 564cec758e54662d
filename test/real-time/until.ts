import { hangsMs } from '../lab/pace.ts';

/** Resolves once it holds. Fails with `what` if that hangs. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const endMs = performance.now() + hangsMs;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`not within ${hangsMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
