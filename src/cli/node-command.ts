/** The common part of commands that look at a node as a start with these flags would. */
import { readFileSync } from 'node:fs';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import type { Given } from './command.ts';
import { UsageError } from './errors.ts';

interface NodeConfig {
  readonly config: Config;
  readonly warnings: readonly string[];
}

/**
 * Parses the flags of `fairlead run` as a start would. Throws a UsageError if a start would fail.
 */
export function nodeConfig({ command, runFlags }: Given): NodeConfig {
  const loaded = loadConfig(runFlags, { readFile: (path) => readFileSync(path) });
  if (loaded.kind === 'error') {
    const { message, path, problems } = loaded;
    const place = path === '' ? [] : [`in ${path}`];
    throw new UsageError([message, ...place, ...problems].join('\n  '));
  }
  if (loaded.kind === 'run') return loaded;
  const flag = loaded.kind === 'print' ? 'this flag' : `--${loaded.kind}`;
  throw new UsageError(`${flag} is for a start, not for ${command.words.join(' ')}`);
}
