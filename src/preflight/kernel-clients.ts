/** Checks whether NFS and SMB clients of the kernel may be translated when they connect. */
import type { Config } from '../config/config.ts';
import { type Finding, ok, warning } from './finding.ts';
import type { Machine } from './machine.ts';

/** The first Linux whose `kernel_connect` keeps the address of its caller (0bdf399342c5). */
const firstSafe = { major: 6, minor: 6 } as const;

const check = 'kernel clients';

export function checkKernelClients(
  { connectTime }: Pick<Config, 'connectTime'>,
  machine: Pick<Machine, 'read'>,
): Finding[] {
  if (connectTime === 'off') return [];
  const release = machine.read('/proc/sys/kernel/osrelease') ?? '';
  if (isSafe(release)) return [ok(check, 'NFS and SMB clients of this kernel keep ClusterIPs')];
  const text =
    `Linux ${release || 'of unknown version'} may lack change 0bdf399342c5 of 6.6: ` +
    'NFS and SMB mounts of ClusterIPs may hang when a pod is replaced';
  const advice = 'annotate Services that are mounted with fairlead.io/connect-time: "off"';
  return [warning(check, text, advice)];
}

/** False as well for versions that cannot be read. Distributions may have the change earlier. */
function isSafe(release: string): boolean {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(release)?.map(Number) ?? [];
  if (major === undefined || minor === undefined) return false;
  return major > firstSafe.major || (major === firstSafe.major && minor >= firstSafe.minor);
}
