/**
 * `fairlead tables remove`: removes what Fairlead has left on a node that kube-proxy serves again.
 * Objects whose names kube-proxy uses as well stay. `--cleanup` removes both.
 */

import { connectTimeHere } from '../connect-time/cgroup.ts';
import { endUnused } from '../connect-time/maps/attached.ts';
import { hostFiles } from '../host/files.ts';
import { orNone } from '../kernel/errors.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { ProxyMode } from '../modes/mode.ts';
import type { CleanupOptions } from './cleanup.ts';
import type { Run } from './command.ts';
import { endingLines, failureOf, listConnectTime, nothing } from './connect-time.ts';
import { type ExitCode, exitCodes } from './errors.ts';
import { featureObjects } from './feature-objects.ts';
import { holdNamespaceForRemoval } from './instance.ts';

type RemovalOptions = Omit<CleanupOptions, 'complain'>;

export const run: Run = async ({ values }, io) => {
  if (!values['dry-run']) await holdNamespaceForRemoval();
  const kernel = openKernel();
  const options: RemovalOptions = {
    kernel,
    modes: availableModes(),
    connectTime: connectTimeHere(hostFiles()),
    print: (line) => io.stdout.write(`${line}\n`),
  };
  try {
    return await (values['dry-run'] ? listTables(options) : removeTables(options));
  } finally {
    kernel.close();
  }
};

/**
 * Prints a line for each object that `removeTables` would remove or leave. Rejects when that may
 * not be all.
 */
export async function listTables(options: RemovalOptions): Promise<ExitCode> {
  const { connectTime, kernel, modes } = options;
  let count = 0;
  const print = (line: string): void => {
    count += 1;
    options.print(line);
  };
  const programs = connectTime && (await listConnectTime(kernel, connectTime));
  for (const line of programs?.lines ?? []) print(line);
  for (const { isThere, object } of featureObjects) if (await isThere(kernel)) print(object);
  for (const mode of modes) {
    for (const { object } of await orNone(mode.owned(kernel))) {
      print(isShared(mode) ? leftLine(object) : object);
    }
  }
  if (programs?.failure !== undefined) throw new Error(programs.failure);
  if (count === 0) print(nothing);
  return exitCodes.healthy;
}

/**
 * Prints a line for each object. Rejects with the first failure, and at the end when programs may
 * still be attached.
 */
export async function removeTables(options: RemovalOptions): Promise<ExitCode> {
  const { connectTime, kernel, modes } = options;
  let count = 0;
  const print = (line: string): void => {
    count += 1;
    options.print(line);
  };
  let failure: string | undefined;
  if (connectTime !== undefined) {
    const ending = await endUnused(kernel, connectTime, false);
    for (const line of endingLines(ending, connectTime)) print(line);
    failure = failureOf(ending);
  }
  for (const { object, remove } of featureObjects) {
    if (await remove(kernel)) print(`removed ${object}`);
  }
  for (const mode of modes) {
    const owned = await orNone(mode.owned(kernel));
    if (owned.length > 0 && !isShared(mode)) await mode.cleanup(kernel);
    for (const { object } of owned) print(isShared(mode) ? leftLine(object) : `removed ${object}`);
  }
  if (failure !== undefined) throw new Error(failure);
  if (count === 0) print(nothing);
  return exitCodes.healthy;
}

/** Whether kube-proxy may use the same chains, interface or virtual services by now. */
function isShared({ ownsChain, usesIPVS }: ProxyMode): boolean {
  return usesIPVS || ownsChain !== undefined;
}

function leftLine(object: string): string {
  return `left ${object}: kube-proxy may use it; on a node that nothing proxies, --cleanup removes it`;
}
