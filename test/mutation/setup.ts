/** Runs before each test file: chooses the mutants, and counts which of them each test reaches. */
import { appendFileSync } from 'node:fs';
import { afterEach, beforeEach, inject } from 'vitest';
import { chosen } from './chosen.ts';
import { Trials } from './trials.ts';

/** What a run of tests is for. */
interface Work {
  /** Unlike that of the run before. */
  readonly run: number;
  /** A mutant that is in force when modules are loaded; 0: none is. */
  readonly loaded: number;
  /** Mutants that the test of an id is repeated with; undefined: tests run once. */
  readonly queues: Readonly<Record<string, readonly number[]>> | undefined;
  /** Results of repetitions are appended, a line each: run, test, mutant, result. */
  readonly log: string;
  /** See `Chosen.choose`; the time by test. */
  readonly reachedMax: number;
  readonly longestMs: Readonly<Record<string, number>>;
}

declare module 'vitest' {
  interface ProvidedContext {
    readonly work: Work;
  }
  interface TaskMeta {
    /** How often the test reached each mutant. */
    reached?: Record<number, number>;
    /** Those reached since the test before it: when modules were loaded. */
    loading?: readonly number[];
  }
}

const { loaded, log, longestMs, queues, reachedMax, run } = inject('work');
const shared = globalThis as { killed?: { readonly run: number; readonly ids: Set<number> } };
if (shared.killed?.run !== run) shared.killed = { run, ids: new Set() };
const { ids: killed } = shared.killed;
let trials: Trials | undefined;

chosen.choose(loaded, reachedMax, 0);
beforeEach(({ skip, task }) => {
  if (queues === undefined) task.meta.loading = Object.keys(chosen.reached).map(Number);
  const { attempts = [], repeatCount = 0 } = task.result ?? {};
  const longest = longestMs[task.id] ?? 0;
  if (queues !== undefined) {
    if (repeatCount === 0) trials = trialsOf(task.id, queues[task.id] ?? []);
    const hasFailed = attempts.at(-1)?.state === 'fail';
    // What has failed is known: it would be sent with each further result.
    attempts.length = 0;
    delete task.result?.errors;
    const next = trials?.next(hasFailed);
    chosen.choose(next ?? 0, reachedMax, next === undefined ? 0 : longest);
    skip(next === undefined);
  } else chosen.choose(loaded, reachedMax, longest);
});
afterEach(({ task }) => {
  if (queues === undefined) task.meta.reached = chosen.reached;
});

function trialsOf(test: string, ids: readonly number[]): Trials {
  const isKilled = (id: number): boolean => killed.has(id);
  return new Trials(ids, isKilled, (id, result) => {
    if (result === 'killed') killed.add(id);
    appendFileSync(log, `${test} ${id} ${result}\n`);
  });
}
