/** Runs the tests that reach a mutant, in one Vitest that stays. */
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

const root = resolve(import.meta.dirname, '../..');

/** Tests that do not run the sources in their own process, or need more than that. */
const notInProcess = [
  'test/**/*.{cost,kernel,image,prometheus,upgrade,vm}.test.ts',
  'test/tidy.test.ts',
  'test/unit/{deploy,docs,release}/**',
];

/** A test fails that takes this much longer with a mutant than without one. */
const grace = { ms: 20_000, times: 10 };
const limitMs = (tookMs: number): number => grace.ms + grace.times * tookMs;
const reachedMoreTimes = 1000;

function sum(of: readonly number[]): number {
  return of.reduce((total, one) => total + one, 0);
}

interface Test {
  readonly file: string;
  readonly id: string;
  readonly tookMs: number;
  readonly reached: Readonly<Record<number, number>>;
}

export interface Outcome {
  readonly mutant: Mutant;
  /** The test file that failed; undefined: none. */
  readonly killedBy: string | undefined;
  /** How many tests reach it. */
  readonly reachedBy: number;
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
  #tests: readonly Test[] = [];

  private constructor(vitest: Vitest, ended: TestModule[]) {
    this.#vitest = vitest;
    this.#ended = ended;
  }

  /** `include`, `exclude`: patterns of test files. Runs each once, without a mutant. */
  static async start(
    mutants: readonly Mutant[],
    include: readonly string[],
    exclude: readonly string[] = [],
  ): Promise<Runner> {
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
        ...{ config: false, root, watch: false, reporters: [reporter], silent: true },
        ...{ pool: 'forks', isolate: false, maxWorkers: 1, include: [...include] },
        exclude: [...notInProcess, ...exclude],
        sequence: { sequencer: AsGiven },
        setupFiles: ['test/mutation/setup.ts'],
        // Its keys do not know of the mutants.
        fsModuleCache: false,
        ...{ testTimeout: 120_000, hookTimeout: 120_000 },
        env: { NODE_COMPILE_CACHE: join(root, 'build/compile-cache') },
      },
      { plugins: [inMemory] },
    );
    const runner = new Runner(vitest, ended);
    await runner.#runAll();
    return runner;
  }

  async close(): Promise<void> {
    await this.#vitest.close();
  }

  async #runAll(): Promise<void> {
    const all = await this.#vitest.globTestSpecifications();
    this.#provide({ id: 0, reachedMax: 0, longestMs: 0 });
    const { testModules, unhandledErrors } = await this.#vitest.runTestSpecifications(all);
    const failed = testModules.filter((one) => !one.ok());
    if (failed.length > 0 || unhandledErrors.length > 0) {
      const names = failed.map((one) => relative(root, one.moduleId)).join(', ');
      const causes = [...unhandledErrors, ...failed.flatMap((one) => one.errors())];
      throw new AggregateError(causes, `tests fail without a mutant: ${names}`);
    }
    this.#tests = testModules.flatMap((module) =>
      [...module.children.allTests()].map((test) => ({
        file: module.moduleId,
        id: test.id,
        tookMs: test.diagnostic()?.duration ?? 0,
        reached: test.meta().reached ?? {},
      })),
    );
  }

  async run(mutant: Mutant): Promise<Outcome> {
    const tests = this.#testsOf(mutant);
    const reachedBy = tests.length;
    if (reachedBy === 0) return { mutant, killedBy: undefined, reachedBy };
    const tookMs = tests.map((one) => one.tookMs);
    const times = tests.map(({ reached }) => reached[mutant.id] ?? 0);
    this.#provide({
      id: mutant.id,
      reachedMax: reachedMoreTimes * (1000 + Math.max(...times)),
      longestMs: 2 * limitMs(sum(tookMs)),
    });
    for (const { config } of [this.#vitest, ...this.#vitest.projects]) {
      config.bail = 1;
      config.testTimeout = config.hookTimeout = limitMs(Math.max(...tookMs));
    }
    try {
      const specifications = this.#specifications(tests);
      this.#ended.length = 0;
      const { unhandledErrors } = await this.#vitest.runTestSpecifications(specifications);
      const failed = this.#ended.find((one) => one.state() === 'failed');
      const other = unhandledErrors.length > 0 ? 'an error outside of tests' : undefined;
      const killedBy = failed === undefined ? other : relative(root, failed.moduleId);
      return { mutant, killedBy, reachedBy };
    } catch {
      return { mutant, killedBy: 'the limit of time', reachedBy };
    }
  }

  /** The quickest files first. */
  #specifications(tests: readonly Test[]): TestSpecification[] {
    const project = this.#vitest.projects[0]!;
    const files = [...Map.groupBy(tests, ({ file }) => file)].map(([file, those]) => ({
      specification: project.createSpecification(file, { testIds: those.map(({ id }) => id) }),
      tookMs: sum(those.map((one) => one.tookMs)),
    }));
    return files.sort((a, b) => a.tookMs - b.tookMs).map(({ specification }) => specification);
  }

  #provide(chosen: ProvidedContext['chosen']): void {
    for (const project of this.#vitest.projects) project.provide('chosen', chosen);
  }

  /** Those that reach it. What takes effect when a module is loaded reaches all that import it. */
  #testsOf(mutant: Mutant): readonly Test[] {
    const isEverywhere = mutant.atLoad && mutant.users === undefined;
    const importers = isEverywhere ? this.#testsThatImport(join(root, mutant.file)) : undefined;
    return this.#tests.filter(({ file, reached }) =>
      importers === undefined ? reached[mutant.id] : importers.has(file),
    );
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
