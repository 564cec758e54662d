/** Checks whether clients inside the kernel may be translated when they connect. */
import type { Config } from '../../config/config.ts';
import { clientsAtRisk } from '../../host/kernel-clients.ts';
import { type Finding, ok, warning } from './finding.ts';
import type { Machine } from './machine.ts';

const check = 'kernel clients';

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
