/** Documents have budgets of words, so that people can read them. Budgets only go down. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');

/** Of a document that has no budget of its own. */
const usual = 1700;
/** Of all documents together. */
const total = 86_230;
const budgets: Readonly<Record<string, number>> = {
  'README.md': 1450,
  'bench/README.md': 2809,
  'docs/api.md': 3190,
  'docs/balancing.md': 1825,
  'docs/configuration.md': 3020,
  'docs/connect-time.md': 1450,
  'docs/differences.md': 2863,
  'docs/internals/kube-proxy-behaviour.md': 2837,
  'docs/kubectl-plugin.md': 1247,
  'docs/limits.md': 2874,
  'docs/logs.md': 3601,
  'docs/metrics.md': 2174,
  'docs/migrating.md': 1862,
  'docs/operating.md': 2213,
  'docs/runbook.md': 5292,
  'docs/scale.md': 1246,
  'docs/semantics.md': 3870,
};

const paths = execFileSync('git', ['ls-files', '*.md'], { cwd: root })
  .toString()
  .trim()
  .split('\n');
const texts = new Map(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')]));

function countWords(text: string): number {
  return text.trim().split(/\s+/).length;
}

it('each document has no more words than its budget, and all together have no more than theirs', () => {
  const words = new Map([...texts].map(([path, text]) => [path, countWords(text)]));
  const long = [...words].filter(([path, count]) => count > (budgets[path] ?? usual));
  expect(long).toEqual([]);
  expect([...words.values()].reduce((sum, count) => sum + count)).toBeLessThanOrEqual(total);
  expect(Object.keys(budgets).filter((path) => !words.has(path))).toEqual([]);
});

/** Written for authors: operators need not read it. */
const forAuthors = /^(src|test)\/|^docs\/(decisions|internals)\/|^(ARCHITECTURE|CONTRIBUTING)\.md$/;
const sentenceMax = 30;
const cellMax = 25;

/** Of paragraphs and lists, without code, links, headings and tables. A colon ends one. */
function sentencesOf(text: string): string[] {
  return text
    .replace(/^```[\s\S]*?^```|<!--[\s\S]*?-->/gm, '')
    .replace(/`[^`]*`/g, 'CODE')
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .split(/\n(?=\s*\n|\s*(?:[-*]|\d+\.) |[#|<])/)
    .filter((block) => !/^\s*[#|<]/.test(block))
    .flatMap((block) => block.replace(/^\s*(?:[-*]|\d+\.) /, '').split(/(?<=[.!?:][)”"*]*)\s/))
    .map((sentence) => sentence.trim());
}

it('sentences for operators have no more than thirty words', () => {
  const sentences = [...texts]
    .filter(([path]) => !forAuthors.test(path))
    .flatMap(([path, text]) => sentencesOf(text).map((sentence) => `${path}: ${sentence}`));
  expect(sentences.filter((sentence) => countWords(sentence) - 1 > sentenceMax)).toEqual([]);
  expect(sentences.length).toBeGreaterThan(2000);
  const odd = '- A `a b` [c d](e f). Kops\n  is (a) "tool."\n- B\n\n| d |\n\n```\ne f\n```\nG';
  expect(sentencesOf(odd).filter((one) => one !== '')).toEqual([
    'A CODE c d.',
    'Kops\n  is (a) "tool."',
    'B',
    'G',
  ]);
});

it('cells of generated tables have no more than 25 words', () => {
  const cells = [...texts]
    .filter(([, text]) => /^<!-- Written by scripts/m.test(text))
    .flatMap(([, text]) => text.match(/^\|.*\|$/gm) ?? [])
    .flatMap((row) => row.split(/(?<!\\)\|/));
  expect(cells.filter((cell) => countWords(cell) > cellMax)).toEqual([]);
  expect(cells.length).toBeGreaterThan(1000);
});
