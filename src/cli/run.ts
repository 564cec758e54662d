/** `fairlead [run]`: handles all command lines of kube-proxy. */
import { readFileSync, writeFileSync } from 'node:fs';
import { type LoadResult, loadConfig } from '../config/load.ts';
import type { Run } from './command.ts';
import { describeError } from './errors.ts';
import { complain, complainInLog } from './final-messages.ts';
import { terminal } from './terminal.ts';

export const run: Run = async ({ words: args }) => {
  let content: Uint8Array | undefined;
  const readFile = (path: string): Uint8Array => {
    content = readFileSync(path);
    return content;
  };
  const result = loadConfig(args, { readFile });
  try {
    return await act(result, args, content);
  } catch (error) {
    const err = describeError(error);
    const text = `fairlead: ${err}\n`;
    if (hasLog(result)) complainInLog(result.config.logging.format, text, err);
    else complain(text);
    return 1;
  }
};

/** Only a process that is to run as a proxy, with a valid configuration, has a log. */
function hasLog(result: LoadResult): result is Extract<LoadResult, { kind: 'run' | 'init-only' }> {
  return result.kind === 'run' || result.kind === 'init-only';
}

async function act(
  result: LoadResult,
  args: readonly string[],
  content: Uint8Array | undefined,
): Promise<number> {
  switch (result.kind) {
    case 'print':
      terminal.stdout.write(result.text);
      terminal.stderr.write(result.note);
      return 0;
    case 'error':
      complain(result.text);
      return result.exitCode;
    case 'write-config':
      for (const warning of result.warnings) terminal.stderr.write(`${warning}\n`);
      writeFileSync(result.path, result.text);
      terminal.stderr.write(`Wrote configuration to ${result.path}\n`);
      return 0;
    case 'cleanup': {
      const { runCleanup } = await import('./cleanup.ts');
      await runCleanup(result.action, result.config);
      return 0;
    }
    case 'dry-run': {
      const { runDryRun } = await import('./dry-run.ts');
      await runDryRun(result.config, result.warnings);
      return 0;
    }
    case 'init-only': {
      const { initialise } = await import('./proxy.ts');
      await initialise({ ...result, args, content });
      return 0;
    }
    case 'run': {
      const { runProxy } = await import('./proxy.ts');
      await runProxy({ ...result, args, content });
      return 0;
    }
  }
}
