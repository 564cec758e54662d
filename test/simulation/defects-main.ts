/**
 * Puts each defect back into a copy of the program, and simulates it until that is found:
 * `node test/simulation/defects-main.ts [PART OF A NAME]`. Prints a table; exits with 1 if one was
 * not found within ten minutes.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Defect, defects } from './defects.ts';

const root = resolve(import.meta.dirname, '..', '..');
const longestMs = 10 * 60_000;
const hoursEach = '3';

const [part = ''] = process.argv.slice(2);
const chosen = defects.filter(({ name }) => name.includes(part));
const rows = chosen.map((defect) => {
  const row = found(defect);
  console.log(row);
  return row;
});
process.exitCode = rows.every((row) => row.includes('| yes |')) ? 0 : 1;

/** A row: the defect, its file, whether it was found, the seed, minutes, and what was seen. */
function found(defect: Defect): string {
  const { file, mode = 'nftables', name } = defect;
  const copy = copyWith(defect);
  const beganMs = Date.now();
  const minutes = (): string => ((Date.now() - beganMs) / 60_000).toFixed(1);
  try {
    for (let seed = 1; Date.now() - beganMs < longestMs; seed += 1) {
      const flags = ['--seed', String(seed), '--hours', hoursEach, '--mode', mode];
      const run = spawnSync(process.execPath, ['test/simulation/main.ts', ...flags], {
        cwd: copy,
        encoding: 'utf8',
      });
      if (run.status === 0) continue;
      const [, seen] = /^FOUND: (.*)$/m.exec(run.stdout) ?? [];
      if (seen === undefined) throw new Error(`${name}, seed ${seed}: ${run.stderr}`);
      const words = seen.replaceAll('|', '/').slice(0, 100);
      return `| ${name} | ${file} | yes | ${mode} ${seed} | ${minutes()} | ${words} |`;
    }
    return `| ${name} | ${file} | no | | ${minutes()} | |`;
  } finally {
    rmSync(copy, { recursive: true });
  }
}

function copyWith({ file, from, to }: Defect): string {
  const copy = mkdtempSync(join(tmpdir(), 'fairlead-defect-'));
  for (const name of ['src', 'test', 'package.json']) {
    cpSync(join(root, name), join(copy, name), { recursive: true });
  }
  for (const name of ['node_modules', 'build']) symlinkSync(join(root, name), join(copy, name));
  const path = join(copy, 'src', file);
  const text = readFileSync(path, 'utf8');
  if (text.split(from).length !== 2) throw new Error(`${file} does not have this once: ${from}`);
  writeFileSync(
    path,
    text.replace(from, () => to),
  );
  return copy;
}
