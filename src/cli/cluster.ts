/** `fairlead cluster`: prints kubectl fairlead, the plugin that asks all nodes. */
import { readFile } from 'node:fs/promises';
import { shippedFile } from '../config/shipped-file.ts';
import type { Run } from './command.ts';
import { exitCodes } from './errors.ts';

export const run: Run = async (_, { stdout }) => {
  stdout.write(await readFile(shippedFile('kubectl-fairlead'), 'utf8'));
  return exitCodes.healthy;
};
