import { setTimeout as sleep } from 'node:timers/promises';

/** Does `work` this often, spread over the time. What comes late is made up for. */
export async function spread(
  count: number,
  seconds: number,
  work: (i: number) => Promise<unknown>,
): Promise<void> {
  const startedMs = performance.now();
  for (let i = 0; i < count; i += 1) {
    await work(i);
    await sleep(Math.max(0, startedMs + ((i + 1) * seconds * 1000) / count - performance.now()));
  }
}
