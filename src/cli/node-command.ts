/** What the commands have in common that look at a node as a start with these flags would. */
import { readFileSync } from 'node:fs';
import { usage } from '../config/commands.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { describeError } from './describe-error.ts';
import { exitCodes } from './exit-codes.ts';
import { type Output, takeOutput } from './output.ts';
import { terminal } from './terminal.ts';

export interface NodeCommand {
  readonly config: Config;
  readonly warnings: readonly string[];
  readonly output: Output;
}

/**
 * Reads `args` as a start would, apart from `-o`, and runs `act`, which resolves to the exit code.
 * A configuration that no start would accept is wrong usage.
 */
export async function runOnNode(
  command: string,
  args: readonly string[],
  act: (input: NodeCommand) => Promise<number>,
): Promise<number> {
  const taken = takeOutput(args);
  if (!taken.ok) return misuse(`${usage(command)}\nError: ${taken.reason}\n`);
  const loaded = loadConfig(taken.rest, { readFile: (path) => readFileSync(path) });
  if (loaded.kind === 'error') return misuse(loaded.text);
  if (loaded.kind !== 'run') {
    const flag = loaded.kind === 'print' ? 'this flag' : `--${loaded.kind}`;
    return misuse(`${usage(command)}\nError: ${flag} is for a start, not for ${command}\n`);
  }
  try {
    return await act({ ...loaded, output: taken.output });
  } catch (error) {
    terminal.stderr.write(`fairlead: ${describeError(error)}\n`);
    return exitCodes.unhealthy;
  }
}

function misuse(text: string): number {
  terminal.stderr.write(text);
  return exitCodes.usage;
}
