/** `fairlead cluster`: prints kubectl fairlead, the plugin that asks all nodes. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../config/shipped-file.ts';
import type { Run } from './command.ts';
import { exitCodes, UsageError } from './errors.ts';

export const run: Run = async ({ words }, { stdout }) => {
  if (words.length > 0) {
    const asked = ['kubectl', 'fairlead', ...words].join(' ');
    throw new UsageError(
      `fairlead asks its own node only. "fairlead cluster" prints kubectl-fairlead: ask "${asked}"`,
    );
  }
  stdout.write(await readFile(shippedFile('kubectl-fairlead'), 'utf8'));
  return exitCodes.healthy;
};
