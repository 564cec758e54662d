/** Documents have budgets of words, so that people can read them. Budgets only go down. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, it } from 'vitest';

const root = resolve(import.meta.dirname, '../../..');

/** Of a document that has no budget of its own. */
const usual = 1700;
/** Of all documents together. The goal is 80,000. */
const total = 83_300;
const budgets: Readonly<Record<string, number>> = {
  'README.md': 1450,
  'bench/README.md': 2700,
  'docs/api.md': 3100,
  'docs/balancing.md': 1650,
  'docs/configuration.md': 3000,
  'docs/connect-time.md': 1450,
  'docs/differences.md': 2850,
  'docs/internals/kube-proxy-behaviour.md': 2970,
  'docs/kubectl-plugin.md': 1100,
  'docs/limits.md': 2900,
  'docs/logs.md': 3400,
  'docs/metrics.md': 2200,
  'docs/migrating.md': 2300,
  'docs/operating.md': 1950,
  'docs/runbook.md': 4900,
  'docs/scale.md': 1350,
  'docs/semantics.md': 3850,
};

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
