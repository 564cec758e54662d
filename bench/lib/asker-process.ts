/** Asks the product again and again, from a process beside it (`asker-main.ts`). */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
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
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  /** The URL of a server in its own process, which answers nothing. */
  silentUrl = '';

  private constructor(namespace: Namespace) {
    const argv = ['netns', 'exec', namespace.name, process.execPath, main];
    this.#child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  static async start(namespace: Namespace): Promise<Asker> {
    const asker = new Asker(namespace);
    asker.silentUrl = await asker.#line();
    return asker;
  }

  /** Rejects when an answer has another status than 200. One at a time. */
  async ask(asking: Asking): Promise<Answers> {
    this.#child.stdin!.write(`${JSON.stringify(asking)}\n`);
    return JSON.parse(await this.#line()) as Answers;
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin!.end();
    await ended;
  }

  async #line(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done) throw new Error('the asker has ended');
    return value;
  }
}
