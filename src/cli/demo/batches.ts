/** What the agent's log says of the batches that the kernel took. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface BatchTimes {
  /** From the change, once the agent knew of it, until the kernel had acknowledged the batch. */
  readonly sinceChangeMs: number;
  /** Of that, the kernel's part. */
  readonly applyMs: number;
}

const wordsMax = 20;

export class Batches {
  readonly #words: string[] = [];
  #told: ((times: BatchTimes) => void) | undefined;

  constructor(agent: ChildProcess) {
    createInterface({ input: agent.stderr! }).on('line', (line) => this.#read(line));
  }

  /** The last that the agent said. */
  get lastWords(): string {
    return this.#words.join(' ');
  }

  /** The batch of the next change. */
  next(): Promise<BatchTimes> {
    return new Promise((resolve) => {
      this.#told = resolve;
    });
  }

  #read(line: string): void {
    this.#words.push(line);
    if (this.#words.length > wordsMax) this.#words.shift();
    const isBatch = line.includes('"purpose":"changes"') && line.includes('"sinceChangeMs":');
    if (isBatch) this.#told?.(JSON.parse(line) as BatchTimes);
  }
}
