/** Builds programs of the lab on first use; `node test/lab/native/build.ts` prints where they are. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import path from 'node:path';

const SOURCE_DIRECTORY = import.meta.dirname;
/** The directory for files that the lab makes and reuses. */
export const BUILD_DIRECTORY = path.join(SOURCE_DIRECTORY, '../../../build/lab');

// Static, so that the file also runs in a guest without a C++ library.
const FLAGS = '-std=c++23 -O1 -Wall -Wextra -Wpedantic -Wconversion -Werror -static'.split(' ');

/** Acts in a namespace: see `agent.cc`. */
export function buildAgent(): string {
  return built('agent');
}

/** Makes many connections: see `load.cc`. */
export function buildLoad(): string {
  return built('load');
}

/** Makes traffic of one kind for a time: see `traffic.cc`. */
export function buildTraffic(): string {
  return built('traffic');
}

/** Links two namespaces, with loss and delay: see `link.cc`. */
export function buildLink(): string {
  return built('link');
}

/**
 * The path of the binary. Its name has the hash of its sources, so that a machine without a
 * compiler can use a file that another one has built.
 */
function built(name: 'agent' | 'load' | 'traffic' | 'link'): string {
  const hash = createHash('sha256').update(FLAGS.join(' '));
  for (const file of readdirSync(SOURCE_DIRECTORY).sort()) {
    if (/\.(cc|h)$/.test(file)) hash.update(readFileSync(path.join(SOURCE_DIRECTORY, file)));
  }
  const binary = path.join(BUILD_DIRECTORY, `${name}-${hash.digest('hex').slice(0, 12)}`);
  if (existsSync(binary)) return binary;
  mkdirSync(BUILD_DIRECTORY, { recursive: true });
  // Renamed into place: another run may be building the same.
  const unfinished = `${binary}.${process.pid}`;
  execFileSync('g++', [...FLAGS, '-o', unfinished, path.join(SOURCE_DIRECTORY, `${name}.cc`)]);
  renameSync(unfinished, binary);
  return binary;
}

if (import.meta.main) {
  process.stdout.write(`${[buildAgent(), buildLoad(), buildTraffic(), buildLink()].join('\n')}\n`);
}
