import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Entry, unlessGone } from './cpio.ts';
import { hostEntry } from './userland.ts';

/**
 * Where the project is in the guest: where it is here, because what vitest keeps of transformed
 * modules, and Node of compiled ones, depends on their paths. The guest mounts its own file systems
 * at some places.
 */
export function guestProject(root: string): string {
  const path = resolve(root);
  return /^\/(dev|proc|sys)\//.test(path) ? '/fairlead' : path;
}

/** Folders that no test in the guest reads, relative to the project's root. */
const skippedFolders: ReadonlySet<string> = new Set([
  '.git',
  '.cache',
  'build/Release/.deps',
  'build/Release/obj.target',
  // Fuzzers write here while the project is read.
  'build/fuzz',
  'build/image',
  'build/native',
  'node_modules/.vite',
  'node_modules/@biomejs',
  'node_modules/@kubernetes',
  'node_modules/@types',
  'node_modules/@typescript',
  'node_modules/node-addon-api',
  'node_modules/node-gyp',
  // The second copy (or hard link) of the node program, in addition to the one in node/bin.
  'node_modules/node/node_modules',
  'node_modules/playwright-core',
  'node_modules/typescript',
]);

const skippedPackageFile = /\.(d\.[mc]?ts|map|md|h|cc)$/;

/** The project as it is now, with the packages that tests need. */
export function projectFiles(root: string): Entry[] {
  const entries: Entry[] = [];
  const project = guestProject(root);
  const pending = [''];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    const here = join(root, folder);
    const items = unlessGone(() => readdirSync(here, { withFileTypes: true })) ?? [];
    for (const item of items) {
      const path = join(folder, item.name);
      if (isSkipped(path)) continue;
      if (item.isDirectory()) pending.push(path);
      else entries.push(...hostEntry(join(root, path), join(project, path)));
    }
  }
  return entries;
}

/** Whether the guest does without this file or folder of the project. */
export function isSkipped(path: string): boolean {
  return (
    skippedFolders.has(path) || (path.startsWith('node_modules/') && skippedPackageFile.test(path))
  );
}
