/**
 * `fairlead tables remove`: removes what Fairlead has left on a node that kube-proxy serves again.
 * Objects whose names kube-proxy uses as well stay. `--cleanup` removes both.
 */

import { connectTimeHere } from '../connect-time/cgroup.ts';
import type { ConnectTimePaths } from '../connect-time/maps/choice.ts';
import { hostFiles } from '../host/files.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { availableModes } from '../modes/index.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import type { Run } from './command.ts';
import { ofPrograms } from './connect-time.ts';
import { holdNamespaceForRemoval } from './instance.ts';
import { listOrRemove, ofFeatures, ofMode, type Removal } from './removal.ts';

export const run: Run = async ({ values }, io) => {
  const how = values['dry-run'] ? 'list' : 'remove';
  if (how === 'remove') {
    await holdNamespaceForRemoval((line) => io.stderr.write(`${line}\n`));
  }
  const kernel = openKernel();
  const removals = tableRemovals(kernel, availableModes(), connectTimeHere(hostFiles()));
  const print = (line: string) => io.stdout.write(`${line}\n`);
  return listOrRemove(removals, how, print).finally(() => kernel.close());
};

/** `connectTime`: where connect-time translation may be installed; undefined: nowhere. */
export function tableRemovals(
  kernel: Kernel,
  modes: readonly ProxyMode[],
  connectTime: ConnectTimePaths | undefined,
): Removal[] {
  return [
    ...(connectTime === undefined ? [] : [ofPrograms(kernel, connectTime)]),
    ...ofFeatures(kernel),
    ...modes.map((mode) => (isShared(mode) ? leftOf(kernel, mode) : ofMode(kernel, mode))),
  ];
}

/** Whether kube-proxy may use the same chains, interface or virtual services by now. */
function isShared({ ownsChain, usesIPVS }: ProxyMode): boolean {
  return usesIPVS || ownsChain !== undefined;
}

function leftOf(kernel: Kernel, mode: ProxyMode): Removal {
  const because = 'kube-proxy may use it; on a node that nothing proxies, --cleanup removes it';
  return async (_, report) => {
    for (const { object } of await mode.owned(kernel)) report({ object, because, stays: true });
  };
}
