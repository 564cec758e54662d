import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';
import { UsageError } from './arguments.ts';
import { CannotRun } from './cannot-run.ts';
import type { MachineKind } from './machine.ts';
import { run } from './run.ts';

/** A kernel to boot. */
export interface Kernel {
  /** What reports call it: a Debian series such as `6.12`, or the file's name. */
  readonly name: string;
  readonly kind: MachineKind;
  /** Path of the bzImage, or of the program that user-mode Linux is. */
  readonly image: string;
  /** Directory like /lib/modules/RELEASE; undefined: all that is needed is built in. */
  readonly modules: string | undefined;
}

/**
 * The newest of Debian's cloud kernel packages of a series such as `6.12`, by natural order of the
 * version in the name: 6.1.0-9 is older than 6.1.0-47. Undefined when there is none.
 */
export function newestPackage(names: readonly string[], series: string): string | undefined {
  const prefix = `linux-image-${series}.`;
  const natural = new Intl.Collator('en', { numeric: true });
  return names
    .filter((name) => name.startsWith(prefix) && name.endsWith('-cloud-amd64'))
    .sort((left, right) => natural.compare(left, right))
    .at(-1);
}

/**
 * The newest kernel of a Debian series that apt or the cache has, unpacked in the cache.
 * @throws CannotRun when neither has one
 */
export function debianKernel(series: string, cache: string): Kernel {
  mkdirSync(cache, { recursive: true });
  const cached = newestPackage(readdirSync(cache), series);
  const offered = newestPackage(aptPackages(series), series);
  const newest = newestPackage(
    [cached, offered].filter((name) => name !== undefined),
    series,
  );
  if (newest === undefined) {
    throw new CannotRun(
      `apt knows no linux-image-${series}.*-cloud-amd64: run apt-get update, add a Debian ` +
        'release that has it to the sources, or choose others with --only or --kernel',
    );
  }
  if (newest === cached) return unpacked(series, join(cache, newest));
  const problem = fetchPackage(newest, cache);
  if (problem === undefined) {
    if (cached !== undefined) rmSync(join(cache, cached), { recursive: true });
    return unpacked(series, join(cache, newest));
  }
  if (cached === undefined) throw new CannotRun(`cannot fetch ${newest}: ${problem}`);
  console.error(`test-vm: cannot fetch ${newest}, using ${cached}: ${problem}`);
  return unpacked(series, join(cache, cached));
}

/**
 * A kernel of the user's.
 * @throws UsageError when a file is missing
 */
export function ownKernel(image: string, modules: string | undefined): Kernel {
  const missing = [image, ...(modules === undefined ? [] : [modules])].find(
    (path) => !existsSync(path),
  );
  if (missing !== undefined) throw new UsageError(`${missing} does not exist`);
  return { name: basename(image), kind: 'qemu', image, modules };
}

function aptPackages(series: string): string[] {
  const pattern = `^linux-image-${series.replace('.', '\\.')}\\.`;
  const search = spawnSync('apt-cache', ['search', '--names-only', pattern], { encoding: 'utf8' });
  // Null without apt: the cache may still have a kernel.
  return (search.stdout ?? '').split('\n').map((line) => line.split(' ')[0] ?? '');
}

/** Leaves `CACHE/NAME/{boot,lib}`, complete or not at all. Answers what went wrong, if anything. */
function fetchPackage(name: string, cache: string): string | undefined {
  console.error(`test-vm: fetching ${name}`);
  const work = mkdtempSync(join(cache, 'fetch-'));
  try {
    const tree = join(work, 'tree');
    const release = name.replace(/^linux-image-/, '');
    const problem =
      run(work, 'apt-get', 'download', '-qq', name) ??
      run(work, 'sh', '-c', 'dpkg-deb -x *.deb tree') ??
      // Newer packages have /usr/lib/modules.
      run(work, 'sh', '-c', '[ -e tree/lib ] || ln -s usr/lib tree/lib') ??
      run(work, 'depmod', '-b', tree, release);
    if (problem !== undefined) return problem;
    // Another run may have been faster.
    if (!existsSync(join(cache, name))) renameSync(tree, join(cache, name));
    return undefined;
  } finally {
    rmSync(work, { recursive: true });
  }
}

function unpacked(series: string, tree: string): Kernel {
  const release = basename(tree).replace(/^linux-image-/, '');
  return {
    name: series,
    kind: 'qemu',
    image: join(tree, 'boot', `vmlinuz-${release}`),
    modules: join(tree, 'lib/modules', release),
  };
}
