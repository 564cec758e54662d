/**
 * A Node program that is asked by lines of JSON: each line on its standard input is a command, and
 * is answered with one line on standard output, `{"result":…}` or `{"error":…}`. It ends with its
 * standard input.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { createInterface } from 'node:readline';

/** The program's part: runs one command after the other, until there are no more. */
export async function answerCommands<C>(run: (command: C) => unknown): Promise<void> {
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === '') continue;
    try {
      console.log(JSON.stringify({ result: (await run(JSON.parse(line) as C)) ?? null }));
    } catch (error) {
      console.log(JSON.stringify({ error: String(error) }));
    }
  }
}

/** Its parent's part. */
export class AskedProcess {
  readonly #name: string;
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** `main`: path of the program. Without a namespace it has that of its parent. */
  constructor(main: string, args: readonly string[], namespace?: { readonly name: string }) {
    this.#name = basename(main, '.ts');
    const inside = namespace === undefined ? [] : ['ip', 'netns', 'exec', namespace.name];
    const [command, ...rest] = [...inside, process.execPath, main, ...args];
    this.#child = spawn(command!, rest, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** The next line that it prints, where it prints more than answers. */
  async line(): Promise<string> {
    const { done, value } = await this.#lines.next();
    if (done) throw new Error(`${this.#name} has ended`);
    return value;
  }

  /** Resolves to the result. One at a time. */
  async ask(command: object): Promise<unknown> {
    this.#child.stdin!.write(`${JSON.stringify(command)}\n`);
    const { error, result } = JSON.parse(await this.line()) as { result?: unknown; error?: string };
    if (error !== undefined) throw new Error(`${this.#name}: ${error}`);
    return result;
  }

  async close(): Promise<void> {
    this.#child.stdin!.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) {
      await once(this.#child, 'exit');
    }
  }
}
