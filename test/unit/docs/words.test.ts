/** Documents have budgets of words, so that people can read them. Budgets only go down. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');

/** Of a document that has no budget of its own. */
const usual = 1700;
/** Of all documents together. The goal is 80,000. */
const total = 107_500;
const budgets: Readonly<Record<string, number>> = Object.fromEntries(
  `README 1700, SECURITY 2400, bench/README 3100, docs/api 3100, docs/balancing 2300,
  docs/configuration 4600, docs/connect-time 2000, docs/differences 3200, docs/flags 2500,
  docs/internals/kube-proxy-behaviour 3900, docs/internals/reliability 2400,
  docs/kubectl-plugin 1800, docs/limits 3500, docs/logs 3400, docs/metrics 2800,
  docs/migrating 3100, docs/operating 2500, docs/releases 2300, docs/runbook 6510,
  docs/scale 2000, docs/semantics 6400, src/modes/nftables/README 2100`
    .split(',')
    .map((entry) => entry.trim().split(' '))
    .map(([name, words]) => [`${name}.md`, Number(words)]),
);

it('each document has no more words than its budget, and all together have no more than theirs', () => {
  const paths = execFileSync('git', ['ls-files', '*.md'], { cwd: root }).toString().trim();
  const words = new Map(
    paths
      .split('\n')
      .map((path) => [path, readFileSync(join(root, path), 'utf8').split(/\s+/).length - 1]),
  );
  const long = [...words].filter(([path, count]) => count > (budgets[path] ?? usual));
  expect(long).toEqual([]);
  expect([...words.values()].reduce((sum, count) => sum + count)).toBeLessThanOrEqual(total);
  expect(Object.keys(budgets).filter((path) => !words.has(path))).toEqual([]);
});
