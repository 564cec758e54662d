import type { ChildProcess } from 'node:child_process';
import { text } from 'node:stream/consumers';

export interface Output {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** What a program has written when it has ended. Its stdout and stderr must be pipes. */
export async function outputOf(child: ChildProcess): Promise<Output> {
  const [stdout, stderr, code] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    new Promise<number | null>((done) => child.once('close', done)),
  ]);
  return { code, stdout, stderr };
}
