/**
 * Runs the tests that reach mutants, in one Vitest that stays. A process is shared by many mutants:
 * each test is repeated with one after the other, the quickest tests first. A mutant that takes
 * effect when modules are loaded has a process of its own.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import type { ProvidedContext } from 'vitest';
import {
  BaseSequencer,
  createVitest,
  type TestModule,
  type TestSpecification,
  type Vitest,
} from 'vitest/node';
import { type Mutant, withMutants } from './mutants.ts';
import type { Result } from './trials.ts';

export const root = resolve(import.meta.dirname, '../..');

/** Tests that do not run the sources in their own process, or need more than that. */
export const notInProcess = [
  'test/**/*.{kernel,image,prometheus,upgrade,vm}.test.ts',
  'test/tidy.test.ts',
  'test/unit/{deploy,docs,release}/**',
  // They measure the heap, for seconds, and mutants are in it.
  'test/unit/**/{memory,record-bytes}.test.ts',
];
const steps = '.cost.test.ts';

/** How tests are run: files share modules. */
export const inProcess = {
  ...{
    config: false as const,
    root,
    watch: false,
    silent: true,
    pool: 'forks' as const,
    isolate: false,
  },
  ...{ testTimeout: 120_000, hookTimeout: 120_000 },
  env: { NODE_COMPILE_CACHE: join(root, 'build/compile-cache') },
};

/** Of a pattern of test files: those that count steps of V8, in which all else is slow. */
export function countsSteps(pattern: string): string {
  return pattern.replace('.test.ts', steps);
}

/** Tests that take about as long run together: those that are quicker have killed most by then. */
const bandsMs = [20, 200, 2000, Number.POSITIVE_INFINITY];
/** A test fails that takes this much longer with a mutant than without one, or that much work. */
const grace = { ms: 10_000, workMs: 2000, times: 10 };
/** A mutant that is reached more often than that is in an endless loop. */
const reachedMore = { times: 10, least: 1_000_000 };
/** More than a test has mutants: it ends when there are no more. */
const repeats = 1_000_000;

function sum(of: readonly number[]): number {
  return of.reduce((total, one) => total + one, 0);
}

interface Which {
  /** Patterns of test files. */
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** The longest that tests may take for one mutant. */
  readonly budgetMs: number;
}

interface Test {
  readonly file: string;
  readonly id: string;
  readonly tookMs: number;
  readonly reached: Readonly<Record<number, number>>;
}

interface Outcome {
  /** The test file that failed; undefined: none. */
  readonly killedBy: string | undefined;
  /** How many tests were made to reach it. */
  readonly triedBy: number;
}

class AsGiven extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files;
  }
}

export class Runner {
  readonly #vitest: Vitest;
  /** Files of the last run: Vitest returns the results of earlier ones, too. */
  readonly #ended: TestModule[];
  readonly #budgetMs: number;
  readonly #folder = mkdtempSync(join(tmpdir(), 'mutants-'));
  readonly #log = join(this.#folder, 'log');
  #tests: ReadonlyMap<string, Test> = new Map();
  /** Those that are reached when modules are loaded. */
  readonly #loading = new Set<number>();
  #runs = 0;

  private constructor(vitest: Vitest, ended: TestModule[], budgetMs: number) {
    this.#vitest = vitest;
    this.#ended = ended;
    this.#budgetMs = budgetMs;
  }

  /** Runs each test once, without a mutant. */
  static async start(
    mutants: readonly Mutant[],
    { budgetMs, exclude, include }: Which,
  ): Promise<Runner> {
    const isCount = include.every((pattern) => pattern.endsWith(steps));
    const inMemory = {
      name: 'mutants',
      enforce: 'pre' as const,
      transform(code: string, path: string): string | undefined {
        const here = mutants.filter(({ file }) => join(root, file) === path);
        return here.length === 0 ? undefined : withMutants(code, here);
      },
    };
    const ended: TestModule[] = [];
    const reporter = { onTestModuleEnd: (one: TestModule) => void ended.push(one) };
    const vitest = await createVitest(
      'test',
      {
        ...inProcess,
        ...{ reporters: [reporter], maxWorkers: 1, include: [...include] },
        exclude: [...notInProcess, ...exclude, ...(isCount ? [] : [`**/*${steps}`])],
        sequence: { sequencer: AsGiven },
        setupFiles: ['test/mutation/setup.ts'],
        // Its keys do not know of the mutants.
        fsModuleCache: false,
      },
      { plugins: [inMemory] },
    );
    const runner = new Runner(vitest, ended, budgetMs);
    await runner.#runAll();
    return runner;
  }

  async close(): Promise<void> {
    rmSync(this.#folder, { recursive: true });
    await this.#vitest.close();
  }

  async #runAll(): Promise<void> {
    const all = await this.#vitest.globTestSpecifications();
    const unlimited = { reachedMax: Number.POSITIVE_INFINITY, longestMs: {} };
    this.#provide({ loaded: 0, queues: undefined, ...unlimited });
    const { testModules, unhandledErrors } = await this.#vitest.runTestSpecifications(all);
    const failed = testModules.filter((one) => !one.ok());
    if (failed.length > 0 || unhandledErrors.length > 0) {
      const names = failed.map((one) => relative(root, one.moduleId)).join(', ');
      const causes = [...unhandledErrors, ...failed.flatMap((one) => one.errors())];
      throw new AggregateError(causes, `tests fail without a mutant: ${names}`);
    }
    const tests = testModules.flatMap((module) =>
      [...module.children.allTests()].map((test) => {
        const { loading = [], reached = {} } = test.meta();
        for (const id of loading) this.#loading.add(id);
        const tookMs = test.diagnostic()?.duration ?? 0;
        return { file: module.moduleId, id: test.id, tookMs, reached };
      }),
    );
    this.#tests = new Map(tests.map((test) => [test.id, test]));
  }

  /** Calls `done` once for each mutant. */
  async run(
    mutants: readonly Mutant[],
    done: (mutant: Mutant, outcome: Outcome) => void,
  ): Promise<void> {
    const [late, atLoad] = [[], []] as Mutant[][];
    for (const one of mutants) (this.#isOfLoad(one) ? atLoad : late)!.push(one);
    const trials = late!.map((mutant) => new MutantTrials(mutant, this.#testsOf(mutant)));
    const isOpen = ({ outcome }: MutantTrials): boolean => outcome.killedBy === undefined;
    let open: readonly MutantTrials[] = trials;
    for (const longestMs of bandsMs) {
      await this.#runBand(open, longestMs);
      for (const one of open) if (!isOpen(one)) done(one.mutant, one.outcome);
      open = open.filter(isOpen);
    }
    const alone = open.filter((one) => one.isUnclear).map(({ mutant }) => mutant);
    for (const one of open) if (!one.isUnclear) done(one.mutant, one.outcome);
    for (const mutant of [...alone, ...atLoad!]) done(mutant, await this.#runAlone(mutant));
  }

  /** The tests of these mutants that take no longer, in as few processes as there are crashes. */
  async #runBand(trials: readonly MutantTrials[], longestMs: number): Promise<void> {
    for (;;) {
      const pairs = trials.flatMap(({ mutant, waiting }) => {
        const quick = [...waiting].filter((test) => test.tookMs <= longestMs);
        return quick.map((test) => ({ test: test.id, mutant: mutant.id }));
      });
      const byTest = Object.entries(Object.groupBy(pairs, (pair) => pair.test));
      const queues = Object.fromEntries(
        byTest.map(([id, those]) => [id, those!.map((pair) => pair.mutant)]),
      );
      const tests = Object.keys(queues).map((id) => this.#tests.get(id)!);
      if (tests.length === 0) return;
      writeFileSync(this.#log, '');
      await this.#runTests(tests, { loaded: 0, queues });
      const lines = readFileSync(this.#log, 'utf8').trim().split('\n');
      const byId = new Map(trials.map((one) => [one.mutant.id, one]));
      for (const line of lines) {
        const [test = '', id, result] = line.split(' ');
        byId.get(Number(id))?.take(this.#tests.get(test)!, result as Result);
      }
      const [, last, result] = lines.at(-1)!.split(' ');
      if (result === 'begun') byId.get(Number(last))!.crashed();
      if (result !== undefined) continue;
      // No test has a result: each mutant gets a process.
      for (const one of trials) for (const test of tests) one.take(test, 'unclear');
    }
  }

  async #runAlone(mutant: Mutant): Promise<Outcome> {
    const tests = this.#testsOf(mutant);
    const triedBy = tests.length;
    if (triedBy === 0) return { killedBy: undefined, triedBy };
    const other = await this.#runTests(tests, { loaded: mutant.id });
    const failed = this.#ended.find((one) => one.state() === 'failed');
    const killedBy = failed === undefined ? other : relative(root, failed.moduleId);
    return { killedBy, triedBy };
  }

  /** What failed outside of tests. */
  async #runTests(
    tests: readonly Test[],
    work: Pick<ProvidedContext['work'], 'loaded'> & Partial<ProvidedContext['work']>,
  ): Promise<string | undefined> {
    const fewMs = grace.times * Math.max(...tests.map((one) => one.tookMs));
    const longestMs = Object.fromEntries(
      tests.map(({ id, tookMs }) => [id, grace.workMs + grace.times * tookMs]),
    );
    const times = tests.flatMap(({ reached }) => Object.values(reached));
    const most = times.reduce((one, other) => Math.max(one, other), 0);
    const reachedMax = reachedMore.times * most + reachedMore.least;
    this.#provide({ queues: undefined, reachedMax, longestMs, ...work });
    const isAlone = work.queues === undefined;
    for (const { config } of [this.#vitest, ...this.#vitest.projects]) {
      config.bail = isAlone ? 1 : 0;
      config.repeats = isAlone ? 0 : repeats;
      config.testTimeout = config.hookTimeout = grace.ms + fewMs;
    }
    this.#ended.length = 0;
    try {
      const run = await this.#vitest.runTestSpecifications(this.#specifications(tests));
      return run.unhandledErrors.length > 0 ? 'an error outside of tests' : undefined;
    } catch {
      return 'the limit of time';
    }
  }

  /** The quickest files first. */
  #specifications(tests: readonly Test[]): TestSpecification[] {
    const project = this.#vitest.projects[0]!;
    const files = [...Map.groupBy(tests, ({ file }) => file)].map(([file, those]) => ({
      specification: project.createSpecification(file, { testIds: those.map(({ id }) => id) }),
      tookMs: sum(those.map((one) => one.tookMs)) / those.length,
    }));
    return files.sort((a, b) => a.tookMs - b.tookMs).map(({ specification }) => specification);
  }

  #provide(work: Omit<ProvidedContext['work'], 'log' | 'run'>): void {
    this.#runs += 1;
    const all = { ...work, log: this.#log, run: this.#runs };
    for (const project of this.#vitest.projects) project.provide('work', all);
  }

  /**
   * Those that reach it, the quickest first, as many as the budget is for. What takes effect when a
   * module is loaded reaches all that import it.
   */
  #testsOf(mutant: Mutant): readonly Test[] {
    const importers = this.#isOfLoad(mutant)
      ? this.#testsThatImport(join(root, mutant.file))
      : undefined;
    const tests = [...this.#tests.values()]
      .filter(({ file, reached }) => importers?.has(file) ?? reached[mutant.id])
      .sort((a, b) => a.tookMs - b.tookMs);
    let tookMs = 0;
    return tests.filter((test, i) => {
      tookMs += test.tookMs;
      return i === 0 || tookMs <= this.#budgetMs;
    });
  }

  /** Whether it takes effect when modules are loaded: in functions that nothing else calls, too. */
  #isOfLoad({ atLoad, constant, id }: Mutant): boolean {
    if (atLoad) return constant === undefined;
    return this.#loading.has(id) && ![...this.#tests.values()].some(({ reached }) => reached[id]);
  }

  #testsThatImport(path: string): ReadonlySet<string> {
    const found = new Set<string>();
    const graph = this.#vitest.projects[0]!.vite.environments.ssr!.moduleGraph;
    const waiting = [...(graph.getModulesByFile(path) ?? [])];
    for (const module of waiting) {
      if (module.file === null || found.has(module.file)) continue;
      found.add(module.file);
      waiting.push(...module.importers);
    }
    return found;
  }
}

/** What tests have shown about a mutant. */
class MutantTrials {
  readonly mutant: Mutant;
  readonly #triedBy: number;
  #killedBy: string | undefined;
  isUnclear = false;
  /** Tests that it has still to pass. */
  readonly waiting: Set<Test>;

  constructor(mutant: Mutant, tests: readonly Test[]) {
    this.mutant = mutant;
    this.waiting = new Set(tests);
    this.#triedBy = tests.length;
  }

  get outcome(): Outcome {
    return { killedBy: this.#killedBy, triedBy: this.#triedBy };
  }

  take(test: Test, result: Result): void {
    if (result === 'killed') this.#kill(relative(root, test.file));
    else if (result !== 'begun') this.#passed(test, result);
  }

  #passed(test: Test, result: Result): void {
    const wasWaiting = this.waiting.delete(test);
    this.isUnclear ||= wasWaiting && result === 'unclear';
  }

  crashed(): void {
    this.#kill('the limit of time');
  }

  #kill(by: string): void {
    this.#killedBy = by;
    this.isUnclear = false;
    this.waiting.clear();
  }
}
