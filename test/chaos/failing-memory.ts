/**
 * Allocations of the kernel that fail at random, for chosen threads of one process: the fault
 * injection of Linux (Documentation/fault-injection in its sources).
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const debugfs = '/sys/kernel/debug';
/** Small allocations, and pages. */
const injectors = ['failslab', 'fail_page_alloc'].map((name) => join(debugfs, name));

/** Whether the kernel has fault injection, and debugfs is mounted. */
export const canFailMemory = injectors.every((path) => existsSync(path));

/** The threads of the program that talk to the kernel by netlink: see native/binding. */
const netlinkThreads: readonly string[] = ['fairlead-socket', 'fairlead-watch'];

/** The kernel counts down from here. */
const failuresMax = 1_000_000_000;

export class FailingMemory {
  readonly #marked = new Set<string>();

  constructor() {
    for (const path of injectors) {
      set(path, 'task-filter', 'Y');
      // Allocations that may wait fail, too: nearly all of netlink's do.
      set(path, 'ignore-gfp-wait', 'N');
      set(path, 'verbose', '0');
      set(path, 'times', String(failuresMax));
    }
    set(join(debugfs, 'fail_page_alloc'), 'min-order', '0');
    this.stop();
  }

  /** From now on, about one in this number of allocations fails. */
  failOneOf(allocations: number): void {
    for (const path of injectors) {
      // The interval alone would always meet the same allocations of a batch.
      set(path, 'interval', String(Math.max(1, Math.round(allocations / 2))));
      set(path, 'probability', '50');
    }
  }

  stop(): void {
    for (const path of injectors) set(path, 'probability', '0');
  }

  /** Allocations that have failed so far. */
  get failures(): number {
    const left = injectors.map((path) => Number(readFileSync(join(path, 'times'), 'utf8')));
    return left.reduce((sum, times) => sum + failuresMax - times, 0);
  }

  /** Marks the netlink threads that the process has by now, and those that it starts later. */
  async follow(pid: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#mark(pid);
      await sleep(5);
    }
  }

  #mark(pid: number): void {
    const tasks = `/proc/${pid}/task`;
    for (const task of existsSync(tasks) ? readdirSync(tasks) : []) {
      const path = join(tasks, task);
      if (this.#marked.has(path)) continue;
      try {
        const name = readFileSync(join(path, 'comm'), 'utf8').trim();
        if (!netlinkThreads.includes(name)) continue;
        writeFileSync(join(path, 'make-it-fail'), '1');
        this.#marked.add(path);
      } catch (error) {
        // The thread has ended in the meantime.
        const { code = '' } = error as NodeJS.ErrnoException;
        if (!['ENOENT', 'ESRCH'].includes(code)) throw error;
      }
    }
  }
}

function set(injector: string, name: string, value: string): void {
  writeFileSync(join(injector, name), value);
}
