/**
 * `fairlead connect-time remove`: ends translation by the attached programs, and changes no rules.
 * It needs no running Fairlead, and works while kube-proxy runs.
 */

import { connectTimePaths } from '../connect-time/cgroup.ts';
import {
  doubtsAbout,
  type Ending,
  endUnused,
  type Found,
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
import type { Io, Run } from './command.ts';
import { type ExitCode, exitCodes, isUnanswered } from './errors.ts';

const force = 'ignore-other-instance';
/** What removals print that have found nothing. */
export const nothing = 'nothing to remove';

export const run: Run = async (given, io) => {
  const server = await serverOf(given);
  const { values } = given;
  return onNode(async (kernel, paths) => {
    if (values['dry-run']) {
      return listPrograms(kernel, paths, (line) => io.stdout.write(`${line}\n`));
    }
    if (!values[force]) await refuseWhileFed(server);
    return remove(kernel, paths, io);
  });
};

async function onNode<T>(act: (kernel: Kernel, paths: ConnectTimePaths) => Promise<T>): Promise<T> {
  const kernel = openKernel();
  try {
    return await act(kernel, connectTimePaths(hostFiles()));
  } finally {
    kernel.close();
  }
}

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

async function remove(kernel: Kernel, paths: ConnectTimePaths, io: Io): Promise<ExitCode> {
  const ending = await endUnused(kernel, paths, false);
  const lines = endingLines(ending, paths);
  for (const line of lines) io.stdout.write(`${line}\n`);
  const failure = failureOf(ending);
  if (failure !== undefined) throw new Error(failure);
  if (lines.length === 0) io.stdout.write(`${nothing}\n`);
  return exitCodes.healthy;
}

/** Why it is not certain that everything is removed, or would be. */
export function failureOf({
  failure,
  unidentified,
  unknown,
}: Pick<Ending, 'failure' | 'unidentified' | 'unknown'>): string | undefined {
  if (failure !== undefined) return failure;
  if (unknown !== undefined) return `cannot ask which programs are attached: ${unknown}`;
  if (unidentified === 0) return undefined;
  return (
    `${unidentified} programs are attached, and asking whose they are needs CAP_SYS_ADMIN, or the ` +
    'bpf file system of the node at /sys/fs/bpf'
  );
}

/** Rejects when it cannot be known what would be removed. */
export async function listPrograms(
  kernel: Kernel,
  paths: ConnectTimePaths,
  print: (line: string) => void,
): Promise<ExitCode> {
  const { failure, lines } = await listConnectTime(kernel, paths);
  for (const line of lines) print(line);
  if (failure !== undefined) throw new Error(failure);
  if (lines.length === 0) print(nothing);
  return exitCodes.healthy;
}

/** A line for each thing that would be removed, and why that may not be all. */
export async function listConnectTime(
  kernel: Kernel,
  paths: ConnectTimePaths,
): Promise<{ readonly lines: string[]; readonly failure: string | undefined }> {
  const found = await findAttached(kernel, paths);
  const failure = failureOf(doubtsAbout(found, paths, false));
  return { lines: programLines(found, paths), failure };
}

function programLines(found: Found, paths: ConnectTimePaths): string[] {
  const { directory } = paths;
  const programs = found.kind === 'ours' ? found.programs : [];
  return [
    ...(hasPins(paths)
      ? [`directory ${directory}: only Fairlead uses this name, for connect-time translation`]
      : []),
    ...programs
      .filter(({ isPinned }) => !isPinned)
      .map(
        ({ link, name, program }) =>
          `program ${name} (id ${program}, link ${link}): its maps are those of connect-time translation`,
      ),
  ];
}

/** A line for each thing that was removed. */
export function endingLines(
  { detached, isFolderRemoved }: Ending,
  { directory }: Pick<ConnectTimePaths, 'directory'>,
): string[] {
  return [
    ...(isFolderRemoved ? [`removed directory ${directory}`] : []),
    ...detached.map(({ link, name, program }) => {
      return `detached program ${name} (id ${program}, link ${link})`;
    }),
  ];
}
