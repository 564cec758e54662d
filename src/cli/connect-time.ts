/**
 * `fairlead connect-time remove`: ends translation by the attached programs, and changes no rules.
 * It needs no running Fairlead, and works while kube-proxy runs.
 */

import { connectTimePaths } from '../connect-time/cgroup.ts';
import {
  doubtsAbout,
  type Ending,
  endUnused,
  findAttached,
  hasPins,
} from '../connect-time/maps/attached.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { hostFiles } from '../host/files.ts';
import { findInstance, formatHolder } from '../host/instance-lock.ts';
import { orElse } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { ask } from './ask/client.ts';
import { serverOf } from './ask/server.ts';
import type { Run } from './command.ts';
import { isUnanswered } from './errors.ts';
import { type Left, listOrRemove, type Removal } from './removal.ts';

const force = 'ignore-other-instance';
export const run: Run = async (given, io) => {
  const server = await serverOf(given);
  const { values } = given;
  const how = values['dry-run'] ? 'list' : 'remove';
  const kernel = openKernel();
  try {
    if (how === 'remove' && !values[force]) await refuseWhileFed(server);
    const removal = ofPrograms(kernel, connectTimePaths(hostFiles()));
    return await listOrRemove([removal], how, (line) => io.stdout.write(`${line}\n`));
  } finally {
    kernel.close();
  }
};

/** Throws while a Fairlead of this network namespace updates the programs, or might. */
async function refuseWhileFed(server: string): Promise<void> {
  const found = await findInstance();
  if (found.kind !== 'taken') return;
  const state = await stateOf(server);
  if (state === 'off' || state === 'unavailable' || state === 'stale') return;
  const because = state === undefined ? 'does not say whether it uses' : 'uses';
  throw new Error(
    `a Fairlead runs here and ${because} the programs: ${formatHolder(found.holder)}. ` +
      `Set connectTime: off in its configuration, or stop it, or give --${force}`,
  );
}

/** The state of connect-time translation that a running Fairlead reports; undefined: no answer. */
async function stateOf(server: string): Promise<string | undefined> {
  return (await orElse(ask(server, 'status', {}), undefined, isUnanswered))?.connectTime.state;
}

/** The attached programs, and the folder of their maps. Rejects where that may not be all. */
export function ofPrograms(kernel: Kernel, paths: ConnectTimePaths): Removal {
  return async (how, report) => {
    if (how === 'list') {
      const found = await findAttached(kernel, paths);
      const programs = found.kind === 'ours' ? found.programs : [];
      const unpinned = programs.filter(({ isPinned }) => !isPinned);
      named(hasPins(paths), unpinned, paths).forEach(report);
      checkWhole(doubtsAbout(found, paths, false));
    } else {
      const ending = await endUnused(kernel, paths, false);
      named(ending.isFolderRemoved, ending.detached, paths).forEach(report);
      checkWhole(ending);
    }
  };
}

/** Throws where it is not certain that everything is removed, or would be. */
function checkWhole({
  failure,
  unidentified,
  unknown,
}: Pick<Ending, 'failure' | 'unidentified' | 'unknown'>): void {
  if (failure !== undefined) throw new Error(failure);
  if (unknown !== undefined) throw new Error(`cannot ask which programs are attached: ${unknown}`);
  if (unidentified === 0) return;
  throw new Error(
    `${unidentified} programs are attached, and asking whose they are needs CAP_SYS_ADMIN, or the ` +
      'bpf file system of the node at /sys/fs/bpf',
  );
}

function named(
  hasFolder: boolean,
  programs: Ending['detached'],
  { directory }: ConnectTimePaths,
): Left[] {
  const folder = {
    object: `directory ${directory}`,
    because: 'only Fairlead uses this name, for connect-time translation',
  };
  const because = 'its maps are those of connect-time translation';
  return [
    ...(hasFolder ? [folder] : []),
    ...programs.map(({ link, name, program }) => {
      return { object: `program ${name} (id ${program}, link ${link})`, because };
    }),
  ];
}
