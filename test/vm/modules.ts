import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { CannotRun } from './cannot-run.ts';
import type { Entry } from './cpio.ts';

/**
 * Matches lines of modules.dep: networking, libraries and cryptography that it uses, modules that a
 * user added, and drivers of virtual links. Those of network cards are in folders of their own.
 */
const wantedModule =
  /^(kernel\/(net|lib|crypto|arch)\/|kernel\/drivers\/net\/[^/]+:|updates\/|extra\/)/;

/**
 * The modules that the guest may load, with all that they depend on, as paths relative to
 * /lib/modules/RELEASE. `modulesDep` is the text of depmod's modules.dep: `path: path path…`, where
 * each line already names indirect dependencies.
 */
export function selectModules(modulesDep: string): string[] {
  const lines = modulesDep.split('\n').filter((line) => wantedModule.test(line));
  const paths = lines.flatMap((line) => line.replace(':', '').trim().split(/\s+/));
  return [...new Set(paths)].sort();
}

/**
 * Kernel modules for the guest's modprobe.
 * @param directory as /lib/modules/RELEASE, after depmod
 * @throws CannotRun when depmod has not been run on it
 */
export function moduleFiles(directory: string): Entry[] {
  const dependencies = join(directory, 'modules.dep');
  if (!existsSync(dependencies)) {
    throw new CannotRun(`${dependencies} is missing: is this a modules directory? Run depmod`);
  }
  const indexes = readdirSync(directory).filter((name) => name.startsWith('modules.'));
  const modules = selectModules(readFileSync(dependencies, 'utf8'));
  const release = basename(realpathSync(directory));
  return [...indexes, ...modules].map((path) => ({
    kind: 'copy',
    path: `/usr/lib/modules/${release}/${path}`,
    hostPath: join(directory, path),
  }));
}
