import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { CannotRun } from './cannot-run.ts';
import type { Kernel } from './kernels.ts';
import { run } from './run.ts';

const configuration = join(import.meta.dirname, 'user-mode.config');

/** The packages that building a kernel needs in addition to those for the addon. */
const buildPackages = ['gcc', 'make', 'flex', 'bison', 'bc', 'xz-utils'] as const;

/**
 * Debian's sources of a series such as `6.1`, built as user-mode Linux and kept in the cache.
 * Debian's own build of it (package user-mode-linux) has no nf_tables for IPv4 and IPv6.
 * @throws CannotRun when apt has no such sources, or a tool is missing
 */
export function userModeKernel(series: string, cache: string): Kernel {
  mkdirSync(cache, { recursive: true });
  const source = `linux-source-${series}`;
  const show = spawnSync('apt-cache', ['show', '--no-all-versions', source], { encoding: 'utf8' });
  const version = /^Version: (.+)$/m.exec(show.stdout ?? '')?.[1];
  if (version === undefined) {
    throw new CannotRun(`apt knows no ${source}: run apt-get update, or choose others with --only`);
  }
  const prefix = `user-mode-${series}-`;
  const name = `${prefix}${version}-${fingerprint()}`;
  if (!existsSync(join(cache, name))) {
    build(source, name, cache);
    const older = readdirSync(cache).filter((item) => item.startsWith(prefix) && item !== name);
    for (const item of older) rmSync(join(cache, item), { recursive: true });
  }
  const image = join(cache, name, 'linux');
  return { name: `${series}-uml`, kind: 'user-mode', image, modules: undefined };
}

function fingerprint(): string {
  const parts = [configuration, import.meta.filename].map((path) => readFileSync(path));
  return createHash('sha256').update(Buffer.concat(parts)).digest('hex').slice(0, 8);
}

/** Leaves `CACHE/NAME/linux`, complete or not at all. */
function build(source: string, name: string, cache: string): void {
  const query = spawnSync('dpkg-query', ['-W', ...buildPackages], { encoding: 'utf8' });
  if (query.status !== 0) {
    throw new CannotRun(`to build a kernel needs: apt-get install -y ${buildPackages.join(' ')}`);
  }
  console.error(`test-vm: building ${source} as user-mode Linux, which takes some minutes`);
  const work = mkdtempSync(join(cache, 'build-'));
  try {
    writeFileSync(join(work, 'options'), optionsText(readFileSync(configuration, 'utf8')));
    const jobs = String(availableParallelism());
    const make = ['make', '-s', '-C', 'tree', 'ARCH=um', '-j', jobs] as const;
    const problem =
      run(work, 'apt-get', 'download', '-qq', source) ??
      run(work, 'sh', '-c', unpack) ??
      run(work, 'sed', '-i', endTogether, 'tree/arch/um/os-Linux/skas/process.c') ??
      run(work, ...make, `KCONFIG_ALLCONFIG=${join(work, 'options')}`, 'allnoconfig') ??
      run(work, ...make, 'linux') ??
      run(work, 'sh', '-c', 'mkdir result && strip -o result/linux tree/linux');
    if (problem !== undefined) throw new CannotRun(`cannot build ${source}: ${problem}`);
    // Another run may have been faster.
    if (!existsSync(join(cache, name))) renameSync(join(work, 'result'), join(cache, name));
  } finally {
    rmSync(work, { recursive: true });
  }
}

/** The names as the kernel's build reads them. */
function optionsText(names: string): string {
  const all = names.replaceAll(/^#.*/gm, '').trim().split(/\s+/);
  return all.map((name) => `CONFIG_${name}=y\n`).join('');
}

/** Unpacks the sources without the largest parts that are not compiled. */
const unpack = `
  dpkg-deb -x *.deb . && mkdir tree && tar -xf usr/src/*.tar.xz -C tree --strip-components=1 \\
    --exclude='*/Documentation/*.*' --exclude='*/sound/*.[ch]' --exclude='*/drivers/gpu/*.[ch]'`;

/**
 * A process of the guest is a process of the host that the kernel traces. If a signal kills the
 * kernel, that process must end, too, and not continue on the host.
 */
const endTogether = 's/PTRACE_O_TRACESYSGOOD) </(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL)) </';
