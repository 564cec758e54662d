/**
 * Where connect-time translation can work without reaching processes of others: a bpf file system
 * of its own, and a folder of the cgroup2 hierarchy that holds the actors of a lab only.
 */
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectTimePaths } from '../../src/connect-time/maps/choice.ts';
import { hangsMs } from './pace.ts';

/**
 * Whether such a place can be made: by root of the machine, because root of a user namespace may
 * load no programs, and with a kernel that has the file systems.
 */
export function canTranslate(): boolean {
  const isWhole = /^\s*0\s+0\s+4294967295$/m.test(readFileSync('/proc/self/uid_map', 'utf8'));
  const known = readFileSync('/proc/filesystems', 'utf8');
  return isWhole && process.getuid?.() === 0 && /\tbpf$/m.test(known) && /\tcgroup2$/m.test(known);
}

export interface ConnectTimePlace extends ConnectTimePaths {
  readonly cgroup: string;
  /**
   * From now on connections of this process, and of those that it starts, may be translated. It is
   * put into `folder`, or into `cgroup`.
   */
  include(pid: number, folder?: string): void;
  /** Makes a cgroup below `cgroup`, and returns its path. */
  folder(name: string): string;
  /** What is in the bpf file system, without what belongs to each. */
  left(): string[];
  /** Its processes are no longer in it. */
  close(): void;
}

export function makeConnectTimePlace(): ConnectTimePlace {
  const base = mkdtempSync(join(tmpdir(), 'fairlead-connect-'));
  const [bpf, hierarchy] = [join(base, 'bpf'), join(base, 'cgroup')];
  for (const path of [bpf, hierarchy]) mkdirSync(path);
  execFileSync('mount', ['-t', 'bpf', 'bpf', bpf]);
  execFileSync('mount', ['-t', 'cgroup2', 'cgroup2', hierarchy]);
  const cgroup = join(hierarchy, `fairlead-test-${process.pid}`);
  mkdirSync(cgroup, { recursive: true });
  const included = new Set<number>();
  return {
    directory: join(bpf, 'fairlead'),
    cgroup,
    include: (pid, folder = cgroup) => {
      writeFileSync(join(folder, 'cgroup.procs'), String(pid));
      included.add(pid);
    },
    folder: (name) => {
      const path = join(cgroup, name);
      mkdirSync(path, { recursive: true });
      return path;
    },
    left: () => readdirSync(bpf).filter((name) => !name.endsWith('.debug')),
    close: () => {
      for (const pid of included) {
        try {
          writeFileSync(join(hierarchy, 'cgroup.procs'), String(pid));
        } catch {
          // It has ended.
        }
      }
      removeFolders(cgroup);
      for (const path of [bpf, hierarchy]) execFileSync('umount', [path]);
      rmSync(base, { recursive: true });
    },
  };
}

/** Its files go with a folder. A process that was killed holds it until its end is complete. */
function removeFolders(path: string): void {
  const folders = readdirSync(path, { withFileTypes: true }).filter((one) => one.isDirectory());
  for (const { name } of folders) removeFolders(join(path, name));
  const deadlineMs = performance.now() + hangsMs;
  for (;;) {
    try {
      rmdirSync(path);
      return;
    } catch (error) {
      const isBusy = (error as NodeJS.ErrnoException).code === 'EBUSY';
      if (!isBusy || performance.now() > deadlineMs) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }
}
