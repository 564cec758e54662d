import { join } from 'node:path';
import type { Job } from './arguments.ts';

/** Where a kube-proxy for benchmarks is in the guest; KUBE_PROXY says where it is outside. */
export const guestKubeProxy = '/usr/local/bin/kube-proxy';

/** Vitest's projects that run in a guest. */
export const suiteProjects: readonly string[] = ['--project', 'kernel*', '--project', 'vm'];

/**
 * The shell script that the guest runs in the folder of the project.
 *
 * CI=true: a test fails instead of skipping itself or writing a missing snapshot. The guest has all
 * that the suite needs, and keeps nothing that it writes.
 */
export function guestCommand(job: Job, project: string, colors: 'always' | 'never'): string {
  const color = colors === 'always' ? 'FORCE_COLOR=1' : 'NO_COLOR=1';
  // Of waits, and of the limits of tests. An emulated processor is more than ten times slower.
  const lab = 'FAIRLEAD_LAB_SLOWNESS=5';
  // Stripping types from our TypeScript takes half of the nine seconds that a process of ours needs
  // to start in the guest. Node does it by WebAssembly, and V8 crashes on that about once in forty
  // starts ("Check failed: it->second.Size() > offset"; nodejs/node#64500). A cache avoids both, and
  // that of this machine will do: it has no instructions of a processor.
  const cached = `NODE_COMPILE_CACHE=${shellWords([join(project, 'build/compile-cache')])}`;
  const path = `PATH=${shellWords([join(project, 'node_modules/.bin')])}:$PATH`;
  const environment = ['CI=true', path, color, lab, cached, ...passedOn()].join(' ');
  return `#!/bin/sh\nexport ${environment}\ncd ${shellWords([project])}\n${jobLines(job)}\n`;
}

/**
 * Environment variables that set which tests run and for how long, as this process has them, and
 * where kube-proxy is.
 */
function passedOn(): string[] {
  const peer = process.env.KUBE_PROXY === undefined ? [] : [`KUBE_PROXY=${guestKubeProxy}`];
  const chosen = ['FAIRLEAD_STORIES', 'FAIRLEAD_HANDOVER_STEPS'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [`${name}=${shellWords([value])}`];
  });
  return [...chosen, ...peer];
}

function jobLines(job: Job): string {
  if (job.kind === 'command') return `exec ${shellWords(job.words)}`;
  const suite = ['vitest', 'run', ...suiteProjects, ...job.filters];
  return `node test/vm/guest-check.ts || exit\nexec ${shellWords(suite)}`;
}

function shellWords(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
}
