/** `fairlead bundle`: the facts about this node that a bug report needs, as one archive. */
import { serverOf } from '../ask/server.ts';
import type { Run } from '../command.ts';
import { exitCodes, UsageError } from '../errors.ts';
import { collectBundle } from './collect.ts';
import { ustar } from './ustar.ts';

export const run: Run = async (given, { stdout }) => {
  if (stdout.isTTY) throw new UsageError('write the archive to a file: fairlead bundle > FILE.tar');
  const files = await collectBundle(await serverOf(given));
  const named = files.map(({ name, text }) => ({ name: `fairlead-bundle/${name}`, text }));
  stdout.writeArchive(ustar(named, Date.now()));
  return exitCodes.healthy;
};
