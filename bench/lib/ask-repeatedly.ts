/** Asks the product again and again, from a process beside it (`asker.ts`). */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Namespace } from './namespace.ts';

const asker = join(import.meta.dirname, 'asker.ts');
const run = promisify(execFile);

export interface Answers {
  readonly tookMs: readonly number[];
  /** Of the last answer. */
  readonly bytes: number;
}

/** Rejects when an answer has another status than 200. Paths take turns. */
export async function askRepeatedly(
  namespace: Namespace,
  paths: readonly string[],
  count: number,
  perSecond: number,
): Promise<Answers> {
  const args = [asker, String(count), String(1000 / perSecond), ...paths];
  const inside = ['netns', 'exec', namespace.name, process.execPath, ...args];
  const { stdout } = await run('ip', inside);
  return JSON.parse(stdout) as Answers;
}
