/**
 * `npm run simulate -- [--minutes M]`: simulates the program from new seeds, each in a process of
 * its own, mode by mode, until this time is over or one has a finding. With `--seed N`, and
 * `--mode` and `--hours` as a finding names them, one seed is repeated; `--log` prints what the
 * program has logged, `--defect NAME` puts a defect of defects.ts into the program. `--kept`
 * simulates the seeds that have had a finding, and a few others.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { ModeName } from '../../src/modes/mode.ts';
import { freshSeed } from '../chaos/random.ts';
import { changedText, defects } from './defects.ts';
import { type KeptSeed, keptSeeds } from './seeds.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    hours: { type: 'string', default: '2' },
    mode: { type: 'string', default: 'nftables' },
    defect: { type: 'string' },
    kept: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
  },
});
// Each seed has a process: the types are stripped once.
process.env.NODE_COMPILE_CACHE ??= 'build/compile-cache';
const modes: readonly ModeName[] = ['nftables', 'iptables', 'ipvs', 'userspace'];

if (values.seed !== undefined) await one(Number(values.seed), values.mode as ModeName);
else process.exitCode = (values.kept ? kept() : several(Number(values.minutes))) ? 0 : 1;

function several(minutes: number): boolean {
  const endMs = Date.now() + minutes * 60_000;
  const { hours } = values;
  const sums = new Map<string, number>();
  for (let i = 0; Date.now() < endMs; i += 1) {
    const words = child({ seed: freshSeed(), mode: modes[i % modes.length]!, hours });
    if (words === undefined) return false;
    for (const [, name = '', count] of words.matchAll(/([a-z ]+?) (\d+)(?=,|\n)/g)) {
      sums.set(name, (sums.get(name) ?? 0) + Number(count));
    }
    sums.set('seeds', i + 1);
  }
  console.log(`in all: ${hours} virtual hours each; ${countsOf(sums)}`);
  return true;
}

function kept(): boolean {
  const runs = keptSeeds.map(child);
  // A seed is all that a finding needs to be repeated.
  const isSame = logOf(child(keptSeeds[0])) === logOf(runs[0]);
  if (!isSame) console.log('two runs of one seed differ');
  return isSame && runs.every((run) => run !== undefined);
}

function logOf(words: string | undefined): string | undefined {
  return /, log \w+/.exec(words ?? '')?.[0];
}

/** What it has printed; undefined: it has a finding. */
function child({ hours, mode, seed }: KeptSeed): string | undefined {
  const flags = ['--seed', String(seed), '--mode', mode, '--hours', hours];
  const [script = ''] = process.argv.slice(1);
  const { status, stdout } = spawnSync(process.execPath, [script, ...flags], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    // It takes minutes on a busy machine.
    timeout: 3_600_000,
  });
  process.stdout.write(status === null ? `does not end: ${flags.join(' ')}\n` : stdout);
  return status === 0 ? stdout : undefined;
}

/** Ends the process: what the program has opened would keep it. */
async function one(seed: number, mode: ModeName): Promise<never> {
  if (values.defect !== undefined) putBack(values.defect);
  const { Finding, Simulation } = await import('./simulation.ts');
  const hash = createHash('sha256');
  const simulation = new Simulation(seed, mode, (line) => {
    hash.update(line);
    if (values.log) process.stdout.write(line.endsWith('\n') ? line : `${line}\n`);
  });
  const found = await simulation.run(Number(values.hours) * 3_600_000).then(
    () => undefined,
    (error: Error) => error,
  );
  const { checks, counts, faults, virtualMs } = simulation;
  const { system, user } = process.cpuUsage();
  console.log(
    `--seed ${seed} --mode ${mode} --hours ${values.hours}: ` +
      `${(virtualMs / 3_600_000).toFixed(2)} virtual hours in ${((system + user) / 1e6).toFixed(0)} s, ` +
      `log ${hash.digest('hex').slice(0, 12)}; ${countsOf([...Object.entries(counts), ...faults, ...checks])}`,
  );
  if (found instanceof Finding) console.log(`FOUND by ${found.check}: ${found.message}`);
  else if (found !== undefined) console.error(found);
  process.exit(found === undefined ? 0 : 1);
}

function countsOf(counts: Iterable<readonly [string, number]>): string {
  return Array.from(counts, ([name, count]) => `${name} ${count}`).join(', ');
}

/** Puts a defect into the module of src when that is loaded. */
function putBack(name: string): void {
  const defect = defects.find((each) => each.name === name);
  if (defect === undefined) throw new Error(`there is no such defect: ${name}`);
  const changed = new URL(`../../src/${defect.file}`, import.meta.url).href;
  registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context);
      if (url !== changed) return loaded;
      const text = readFileSync(fileURLToPath(url), 'utf8');
      return { ...loaded, source: changedText(defect, text) };
    },
  });
}
