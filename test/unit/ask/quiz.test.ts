/** What `fairlead problems`, the first command at night, says of broken clusters, and of sound ones. */
import { expect, it } from 'vitest';
import type { ProblemList } from '../../../src/ask/problems.ts';
import type { Running } from '../agent/running.ts';
import { asked, type Said, said } from './asking.ts';
import { startedWith } from './broken-cluster-app.ts';
import type { BrokenCluster } from './broken-clusters.ts';
import { everyBrokenCluster } from './more-broken-clusters.ts';
import { healthy, situations } from './quiz.ts';

/** Calls `judge` with what `problems` says when all looks were made twice. */
async function judged<T>(
  cluster: BrokenCluster,
  judge: (problems: Said, app: Running) => T | Promise<T>,
): Promise<T> {
  const files = { ...cluster.host };
  const app = await startedWith({ ...cluster, host: files });
  try {
    await said(app, 'problems');
    await cluster.changes?.(app, files);
    await app.clock.pass(11_000);
    return await judge(await said(app, 'problems'), app);
  } finally {
    await app.stop();
  }
}

/**
 * 5: `problems` names the cause, and no other of the Service; 4: the command of the row names it;
 * 1: neither does. What to do follows from the sentence, or from the runbook's section of its
 * reason.
 */
function gradeOf(cluster: BrokenCluster): Promise<number> {
  return judged(cluster, async ({ stdout }, app) => {
    const { items }: ProblemList = (await asked(app, 'problems')).body;
    const ofWeb = items.find(({ name }) => name === 'web')?.problems ?? [];
    const reasons = new Set(ofWeb.map(({ reason }) => reason));
    const { ask, cause, from, reasons: expected = [], says, to } = cluster;
    if (says !== undefined) return stdout.includes(says) ? 5 : 1;
    if (reasons.size !== expected.length || !expected.every((one) => reasons.has(one))) return 1;
    if (expected.length > 0) return 5;
    const client = from === undefined ? [] : [`--from=${from}`];
    const [command = '', ...words] = ask ?? ['explain', to, ...client];
    const other = await said(app, command, ...words);
    return `${other.stdout}${other.stderr}`.includes(cause) ? 4 : 1;
  });
}

const grades = new Map<string, number>();
const broken = everyBrokenCluster.filter(({ name }) => name !== 'nothing is wrong');

it.each([...situations, ...broken])('what is wrong is named: $name', async (one) => {
  const grade = await gradeOf(one);
  grades.set(one.name, grade);
  expect(grade).toBeGreaterThanOrEqual(4);
});

it('problems names most of it', () => {
  const all = [...grades.values()];
  const named = all.filter((grade) => grade === 5);
  expect(all.length).toBeGreaterThanOrEqual(109);
  expect(named.length).toBeGreaterThanOrEqual(82);
  expect(all.reduce((sum, grade) => sum + grade) / all.length).toBeGreaterThanOrEqual(4.5);
});

it.each(healthy)('problems says nothing: $name', async (one) => {
  const { code, stdout } = await judged(one, (problems) => problems);
  expect([code, stdout]).toEqual([0, expect.not.stringMatching(/^Remark:/m)]);
});

it('situations without a problem are twenty at least', () => {
  expect(healthy.length).toBeGreaterThanOrEqual(20);
});
