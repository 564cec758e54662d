/** What documents say of commands and of memory is so, and the same everywhere. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shownCommands } from '../../../src/cli/commands.ts';
import { argumentsOf, typedIn, wrong } from './command-lines.ts';

const root = resolve(import.meta.dirname, '../../..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const documents = execFileSync('git', ['ls-files', '*.md', 'deploy/chart/templates/NOTES.txt'], {
  cwd: root,
})
  .toString()
  .trim()
  .split('\n')
  // Decisions say what was thought of, also if it was not done.
  .filter((path) => !path.startsWith('docs/decisions/'));

/** Sentences name commands without their arguments, and values in capitals. */
const isPartial = /^(?:an argument is missing|unknown command "(?:TAB|service|config)")/;

describe('documents', () => {
  it.each(documents)('%s calls Fairlead with existing commands and flags', async (path) => {
    const calls = typedIn(read(path)).flatMap((line) => {
      const words = argumentsOf(line);
      return words === undefined || words[0] === '' ? [] : [{ line, words }];
    });
    const found = await Promise.all(
      calls.map(async ({ line, words }) => ({ line, reason: await wrong(words) })),
    );
    const errors = found.filter(({ reason }) => reason !== undefined && !isPartial.test(reason));
    expect(errors).toEqual([]);
  });

  it('a wrong command line of a document is found', async () => {
    expect(argumentsOf('kubectl -n a exec daemonset/b -- fairlead status -w')).toEqual([
      'status',
      '-w',
    ]);
    expect(argumentsOf('fairlead-VERSION.tgz')).toBeUndefined();
    expect(await wrong(['cleanup'])).toMatch(/^unknown command "cleanup"/);
    expect(await wrong(['--manifests', 'folder', '--clean'])).toBe('--clean');
  });

  it('operating.md has the exit codes of the commands', () => {
    const operating = read('docs/operating.md');
    const stated = [
      ...operating.matchAll(/^\| `fairlead ([a-z]+(?: [a-z]+)?).*exit code (\d)\b/gm),
    ];
    expect(stated.length).toBeGreaterThan(3);
    for (const [, name = '', code = ''] of stated) {
      const command = shownCommands.find(({ words }) => name.startsWith(words.join(' ')));
      expect(command, name).toBeDefined();
      expect(command!.exitCodes, name).toContain(`${code} `);
    }
  });
});

describe('figures of memory', () => {
  const operating = read('docs/operating.md');
  const [, idle, busy] = /Memory, resident: (\d+) to \d+ MB[^;]*; (\d+) while it works/.exec(
    operating,
  )!;
  const [, cluster] = /Add (\d+) MB for each 8,000 Services of 30 endpoints/.exec(operating)!;

  it.each(['docs/runbook.md', 'deploy/grafana/fairlead.json', 'deploy/chart/values.yaml'])(
    '%s has those of operating.md',
    (path) => {
      const text = read(path).replace(/\n\s*# /g, ' ');
      expect(text).toMatch(
        new RegExp(
          `\\b${busy} MB[^.|]*\\b${cluster} MB more for each 8,000 Services of 30 endpoints`,
        ),
      );
    },
  );

  it('the request of the chart is more than a large cluster needs', () => {
    const [, request] = /memory: (\d+)Mi/.exec(read('deploy/chart/values.yaml'))!;
    expect(Number(idle)).toBeLessThan(Number(busy));
    expect(Number(request)).toBeGreaterThan(Number(busy) + Number(cluster) + 60);
  });
});
