/** Where this machine has what programs of the kernel are kept in and attached to. */
import { statSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { ReadableFiles } from '../host/files.ts';
import type { ConnectTimePaths } from './maps/choice.ts';
import { connectTimeDirectory } from './maps/placement.ts';

/** The number of the hierarchy's root (kernfs_id); what is below it has others. */
const rootNumber = 1;

/** `numberOf` returns the inode number of a folder, or undefined if the folder does not exist. */
export function connectTimePaths(
  host: ReadableFiles,
  numberOf: (path: string) => number | undefined = inodeOf,
): ConnectTimePaths {
  const mounts = (host.read('/proc/self/mountinfo') ?? '').split('\n').flatMap(mountOf);
  const groups = mounts.filter(({ type }) => type === 'cgroup2').map(({ at }) => at);
  const pins = mounts.filter(({ type }) => type === 'bpf');
  // A container cannot have a folder in /sys, so it has ours elsewhere.
  const own = pins.find(({ root }) => root.endsWith(`/${basename(connectTimeDirectory)}`));
  return {
    directory: own?.at ?? connectTimeDirectory,
    isMounted: own !== undefined || pins.some(({ at }) => at === dirname(connectTimeDirectory)),
    cgroup: groups.find((path) => numberOf(path) === rootNumber),
    anyCgroup: groups[0],
  };
}

/**
 * The same where this process may have programs at all; undefined: it runs in a user namespace, and
 * the kernel lets only processes of the first one attach programs.
 */
export function connectTimeHere(host: ReadableFiles): ConnectTimePaths | undefined {
  const isFirst = /^\s*0\s+0\s+4294967295$/.test(
    host.read('/proc/self/uid_map') ?? '0 0 4294967295',
  );
  return isFirst ? connectTimePaths(host) : undefined;
}

interface Mount {
  readonly type: string;
  /** What of the file system is mounted. */
  readonly root: string;
  readonly at: string;
}

/** A line of proc_pid_mountinfo(5). */
function mountOf(line: string): Mount[] {
  const [place = '', type = ''] = line.split(' - ');
  const [, , , root, at] = place.split(' ').map(unescaped);
  if (root === undefined || at === undefined) return [];
  return [{ type: type.split(' ', 1)[0]!, root, at }];
}

/** Blanks and the like are octal numbers. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) =>
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
