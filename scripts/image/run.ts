/** Runs other programs. */
import { execFileSync } from 'node:child_process';

export interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** Returns the program's standard output. On failure the Error has its standard error. */
export function run(program: string, args: readonly string[], options: RunOptions = {}): string {
  const { cwd, env } = options;
  try {
    return execFileSync(program, args, {
      encoding: 'utf8',
      maxBuffer: 64 << 20,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, ...env },
      ...(cwd === undefined ? {} : { cwd }),
    });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new Error(`${program} failed: ${stderr?.trim() || message}`);
  }
}
