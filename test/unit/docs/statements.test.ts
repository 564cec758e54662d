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

  it('SECURITY.md names what shows each cell of its table', () => {
    const rows = [...read('SECURITY.md').matchAll(/^\| (?!who \| can|-)(.*) \|$/gm)].map(
      ([, row]) => row!.split(/ \|(?= |$)/).map((cell) => cell.trim()),
    );
    expect(rows.length).toBeGreaterThan(10);
    const shown = /test\.ts`|^(nothing|everything|the same)\b|^$/;
    const bare = rows.flatMap(([who, ...cells]) =>
      cells.filter((cell) => !shown.test(cell)).map((cell) => `${who}: ${cell}`),
    );
    expect(bare).toEqual([]);
  });

  it('upgrades of the chart take the defaults of the new chart, and keep the given values', () => {
    // With --reuse-values the old digest stays; with --values alone, all other values are lost.
    const upgrades = documents.flatMap((path) =>
      typedIn(read(path).replaceAll('\\\n', '')).filter((line) => /^helm upgrade \S/.test(line)),
    );
    expect(upgrades.length).toBeGreaterThan(2);
    expect(upgrades.filter((line) => !line.includes(' --reset-then-reuse-values'))).toEqual([]);
  });

  it('differences.md has the commands and flags that kube-proxy does not have', () => {
    const differences = read('docs/differences.md');
    const [, commands] = /^- \*\*Commands\.\*\* ([\s\S]*?)\n- /m.exec(differences)!;
    const missing = shownCommands
      .map(({ words }) => words)
      .filter(
        (words) => ![words[0], words.join(' ')].some((name) => commands!.includes(`\`${name}`)),
      )
      .map((words) => words.join(' '));
    expect(missing).toEqual(['run']);
    const [, flags] = /^- \*\*Own flags\.\*\* ([\s\S]*?)\n- /m.exec(differences)!;
    const own = [...read('docs/flags.md').matchAll(/^\| `(--[^`]+)`.*Not a flag of kube-proxy/gm)];
    expect(own.length).toBeGreaterThan(15);
    expect(own.map(([, flag]) => flag).filter((flag) => !flags!.includes(`\`${flag}\``))).toEqual(
      [],
    );
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

describe("README.md's figures", () => {
  const bench = read('bench/README.md');
  const readme = read('README.md');

  /** The cells of the first row with these first cells, below a line that begins with `title`. */
  function row(title: string, ...first: readonly string[]): readonly string[] {
    const cells = bench
      .slice(bench.search(new RegExp(`^${title}`, 'm')))
      .split('\n')
      .map((line) => line.split('|').map((cell) => cell.trim()))
      .find(([, ...found]) => first.every((cell, column) => found[column] === cell));
    expect(cells, `${title}: ${first.join(' ')}`).toBeDefined();
    return cells!.slice(1 + first.length);
  }

  /** `1,424` milliseconds as `1.4 s`. */
  const seconds = (ms = ''): string => `${(Number(ms.replace(',', '')) / 1000).toPrecision(2)} s`;
  const started = row('Process start', '8,000 × 30', 'protobuf');
  const load = row('Full load', '8,000 × 30');
  const changes = ['100 × 10', '8,000 × 30', '44,000 × 1', '100,000 × 3'].map((size) =>
    Number(row('One endpoint changed', size, 'protobuf')[0]),
  );
  const idle = ['Fairlead, nftables', 'kube-proxy, nftables', 'Node alone'].map((program) =>
    Math.round(Number(row('20 Services and a real API server', program)[0])),
  );
  const connecting = ['10 × 10', '10,000 × 10'].flatMap((size) =>
    ['Fairlead', 'kube-proxy layout'].map((path) => row('Connecting', size, path)[0]),
  );

  it.each([
    ['the start', ` ${seconds(started[0])} |`],
    ['the load', `| ${seconds(load[0])} | \`nft -f\` ${seconds(load[2])} |`],
    ['a change', `| ${changes.slice(0, 3).join(', ')} and ${changes[3]} ms |`],
    [
      'a change, in short',
      `${Math.min(...changes).toFixed(1)} to ${Math.max(...changes).toFixed(1)} ms`,
    ],
    [
      'changes beside a tenant',
      `| ${Number(row('\\| a tenant', 'replaces 5,000 source ranges, 1/s')[1])} ms |`,
    ],
    ['memory', `| ${idle[0]} MB | kube-proxy ${idle[1]} MB, Node alone ${idle[2]} MB |`],
    [
      'connections',
      `| ${connecting[0]} and ${connecting[2]} | kube-proxy's layout ${connecting[1]} and ${connecting[3]} |`,
    ],
  ])('%s: as in bench/README.md', (_, words) => {
    expect(readme).toContain(words);
  });

  it('the first reason to switch has 40 words at most', () => {
    const [, first] = /## Why switch\n\n- ([\s\S]*?)\n- /.exec(readme)!;
    expect(first!.split(/\s+/).length).toBeLessThanOrEqual(40);
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
