/** Finds and copies the shared libraries that programs need. */
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { DebianPackage } from './debian.ts';
import { run } from './run.ts';

export interface Library {
  readonly name: string;
  /** Its path in the package and in the image. */
  readonly path: string;
  readonly from: DebianPackage;
}

/**
 * Copies the libraries that `programs` need, directly or not, to `target`, at their paths in the
 * packages. Throws when no package has a library in one of `folders`.
 */
export function copyLibraries(
  programs: readonly string[],
  packages: readonly DebianPackage[],
  { folders, target }: { readonly folders: readonly string[]; readonly target: string },
): Library[] {
  const libraries = new Map<string, Library>();
  const paths = (name: string) => folders.map((folder) => join(folder, name));
  const copy = (program: string): void => {
    for (const name of needed(program)) {
      if (libraries.has(name)) continue;
      const found = packages.flatMap((from) =>
        paths(name)
          .filter((path) => existsSync(join(from.folder, path)))
          .map((path) => ({ name, path, from })),
      );
      const [library] = found;
      if (library === undefined) {
        throw new Error(`${basename(program)} needs ${name}, which no package of the image has`);
      }
      libraries.set(name, library);
      const to = join(target, library.path);
      mkdirSync(dirname(to), { recursive: true });
      copyFileSync(join(library.from.folder, library.path), to);
      copy(to);
    }
  };
  for (const program of programs) copy(program);
  return [...libraries.values()];
}

function needed(program: string): string[] {
  const text = run('readelf', ['--dynamic', '--wide', program]);
  return [...text.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map((match) => match[1]!);
}
