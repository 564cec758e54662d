/** Lives in which frontends change their owners, on a real kernel. */
import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import type {
  ApplyResult,
  DumpResult,
  Kernel,
  TableName,
  TableWatcher,
} from '../../src/kernel/kernel.ts';
import { kernelOps } from '../../src/kernel/ops.ts';
import { readRecords } from '../../src/kernel/records.ts';
import type { Fault } from '../fake/kernel.ts';
import { quiet } from '../unit/sync/double.ts';
import {
  anyStep,
  expectSettled,
  Life,
  ruleSubjects,
  type TroubledKernel,
} from '../unit/sync/handover-life.ts';
import { createKernel } from './namespace.ts';

/** A real kernel that refuses batches on request, and reports when it is idle. */
class GuardedKernel implements TroubledKernel {
  readonly #kernel: Kernel;
  readonly #faults: Fault[] = [];
  readonly #pending = new Set<Promise<unknown>>();
  writes = 0;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  failNext(fault: Fault): void {
    this.#faults.push(fault);
  }

  heal(): void {
    this.#faults.length = 0;
  }

  async apply(ops: Uint8Array): Promise<ApplyResult> {
    const kinds = [...readRecords(kernelOps, ops)].map(({ kind }) => kind);
    const fault = this.#faults[0];
    const at = fault === undefined ? -1 : kinds.indexOf(fault.forKind ?? kinds.at(-1)!);
    if (fault !== undefined && at >= 0) {
      this.#faults.shift();
      const failure = { op: at, entry: undefined, code: fault.code, message: 'by the test' };
      return { kind: 'failed', failures: [failure], partly: false };
    }
    const result = await this.#track(this.#kernel.apply(ops));
    if (result.kind === 'applied') this.writes += kinds.length;
    return result;
  }

  dump(...args: Parameters<Kernel['dump']>): Promise<DumpResult> {
    return this.#track(this.#kernel.dump(...args));
  }

  get commits(): number {
    return this.#kernel.commits;
  }

  generation(): Promise<number> {
    return this.#track(this.#kernel.generation());
  }

  isOwn(port: number): boolean {
    return this.#kernel.isOwn(port);
  }

  watch(tables: readonly TableName[], watcher: TableWatcher): () => void {
    return this.#kernel.watch(tables, watcher);
  }

  close(): void {
    this.#kernel.close();
  }

  /** Resolves when no call of the kernel is under way or about to start. */
  readonly quiet = async (): Promise<void> => {
    do {
      await Promise.allSettled(this.#pending);
      await quiet();
    } while (this.#pending.size > 0);
  };

  #track<T>(promise: Promise<T>): Promise<T> {
    this.#pending.add(promise);
    const done = (): void => void this.#pending.delete(promise);
    promise.then(done, done);
    return promise;
  }
}

/** The steps of all lives. `FAIRLEAD_HANDOVER_STEPS` makes the search longer. */
const stepsInAll = Number(process.env.FAIRLEAD_HANDOVER_STEPS ?? 200);
const stepsInLife = 50;

/** Runs lives one after the other in a namespace. Each adopts what the one before has left. */
export function tellHandovers(...modes: readonly string[]): void {
  vi.setConfig({ testTimeout: 7_200_000 });
  const subjects = ruleSubjects.filter(({ name }) => modes.includes(name));
  it.each(subjects)('$name: frontends end with whom they are to be', async (subject) => {
    const { kernel: real } = await createKernel();
    const kernel = new GuardedKernel(real);
    let steps = 0;
    const life = fc.array(anyStep, { minLength: stepsInLife, maxLength: stepsInLife });
    const property = fc.asyncProperty(life, async (its) => {
      const life = new Life(subject, kernel, kernel.quiet);
      await life.world.clock.pass(0);
      for (const step of its) await life.take(step);
      await expectSettled(life);
      await life.world.stop();
      steps += its.length;
    });
    await fc.assert(property, { numRuns: Math.ceil(stepsInAll / stepsInLife) });
    expect(steps).toBeGreaterThanOrEqual(stepsInAll);
    console.log(`${subject.name}: ${steps} steps, ${kernel.commits} commits`);
  });
}
