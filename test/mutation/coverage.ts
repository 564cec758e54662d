/**
 * Which test files run which files of src: V8 counts calls of functions in one run of the unit
 * tests. The result is kept for the tree of src.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, matchesGlob } from 'node:path';
import { createVitest } from 'vitest/node';
import { inProcess, notInProcess, root } from './run.ts';

const exclude = [...notInProcess, 'test/**/*.cost.test.ts', 'test/real-time/**'];

/** Test files; those that are new since the run count as running everything. */
export async function testsThatRun(sources: ReadonlySet<string>): Promise<readonly string[]> {
  const tree = execFileSync('git', ['rev-parse', 'HEAD:src']).toString().trim();
  const path = join(root, 'build/coverage', tree);
  if (!existsSync(path)) await record(path);
  const known = new Set<string>();
  const found = new Set<string>();
  for (const line of readFileSync(path, 'utf8').split('\n')) {
    const [test = '', source = ''] = line.split(' ');
    known.add(test);
    if (sources.has(source)) found.add(test);
  }
  const all = execFileSync('git', ['ls-files', 'test/**/*.test.ts']).toString().trim().split('\n');
  const isOther = (test: string): boolean => exclude.some((glob) => matchesGlob(test, glob));
  return all.filter((test) => found.has(test) || !(known.has(test) || isOther(test)));
}

async function record(path: string): Promise<void> {
  console.log('coverage of the unit tests, once for this tree of src');
  const part = `${path}.part`;
  mkdirSync(dirname(path), { recursive: true });
  rmSync(part, { force: true });
  const vitest = await createVitest('test', {
    ...inProcess,
    ...{ reporters: [], maxWorkers: 2, include: ['test/**/*.test.ts'] },
    exclude: [...exclude],
    setupFiles: ['test/mutation/coverage-setup.ts'],
    env: { ...inProcess.env, FAIRLEAD_COVERAGE: part },
  });
  await vitest.runTestSpecifications(await vitest.globTestSpecifications());
  await vitest.close();
  renameSync(part, path);
}
