/** Runs every command of docs/tutorial.md, and compares all that each step prints. */
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
  /** What they print. `…` is some text of a line or, as a line of its own, any lines. */
  readonly shown: string;
}

function stepsOf(page: string): Step[] {
  const blocks = page.matchAll(/^```sh\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?/gms);
  return [...blocks].map(([, commands = '', shown = '']) => ({ commands, shown }));
}

/** Matches all that a step prints. */
function patternOf(shown: string): RegExp {
  const lines = shown.split(/(?<=\n)/).map((line) => {
    if (line === '…\n') return '(?:.*\n)*?';
    return line.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&').replaceAll('…', '.+?');
  });
  return new RegExp(`^${lines.join('')}$`);
}

test(
  'every command of the tutorial prints what the tutorial shows',
  async () => {
    const steps = stepsOf(readFileSync(join(root, 'docs/tutorial.md'), 'utf8'));
    expect(steps.filter(({ shown }) => shown !== '').length).toBeGreaterThan(6);
    const script = steps.map(({ commands }, i) => `echo '${mark}${i}'\n${commands}`).join('\n');
    const run = promisify(execFile);
    // What the script leaves running ends with it. Errors are shown on a terminal, too.
    const around = `exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n`;
    const { stdout } = await run('unshare', ['--net', 'bash', '-euc', `${around}${script}`], {
      cwd: root,
      timeout: paced(240_000),
    });
    const printed = stdout.split(new RegExp(`^${mark}\\d+\n`, 'm')).slice(1);
    expect(printed).toHaveLength(steps.length);
    for (const [i, { shown }] of steps.entries()) {
      expect(printed[i], `step ${i}`).toMatch(patternOf(shown));
    }
  },
  paced(270_000),
);

test('a line more or less than the tutorial shows is noticed', () => {
  const pattern = patternOf('a … b\n…\nend\n');
  expect(['a 1 b\nend\n', 'a 1 b\n\nx\nend\n'].filter((text) => !pattern.test(text))).toEqual([]);
  const others = ['a 1 c\nend\n', 'x\na 1 b\nend\n', 'a 1 b\nend\nx\n', 'a 1 b\nend', ''];
  expect(others.filter((text) => pattern.test(text))).toEqual([]);
});
