/** All checks of a node before Fairlead is installed on it. Changes nothing for good. */
import { adviceOn } from '../../config/advice.ts';
import type { Config } from '../../config/config.ts';
import { type Finding, ok, problem, warning } from '../../host/finding.ts';
import { clientsAtRisk } from '../../host/kernel-clients.ts';
import { isKernelError, isNotPermitted } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { builtModes } from '../../modes/index.ts';
import type { ProxyMode } from '../../modes/proxy-mode.ts';
import { keepsProxyTable } from '../../takeover/sign.ts';
import { checkAgents } from './agents.ts';
import { checkConntrack } from './conntrack.ts';
import type { Machine } from './machine.ts';
import { checkModes } from './modes.ts';
import { checkPorts } from './ports.ts';
import { checkPredecessors } from './predecessors.ts';
import { checkPrivileges } from './privileges.ts';
import { checkReliances, checkSettings } from './settings.ts';

interface PreflightOptions {
  readonly config: Config;
  readonly kernel: Kernel;
  readonly machine: Machine;
}

/** The findings, in the order in which an operator reads them. */
export async function preflight({ config, kernel, machine }: PreflightOptions): Promise<Finding[]> {
  const registry = builtModes();
  let mode: ProxyMode | undefined;
  const asked = await answered('modes', async () => {
    const found = await checkModes(config, kernel, registry);
    mode = found.mode;
    return found.findings;
  });
  return [
    ...checkPrivileges(machine),
    ...asked,
    ...adviceOn(config).map(({ about, text, advice }) => ({
      check: about,
      level: 'ok' as const,
      text,
      advice,
    })),
    ...(await answered('predecessors', () =>
      checkPredecessors(kernel, [...registry.values()], mode),
    )),
    ...(await answered('other agents', () =>
      checkAgents(kernel, {
        keepsProxyTable: mode !== undefined && keepsProxyTable(config, mode),
        acceptsHealthChecks: mode?.ownsChain?.('filter', 'KUBE-NODEPORTS') === true,
      }),
    )),
    ...(mode === undefined ? [] : checkSettings(config, mode, machine)),
    ...checkReliances(config, machine),
    ...checkKernelClients(config, machine),
    ...checkConntrack(config, machine),
    ...checkPorts(config, machine),
  ];
}

/** Makes an error of the kernel a finding, so that the other checks are still made. */
async function answered(
  check: string,
  ask: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const isDenied = isNotPermitted(error);
    const advice = isDenied ? 'run as root, or add CAP_NET_ADMIN' : 'ask again';
    if (!isKernelError(error)) throw error;
    return [problem(check, `the kernel does not answer: ${error.message}`, advice)];
  }
}

const check = 'kernel clients';

/** Checks whether clients inside the kernel may be translated when they connect. */
export function checkKernelClients(
  { connectTime }: Pick<Config, 'connectTime'>,
  machine: Pick<Machine, 'read'>,
): Finding[] {
  if (connectTime === 'off') return [];
  const clients = clientsAtRisk(machine);
  if (clients.length === 0) return [ok(check, 'mounts of ClusterIPs are safe on this kernel')];
  const text =
    `this kernel may lack changes of Linux 6.6: ${clients.join(', ')} mounts of ClusterIPs ` +
    'may hang when a pod is replaced';
  const advice = 'annotate Services that are mounted with fairlead.io/connect-time: "off"';
  return [warning(check, text, advice)];
}
