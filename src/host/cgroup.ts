/** Where this machine has what programs of the kernel are kept in and attached to. */
import { statSync } from 'node:fs';
import type { ConnectTimePaths } from '../modes/connect-time/choice.ts';
import { connectTimeDirectory } from '../modes/connect-time/placement.ts';
import type { HostFiles } from './files.ts';

/** The number of the hierarchy's root (kernfs_id); what is below it has others. */
const rootNumber = 1;

/** `numberOf`: the inode number of a folder; undefined = it is not there. */
export function connectTimePaths(
  host: HostFiles,
  numberOf: (path: string) => number | undefined = inodeOf,
): ConnectTimePaths {
  const mounts = host.read('/proc/self/mountinfo') ?? '';
  const cgroup = mounts
    .split('\n')
    .flatMap((line) => cgroupMount(line) ?? [])
    .find((path) => numberOf(path) === rootNumber);
  return { directory: connectTimeDirectory, cgroup };
}

/** Where a line of proc_pid_mountinfo(5) mounts the cgroup2 hierarchy. */
function cgroupMount(line: string): string | undefined {
  const [place = '', type = ''] = line.split(' - ');
  if (!type.startsWith('cgroup2 ')) return undefined;
  // Blanks and the like are octal numbers.
  return place
    .split(' ')[4]
    ?.replace(/\\([0-7]{3})/g, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 8)),
    );
}

function inodeOf(path: string): number | undefined {
  try {
    return statSync(path).ino;
  } catch {
    return undefined;
  }
}
