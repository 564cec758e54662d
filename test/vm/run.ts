import { spawnSync } from 'node:child_process';

/** Runs a program to its end. Answers what went wrong, if anything. */
export function run(cwd: string, command: string, ...args: string[]): string | undefined {
  const { error, status, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (error !== undefined) return `${command}: ${error.message}`;
  return status === 0 ? undefined : `${command}: ${stderr.trim()}`;
}
