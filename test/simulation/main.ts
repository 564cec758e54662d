/**
 * `npm run simulate -- [--minutes M]`: simulates the program from new seeds, each in a process of
 * its own, mode by mode, until this time is over or one has a finding. With `--seed N`, and
 * `--mode` and `--hours` as a finding names them, one seed is repeated; `--log` prints what the
 * program has logged. `--kept` simulates the seeds that have had a finding, and a few others.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { parseArgs } from 'node:util';
import type { ModeName } from '../../src/modes/mode.ts';
import { freshSeed } from '../chaos/random.ts';
import { keptSeeds } from './seeds.ts';
import { Finding, Simulation } from './simulation.ts';

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    seed: { type: 'string' },
    hours: { type: 'string', default: '2' },
    mode: { type: 'string', default: 'nftables' },
    kept: { type: 'boolean', default: false },
    log: { type: 'boolean', default: false },
  },
});
const modes: readonly ModeName[] = ['nftables', 'iptables', 'ipvs'];

if (values.seed !== undefined) await one(Number(values.seed), values.mode as ModeName);
else if (values.kept) process.exitCode = keptSeeds.every(child) ? 0 : 1;
else process.exitCode = several(Number(values.minutes)) ? 0 : 1;

function several(minutes: number): boolean {
  const endMs = Date.now() + minutes * 60_000;
  for (let i = 0; Date.now() < endMs; i += 1) {
    if (!child({ seed: freshSeed(), mode: modes[i % modes.length]! })) return false;
  }
  return true;
}

/** Whether this seed has no finding. */
function child({ mode, seed }: { readonly mode: ModeName; readonly seed: number }): boolean {
  const flags = ['--seed', String(seed), '--mode', mode, '--hours', values.hours];
  const [script = ''] = process.argv.slice(1);
  return spawnSync(process.execPath, [script, ...flags], { stdio: 'inherit' }).status === 0;
}

/** Ends the process: what the program has opened would keep it. */
async function one(seed: number, mode: ModeName): Promise<never> {
  const hash = createHash('sha256');
  const beganNs = process.hrtime.bigint();
  const simulation = new Simulation(seed, mode, (line) => {
    hash.update(line);
    if (values.log) process.stdout.write(line.endsWith('\n') ? line : `${line}\n`);
  });
  const found = await simulation.run(Number(values.hours) * 3_600_000).then(
    () => undefined,
    (error: Error) => error,
  );
  const { counts, faults, virtualMs } = simulation;
  const seconds = Number(process.hrtime.bigint() - beganNs) / 1e9;
  const facts = Object.entries({ ...counts, ...Object.fromEntries(faults) });
  console.log(
    `--seed ${seed} --mode ${mode} --hours ${values.hours}: ` +
      `${(virtualMs / 3_600_000).toFixed(2)} virtual hours in ${seconds.toFixed(0)} s, ` +
      `log ${hash.digest('hex').slice(0, 12)}; ` +
      facts.map(([name, count]) => `${name} ${count}`).join(', '),
  );
  if (found instanceof Finding) console.log(`FOUND: ${found.message}`);
  else if (found !== undefined) console.error(found);
  process.exit(found === undefined ? 0 : 1);
}
