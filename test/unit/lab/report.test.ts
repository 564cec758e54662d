import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { main, type ResultLine, recordResult, renderPage } from '../../lab/report.ts';
import type { Story } from '../../lab/story.ts';

function line(story: string, mode: string, over: Partial<ResultLine> = {}): ResultLine {
  const defaults = { covers: ['5.4'], families: ['IPv4', 'IPv6'], result: 'passes' };
  return { story, mode, ...defaults, ...over } as ResultLine;
}

function rows(lines: readonly ResultLine[]): string[] {
  const table = renderPage(lines)
    .split('\n')
    .filter((text) => text.startsWith('|'));
  return table.slice(2);
}

describe('the table of semantics', () => {
  test('has a row for each story, in the order of sections as numbers', () => {
    const lines = [
      line('late', 'nftables', { covers: ['12.40'] }),
      line('b', 'nftables', { covers: ['5.10'] }),
      line('a', 'nftables', { covers: ['5.9', '5.4'], families: ['IPv6'] }),
    ];
    expect(rows(lines)).toEqual([
      '| 5.9, 5.4 | a | IPv6 | passes |',
      '| 5.10 | b | IPv4, IPv6 | passes |',
      '| 12.40 | late | IPv4, IPv6 | passes |',
    ]);
  });

  test('has a column for each tested mode, in their order', () => {
    const lines = [line('a', 'ipvs'), line('b', 'nftables'), line('b', 'hand-written')];
    expect(renderPage(lines)).toContain('| Sections | Story | Families | nftables | ipvs |\n');
    expect(rows(lines)).toEqual([
      '| 5.4 | a | IPv4, IPv6 | – | passes |',
      '| 5.4 | b | IPv4, IPv6 | passes | – |',
    ]);
  });

  test('shows a story that fails in one of several runs as failing', () => {
    const lines = [line('a', 'ipvs'), line('a', 'ipvs', { result: 'fails' }), line('a', 'ipvs')];
    expect(rows(lines)).toEqual(['| 5.4 | a | IPv4, IPv6 | fails |']);
  });

  test('explains why a mode differs, and escapes characters that would end a cell', () => {
    const differs = line('a|b', 'userspace', { result: 'differs', reason: 'TCP | UDP only' });
    expect(rows([differs])).toEqual(['| 5.4 | a\\|b | IPv4, IPv6 | differs: TCP \\| UDP only |']);
  });

  test('omits stories that no mode of the product has run', () => {
    expect(rows([line('a', 'hand-written')])).toEqual([]);
  });
});

describe('the command that writes the table', () => {
  const story: Story = { name: 'a', covers: ['5.4'], steps: [] };
  let directory: string;
  let results: string;
  let page: string;

  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), 'report-'));
    results = path.join(directory, 'results.jsonl');
    page = path.join(directory, 'page.md');
    vi.stubEnv('FAIRLEAD_STORY_RESULTS', results);
    vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
    rmSync(directory, { recursive: true });
  });

  test('writes the page from recorded results, and then accepts it', () => {
    recordResult(story, 'nftables', { result: 'passes' });
    expect(main([page, results])).toBe(0);
    expect(readFileSync(page, 'utf8')).toContain('| 5.4 | a | IPv4, IPv6 | passes |');
    expect(main(['--check', page, results])).toBe(0);
  });

  test('rejects a page that differs from the results, and does not change it', () => {
    recordResult(story, 'nftables', { result: 'passes' });
    main([page, results]);
    const before = readFileSync(page, 'utf8');
    recordResult(story, 'nftables', { result: 'fails' });
    expect(main([page, '--check', results])).toBe(1);
    expect(readFileSync(page, 'utf8')).toBe(before);
  });

  test('uses the last result of each run, and the worst of several runs', () => {
    recordResult(story, 'nftables', { result: 'fails' });
    recordResult(story, 'nftables', { result: 'passes' });
    main([page, results]);
    expect(readFileSync(page, 'utf8')).toContain('| IPv4, IPv6 | passes |');
    const other = path.join(directory, 'other.jsonl');
    writeFileSync(other, `${JSON.stringify(line('a', 'nftables', { result: 'fails' }))}\n`);
    main([page, other, results]);
    expect(readFileSync(page, 'utf8')).toContain('| IPv4, IPv6 | fails |');
  });

  test('requires a page and results', () => {
    expect(main([page])).toBe(2);
  });

  test('finds no results if no file is named', () => {
    writeFileSync(results, '');
    vi.stubEnv('FAIRLEAD_STORY_RESULTS', undefined);
    recordResult(story, 'nftables', { result: 'passes' });
    expect(readFileSync(results, 'utf8')).toBe('');
  });
});
