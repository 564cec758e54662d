/** `fairlead version`. */
import {
  fairleadLine,
  fairleadVersion,
  kubernetesLine,
  kubernetesVersion,
} from '../config/version.ts';
import type { Run } from './command.ts';
import { exitCodes } from './errors.ts';
import { writerOf } from './output.ts';

export const run: Run = async ({ values }, { stdout }) => {
  const write = writerOf(values.output);
  const version = { fairleadVersion, kubernetesVersion, nodeVersion: process.version };
  stdout.write(write(version, () => kubernetesLine + fairleadLine));
  return exitCodes.healthy;
};
