/**
 * `node scripts/stall.ts [--seed N] COMMAND...` runs a command while it stops its processes, one
 * after the other and for a moment each, as a machine does that has no processor left for them. A
 * test that depends on time fails here long before it fails by chance.
 */
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freshSeed, Random } from '../test/chaos/random.ts';

/** How long a process is stopped, and then none. Most are short: squares of what is random. */
const stoppedMs = 2500;
const betweenMs = 500;

/** They wait for a child until it is stopped, and continue without it. */
const shells: readonly string[] = ['bash', 'dash', 'fish', 'sh', 'zsh'];

interface Process {
  readonly pid: number;
  readonly name: string;
  readonly parent: number;
  readonly state: string;
}

function processes(): readonly Process[] {
  return readdirSync('/proc').flatMap((pid): Process[] => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      // The name of the program stands in parentheses, and may contain any character.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const [, name, rest] = /^\d+ \((.*)\) (.*)$/s.exec(stat)!;
      const [state, parent] = rest!.split(' ');
      return [{ pid: Number(pid), name: name!, parent: Number(parent), state: state! }];
    } catch {
      return []; // It has just ended.
    }
  });
}

/** Those below `root` that run or wait, without itself and without children of shells. */
function candidates(root: number): readonly Process[] {
  const all = processes();
  const found: Process[] = [];
  const search = (parent: Process): void => {
    for (const one of all.filter((process) => process.parent === parent.pid)) {
      if ('RSD'.includes(one.state) && !shells.includes(parent.name)) found.push(one);
      search(one);
    }
  };
  for (const one of all) if (one.pid === root) search(one);
  return found;
}

function signal(pid: number, name: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    process.kill(pid, name);
  } catch {
    // It has just ended.
  }
}

const args = process.argv.slice(2);
const seed = args[0] === '--seed' ? Number(args.splice(0, 2)[1]) : freshSeed();
const [command = '', ...rest] = args;
const random = new Random(seed);
const child = spawn(command, rest, { stdio: 'inherit' });
const ended = new Promise<number>((resolve, reject) => {
  child.once('error', reject);
  child.once('exit', (code, by) => resolve(code ?? (by === null ? 1 : 2)));
});
// Whoever ends this script ends the command, and no process is left stopped.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => child.kill(name));
let stops = 0;
let isOver = false;
const over = ended.finally(() => {
  isOver = true;
});
while (!isOver) {
  await Promise.race([over, sleep(random.next() ** 2 * betweenMs)]);
  const possible = candidates(child.pid!);
  if (possible.length === 0) continue;
  const { pid } = random.pick(possible);
  signal(pid, 'SIGSTOP');
  stops += 1;
  await sleep(random.next() ** 2 * stoppedMs);
  signal(pid, 'SIGCONT');
}
console.error(`stall: stopped processes ${stops} times, --seed ${seed}`);
process.exitCode = await over;
