import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

/**
 * Appends what failed to the file that `FAIRLEAD_FAILED_TESTS` names, a line each, so that a run of
 * several suites can say it once more at its end.
 */
export class FailedTests implements Reporter {
  readonly #path = process.env.FAIRLEAD_FAILED_TESTS;

  onTestRunEnd(
    modules: readonly TestModule[],
    errors: Parameters<NonNullable<Reporter['onTestRunEnd']>>[1],
  ): void {
    const lines = [...modules.flatMap(failuresOf), ...errors.map(({ message }) => first(message))];
    if (this.#path === undefined || lines.length === 0) return;
    appendFileSync(this.#path, `${lines.join('\n')}\n`);
  }
}

function failuresOf(module: TestModule): string[] {
  const file = `${module.project.name} ${relative('.', module.moduleId)}`;
  const lines = module.errors().map(({ message }) => `${file}: ${first(message)}`);
  for (const suite of module.children.allSuites()) {
    for (const { message } of suite.errors()) {
      lines.push(`${file} > ${suite.fullName}: ${first(message)}`);
    }
  }
  for (const test of module.children.allTests('failed')) {
    const [error] = test.result().errors ?? [];
    lines.push(`${file} > ${test.fullName}: ${first(error?.message ?? '')}`);
  }
  return lines;
}

function first(message: string): string {
  return message.split('\n', 1)[0]!.slice(0, 200);
}
