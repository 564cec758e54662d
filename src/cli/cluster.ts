/** `fairlead cluster`: runs or prints kubectl fairlead, the plugin that asks all nodes. */
import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { shippedFile } from '../config/shipped-file.ts';
import type { Run } from './command.ts';
import { exitCodes, UsageError } from './errors.ts';

const plugin = (): string => shippedFile('kubectl-fairlead');

export const run: Run = async ({ words }, { stdout }) => {
  if (words.length > 0) return runWithKubectl(words);
  stdout.write(await readFile(plugin(), 'utf8'));
  return exitCodes.healthy;
};

/** `fairlead test`. */
export const runTest: Run = ({ words }) => runWithKubectl(['test', ...words]);

async function runWithKubectl(words: readonly string[]): Promise<number> {
  if (!hasKubectl(process.env.PATH ?? '')) {
    const asked = ['kubectl', 'fairlead', ...words].join(' ');
    throw new UsageError(
      'fairlead asks its own node only, and there is no kubectl here. "fairlead cluster" prints ' +
        `kubectl-fairlead: where kubectl is, ask "${asked}"`,
    );
  }
  return runPlugin(plugin(), words);
}

function hasKubectl(path: string): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, 'kubectl'), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Resolves to its exit code. It has the terminal, and signals of the terminal are for it. */
async function runPlugin(plugin: string, words: readonly string[]): Promise<number> {
  const ignore = (): void => {};
  process.on('SIGINT', ignore);
  const child = spawn('/bin/sh', [plugin, ...words], { stdio: 'inherit' });
  const pass = (): boolean => child.kill('SIGTERM');
  process.on('SIGTERM', pass);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve(code ?? 130));
    });
  } finally {
    process.off('SIGINT', ignore);
    process.off('SIGTERM', pass);
  }
}
