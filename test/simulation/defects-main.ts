/**
 * Puts each defect back into the program, and simulates it until that is found, two at a time:
 * `node test/simulation/defects-main.ts [PART OF A NAME]`; `--missing`: only those that no seed is
 * recorded of. A seed that has a finding without the defect, too, shows nothing. Exits with 1 if
 * one was not found within ten minutes of processor time, or within `--seconds`. `--write` records
 * in defects-found.json how each was found; the seed that is recorded is tried first.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { type Defect, defects, type Found } from './defects.ts';

const hoursEach = '1';
const together = 2;

// See main.ts.
process.env.NODE_COMPILE_CACHE ??= 'build/compile-cache';
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    write: { type: 'boolean', default: false },
    missing: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '600' },
  },
});
const [part = ''] = positionals;
const path = join(import.meta.dirname, 'defects-found.json');
const known: Record<string, Found> = JSON.parse(readFileSync(path, 'utf8'));

/** Whether nothing is found without a defect, by mode and seed. */
const clean = new Map<string, Promise<boolean>>();
const waiting = defects.filter(({ name }) => {
  return name.includes(part) && !(values.missing && known[name] !== undefined);
});
await Promise.all(Array.from({ length: together }, work));

async function work(): Promise<void> {
  for (let defect = waiting.shift(); defect !== undefined; defect = waiting.shift()) {
    const { name } = defect;
    const result = await search(defect).catch((error: Error) => console.error(error.message));
    console.log(name, result ?? 'was NOT FOUND');
    process.exitCode ||= result === undefined ? 1 : 0;
    if (result !== undefined && values.write) {
      known[name] = result;
      const kept = defects.filter((each) => known[each.name] !== undefined);
      const rows = kept.map((each) => `${JSON.stringify(each.name)}: ${rowOf(known[each.name]!)}`);
      writeFileSync(path, `{\n  ${rows.join(',\n  ')}\n}\n`);
    }
  }
}

async function search({ mode = 'nftables', name }: Defect): Promise<Found | undefined> {
  let seconds = 0;
  const first = known[name]?.seed;
  for (let i = first === undefined ? 1 : 0; seconds < Number(values.seconds); i += 1) {
    const seed = i === 0 ? first! : i;
    const flags = ['--seed', String(seed), '--hours', hoursEach, '--mode', mode];
    const { error, stderr, stdout } = await simulated([...flags, '--defect', name]);
    seconds += Number(/ in (\d+) s,/.exec(stdout)?.[1] ?? 0);
    if (error === null) continue;
    const [, by] = /^FOUND by ([^:]*):/m.exec(stdout) ?? [];
    if (by === undefined) throw new Error(`${name}, seed ${seed}: ${stderr}`);
    const id = flags.join();
    const isClean = clean.get(id) ?? simulated(flags).then((run) => run.error === null);
    clean.set(id, isClean);
    if (await isClean) return { seed, seconds, by };
    console.log(`${flags.join(' ')} has a finding without a defect`);
  }
  return undefined;
}

/** One line, as the formatter has it. */
function rowOf({ seed, seconds, by }: Found): string {
  return `{ "seed": ${seed}, "seconds": ${seconds}, "by": ${JSON.stringify(by)} }`;
}

function simulated(flags: readonly string[]) {
  return new Promise<{ error: Error | null; stdout: string; stderr: string }>((resolve) => {
    const main = join(import.meta.dirname, 'main.ts');
    execFile(process.execPath, [main, ...flags], { maxBuffer: 1e9 }, (error, stdout, stderr) => {
      resolve({ error, stdout, stderr });
    });
  });
}
