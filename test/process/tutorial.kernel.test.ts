/** Runs every command of docs/tutorial.md, and compares what each step prints. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { paced } from '../lab/pace.ts';

const root = resolve(import.meta.dirname, '../..');
const mark = '== step ';

interface Step {
  readonly commands: string;
  /** Each is part of a line that the commands print, in this order. */
  readonly printed: readonly string[];
}

function stepsOf(page: string): Step[] {
  const blocks = [...page.matchAll(/^```(sh|text)\n(.*?)^```$/gms)];
  const steps: { commands: string; printed: string[] }[] = [];
  for (const [, kind, text = ''] of blocks) {
    if (kind === 'sh') steps.push({ commands: text, printed: [] });
    else steps.at(-1)?.printed.push(...text.trimEnd().split('\n'));
  }
  return steps;
}

test(
  'every command of the tutorial does what the tutorial says',
  async () => {
    const steps = stepsOf(readFileSync(join(root, 'docs/tutorial.md'), 'utf8'));
    expect(steps.length).toBeGreaterThan(5);
    const script = steps.map(({ commands }, i) => `echo '${mark}${i}'\n${commands}`).join('\n');
    const run = promisify(execFile);
    // What the script leaves running ends with it.
    const ended = `trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n`;
    const { stdout } = await run('unshare', ['--net', 'bash', '-euc', `${ended}${script}`], {
      cwd: root,
      timeout: paced(240_000),
    });
    const printed = stdout.split(new RegExp(`^${mark}\\d+\n`, 'm')).slice(1);
    expect(printed).toHaveLength(steps.length);
    for (const [i, step] of steps.entries()) {
      let rest = printed[i] ?? '';
      for (const line of step.printed) {
        expect(rest, `step ${i} prints\n${printed[i]}`).toContain(line);
        rest = rest.slice(rest.indexOf(line));
      }
    }
  },
  paced(270_000),
);
