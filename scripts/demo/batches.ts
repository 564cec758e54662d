/** Reads the agent's log: that it is ready, and batches that the kernel accepted. */
import type { ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';

export interface BatchSize {
  /** Commands of netlink: objects and elements that are added or deleted. */
  readonly writes: number;
  readonly bytes: number;
}

const wordsMax = 20;

export class Batches {
  /** Resolves when the agent has programmed the Service. */
  readonly ready: Promise<void>;
  readonly #words: string[] = [];
  #resolve: ((size: BatchSize) => void) | undefined;

  constructor(agent: ChildProcess) {
    this.ready = new Promise((resolve, reject) => {
      createInterface({ input: agent.stderr! }).on('line', (line) => {
        this.#read(line);
        if (line.includes('"msg":"Ready"')) resolve();
      });
      agent.once('exit', () => reject(new Error(`the agent ended: ${this.#words.join(' ')}`)));
    });
  }

  /** The batch of the next change. */
  next(): Promise<BatchSize> {
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  #read(line: string): void {
    this.#words.push(line);
    if (this.#words.length > wordsMax) this.#words.shift();
    const isBatch = line.includes('"purpose":"changes"') && line.includes('"sinceChangeMs":');
    if (isBatch) this.#resolve?.(JSON.parse(line) as BatchSize);
  }
}
