/** Sends questions to the product continuously, from a separate process (`asker-main.ts`). */
import { join } from 'node:path';
import { AskedProcess } from '../../test/lab/asked-process.ts';
import type { Namespace } from './namespace.ts';

const main = join(import.meta.dirname, 'asker-main.ts');

export interface Asking {
  /** They take turns. A path is of the metrics server, a URL of any. */
  readonly paths: readonly string[];
  readonly count: number;
  readonly perSecond: number;
}

export interface Answers {
  readonly tookMs: readonly number[];
  /** Of the last answer. */
  readonly bytes: number;
}

/** It stays for all questions: the start of a process takes more of the processor than they do. */
export class Asker {
  readonly #process: AskedProcess;
  /** The URL of a server in its own process, which answers nothing. */
  readonly silentUrl: string;

  private constructor(process: AskedProcess, silentUrl: string) {
    this.#process = process;
    this.silentUrl = silentUrl;
  }

  static async start(namespace: Namespace): Promise<Asker> {
    const process = new AskedProcess(main, [], namespace);
    return new Asker(process, await process.line());
  }

  /** Rejects when an answer has another status than 200 and 503. One at a time. */
  async ask(asking: Asking): Promise<Answers> {
    return (await this.#process.ask(asking)) as Answers;
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}
