/** Builds the small C programs in this folder into a directory of the caller's. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

const flags = ['-O1', '-Wall', '-Wextra', '-Werror'];

/** Runs a program under the filter of system calls that container runtimes have. */
export function buildRuntimeDefault(directory: string): string {
  return build('runtime-default.c', join(directory, 'runtime-default'), []);
}

/** For LD_PRELOAD: sets the clock on the wall. */
export function buildSetClock(directory: string): string {
  return build('set-clock.c', join(directory, 'set-clock.so'), ['-shared', '-fPIC']);
}

/** For LD_PRELOAD: the kernel refuses netlink messages while a file says so. */
export function buildRoughKernel(directory: string): string {
  return build('rough-kernel.c', join(directory, 'rough-kernel.so'), ['-shared', '-fPIC']);
}

function build(source: string, result: string, kind: readonly string[]): string {
  const path = join(import.meta.dirname, source);
  execFileSync('cc', [...flags, ...kind, '-o', result, path, '-ldl']);
  return result;
}
