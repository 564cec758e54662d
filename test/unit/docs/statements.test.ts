/** What documents say of commands and of memory is so, and the same everywhere. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { cellOf, results, tablesOf } from '../../../bench/lib/results.ts';
import { table } from '../../../bench/lib/stats.ts';
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

  it('stateful-udp.md quotes stories that there are', () => {
    const quoted = [...read('docs/stateful-udp.md').matchAll(/\| "([^"]+)" \|/g)];
    const semantics = read('docs/semantics.md');
    expect(quoted.length).toBeGreaterThan(5);
    expect(quoted.filter(([, name]) => !semantics.includes(name!))).toEqual([]);
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
  const readme = read('README.md');
  const runs = results();

  /** A cell of a run, and of its first table if none is named. */
  function cell(run: string, row: readonly string[], column: string, table = 0): string {
    return cellOf(runs.get(run)!, { table, row, column });
  }

  /** `1,424` milliseconds as `1.4 s`. */
  const seconds = (ms = ''): string => `${(Number(ms.replace(',', '')) / 1000).toPrecision(2)} s`;
  const started = cell('api-start', ['8,000 × 30', 'protobuf'], 'programmed');
  const [load, nft] = ['Fairlead', 'nft -f'].map((one) => cell('load', ['8,000 × 30'], one));
  const changes = ['100 × 10', '8,000 × 30', '44,000 × 1', '100,000 × 3'].map((size) =>
    Number(cell('api-change', [size, 'protobuf'], 'p50')),
  );
  const beside = cell('tenant', ['replaces 5,000 source ranges, 1/s'], 'p99');
  const outside = ['Fairlead', 'kube-proxy'].map((program) =>
    Number(cell('versions', ['8,000 × 30', program], 'change').replace(',', '')),
  );
  const idle = ['Fairlead, nftables', 'kube-proxy, nftables', 'Node alone'].map((program) =>
    Math.round(Number(cell('idle', [program], 'resident'))),
  );
  const connecting = ['10 × 10', '10,000 × 10'].flatMap((size) =>
    ['Fairlead', 'kube-proxy layout'].map((path) => cell('connect', [size, path], 'connections/s')),
  );

  it.each([
    ['the start', ` ${seconds(started)} |`],
    ['the load', `| ${seconds(load)} | \`nft -f\` ${seconds(nft)} |`],
    ['a change', `| ${changes.slice(0, 3).join(', ')} and ${changes[3]} ms |`],
    [
      'a change, in short',
      `${Math.min(...changes).toFixed(1)} to ${Math.max(...changes).toFixed(1)} ms`,
    ],
    [
      'a new Service',
      `after ${Math.round(outside[0]!)} ms; with kube-proxy in the same run after ${(outside[1]! / 1000).toFixed(1)} s`,
    ],
    ['changes beside a tenant', `| ${Number(beside)} ms |`],
    ['memory', `| ${idle[0]} MB | kube-proxy ${idle[1]} MB, Node alone ${idle[2]} MB |`],
    [
      'connections',
      `| ${connecting[0]} and ${connecting[2]} | kube-proxy's layout ${connecting[1]} and ${connecting[3]} |`,
    ],
  ])('%s: as in bench/results', (_, words) => {
    expect(readme).toContain(words);
  });

  it('the first reason to switch has 40 words at most', () => {
    const [, first] = /## Why switch\n\n- ([\s\S]*?)\n- /.exec(readme)!;
    expect(first!.split(/\s+/).length).toBeLessThanOrEqual(40);
  });
});

describe('results of benchmarks', () => {
  it('are recorded from what a benchmark prints', () => {
    const head = ['cluster', 'p50'];
    const rows = [
      ['1 × 1', '0.10'],
      ['2 × 2', '1,200'],
    ];
    const text = `Loads;\nms\n\n${table(head, rows)}\n\nSome remark.`;
    expect(tablesOf(text)).toEqual([{ title: 'Loads; ms', head, rows }]);
  });

  it('have the figures that documents quote, and no cell is guessed', () => {
    const run = results().get('load')!;
    const figure = { table: 0, row: ['8,000 × 30'], column: 'nft -f' };
    expect(cellOf(run, figure)).toBe(run.tables[0]!.rows[1]![3]);
    expect(() => cellOf(run, { ...figure, row: ['8,000'] })).toThrow('no nft -f of 8,000');
    expect(() => cellOf(run, { ...figure, column: 'nft' })).toThrow('no nft of 8,000 × 30');
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
