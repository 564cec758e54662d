/** What readelf says about programs and libraries. It belongs to binutils, which g++ needs. */
import { spawnSync } from 'node:child_process';

function readelf(options: readonly string[], paths: readonly string[]): string {
  const ran = spawnSync('readelf', [...options, '--wide', ...paths], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  if (ran.error !== undefined) throw ran.error;
  return ran.stdout;
}

/** How a shared object is protected. */
export interface Protection {
  /** All symbols are bound when it is loaded. */
  readonly bindsNow: boolean;
  /** What needs no more writing after that is read-only. */
  readonly relro: boolean;
  /** Functions that it takes from libraries. */
  readonly imports: readonly string[];
}

export function protectionOf(path: string): Protection {
  const text = readelf(['--segments', '--dynamic', '--dyn-syms'], [path]);
  return {
    bindsNow: /\(FLAGS(_1)?\).*\b(BIND_)?NOW\b/.test(text),
    relro: /^ +GNU_RELRO /m.test(text),
    imports: [...text.matchAll(/ UND (\w+)/g)].map(([, name]) => name!),
  };
}

/** Files whose names fit into one command line. */
const filesAtOnce = 5000;

/**
 * The names of the shared libraries (`libc.so.6`) that these programs and libraries ask the loader
 * for, without those that these need in turn. Other files need none.
 */
export function neededLibraries(paths: readonly string[]): Set<string> {
  const found = new Set<string>();
  for (let at = 0; at < paths.length; at += filesAtOnce) {
    const text = readelf(['--dynamic'], paths.slice(at, at + filesAtOnce));
    for (const [, name] of text.matchAll(/\(NEEDED\) .*\[(.*)\]$/gm)) found.add(name!);
  }
  return found;
}
