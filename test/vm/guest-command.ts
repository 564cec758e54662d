import type { Job } from './arguments.ts';
import { guestProject } from './project.ts';

/**
 * The shell script that the guest runs.
 *
 * CI=true: where a test could skip itself or write a missing snapshot it must fail instead, because
 * here everything that the suite needs is present, and nothing that it writes is kept.
 */
export function guestCommand(job: Job, colors: 'always' | 'never'): string {
  const color = colors === 'always' ? 'FORCE_COLOR=1' : 'NO_COLOR=1';
  const lab = 'FAIRLEAD_LAB_SLOWNESS=5';
  // To read our TypeScript takes half of the nine seconds in which a process of ours starts here;
  // and Node does it by WebAssembly, on which V8 crashes here about once in forty starts ("Check
  // failed: it->second.Size() > offset"; nodejs/node#64500). What is cached is not read again.
  const cached = 'NODE_COMPILE_CACHE=/tmp/node-compile-cache';
  const environment = ['CI=true', color, lab, cached, ...passedOn()].join(' ');
  return `#!/bin/sh\nexport ${environment}\ncd ${guestProject}\n${jobLines(job)}\n`;
}

/** What decides how much is told, as this process has it. */
function passedOn(): string[] {
  return ['FAIRLEAD_STORIES', 'FAIRLEAD_HANDOVER_STEPS'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [`${name}=${shellWords([value])}`];
  });
}

function jobLines(job: Job): string {
  if (job.kind === 'command') return `exec ${shellWords(job.words)}`;
  // An emulated processor is more than ten times slower than those that limits are made for.
  const limits = ['--testTimeout=300000', '--hookTimeout=300000'];
  const suite = [
    'vitest',
    'run',
    '--project',
    'kernel',
    '--project',
    'vm',
    ...limits,
    ...job.filters,
  ];
  return `node test/vm/guest-check.ts || exit\nexec ${shellWords(suite)}`;
}

function shellWords(words: readonly string[]): string {
  return words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
}
