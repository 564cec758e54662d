/**
 * `fairlead tables remove`: removes what Fairlead has left on a node that kube-proxy serves again.
 * Objects whose names kube-proxy uses as well stay. `--cleanup` removes both.
 */
import { endUnused } from '../connect-time/maps/attached.ts';
import { tableText } from '../fast-path/layout.ts';
import { isThere, remove } from '../fast-path/removal.ts';
import { connectTimePaths } from '../host/cgroup.ts';
import { hostFiles } from '../host/files.ts';
import { isAbsence } from '../kernel/errors.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { OwnedObject, ProxyMode } from '../modes/mode.ts';
import type { CleanupOptions } from './cleanup.ts';
import type { Run } from './command.ts';
import { endingLines, listConnectTime } from './connect-time.ts';
import { type ExitCode, exitCodes } from './errors.ts';
import { holdNamespaceForRemoval } from './instance.ts';

type RemovalOptions = Omit<CleanupOptions, 'complain'>;

export const run: Run = async ({ values }, io) => {
  if (!values['dry-run']) await holdNamespaceForRemoval();
  const kernel = openKernel();
  const options: RemovalOptions = {
    kernel,
    modes: availableModes(),
    connectTime: connectTimePaths(hostFiles()),
    print: (line) => io.stdout.write(`${line}\n`),
  };
  try {
    return await (values['dry-run'] ? listTables(options) : removeTables(options));
  } finally {
    kernel.close();
  }
};

/** Prints a line for each object that `removeTables` would remove or leave. */
export async function listTables(options: RemovalOptions): Promise<ExitCode> {
  const { connectTime, kernel, modes, print } = options;
  if (connectTime !== undefined) {
    for (const line of await listConnectTime(kernel, connectTime)) print(line);
  }
  if (await isThere(kernel)) print(`table ${tableText}`);
  for (const mode of modes) {
    for (const { object } of await ownedBy(mode, kernel)) {
      print(isShared(mode) ? leftLine(object) : object);
    }
  }
  return exitCodes.healthy;
}

/** Prints a line for each object. Rejects with the first failure. */
export async function removeTables(options: RemovalOptions): Promise<ExitCode> {
  const { connectTime, kernel, modes } = options;
  let count = 0;
  const print = (line: string): void => {
    count += 1;
    options.print(line);
  };
  if (connectTime !== undefined) {
    const ending = await endUnused(kernel, connectTime, false);
    for (const line of endingLines(ending, connectTime)) print(line);
    if (ending.failure !== undefined) throw new Error(ending.failure);
  }
  if (await remove(kernel)) print(`removed table ${tableText}`);
  for (const mode of modes) {
    const owned = await ownedBy(mode, kernel);
    if (owned.length > 0 && !isShared(mode)) await mode.cleanup(kernel);
    for (const { object } of owned) print(isShared(mode) ? leftLine(object) : `removed ${object}`);
  }
  if (count === 0) print('nothing to remove');
  return exitCodes.healthy;
}

/** Whether kube-proxy may use the same chains, interface or virtual services by now. */
function isShared({ ownsChain, usesIPVS }: ProxyMode): boolean {
  return usesIPVS || ownsChain !== undefined;
}

function leftLine(object: string): string {
  return `left ${object}: kube-proxy may use it; on a node that nothing proxies, --cleanup removes it`;
}

/** Nothing where the kernel lacks this part. */
async function ownedBy(mode: ProxyMode, kernel: Kernel): Promise<readonly OwnedObject[]> {
  try {
    return await mode.owned(kernel);
  } catch (error) {
    if (isAbsence(error)) return [];
    throw error;
  }
}
