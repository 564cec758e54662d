/** Reads the agent's log about batches that the kernel accepted. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface BatchTimes {
  /**
   * The time from the agent's notice of the change to the kernel's acknowledgement of the batch.
   */
  readonly sinceChangeMs: number;
  /** The part of it that the kernel took. */
  readonly applyMs: number;
}

const wordsMax = 20;

export class Batches {
  readonly #words: string[] = [];
  #resolve: ((times: BatchTimes) => void) | undefined;

  constructor(agent: ChildProcess) {
    createInterface({ input: agent.stderr! }).on('line', (line) => this.#read(line));
  }

  /** The last lines of the log. */
  get lastWords(): string {
    return this.#words.join(' ');
  }

  /** The batch of the next change. */
  next(): Promise<BatchTimes> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  #read(line: string): void {
    this.#words.push(line);
    if (this.#words.length > wordsMax) this.#words.shift();
    const isBatch = line.includes('"purpose":"changes"') && line.includes('"sinceChangeMs":');
    if (isBatch) this.#resolve?.(JSON.parse(line) as BatchTimes);
  }
}
