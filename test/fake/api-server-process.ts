/** The fake API server as a process of its own: JSON over TLS, inside a namespace. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';

const main = resolve(import.meta.dirname, 'api-server-main.ts');

export class FakeApi {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;
  #kubeconfig = '';

  private constructor(namespace: { readonly name: string }) {
    const argv = ['netns', 'exec', namespace.name, process.execPath, main, '--tls'];
    this.#child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout! })[Symbol.asyncIterator]();
  }

  static async start(namespace: { readonly name: string }): Promise<FakeApi> {
    const api = new FakeApi(namespace);
    const { kubeconfig } = (await api.#line()) as { kubeconfig: string };
    api.#kubeconfig = kubeconfig;
    return api;
  }

  /** The path of a kubeconfig for this server. */
  get kubeconfig(): string {
    return this.#kubeconfig;
  }

  /** Runs a command of api-server-main.ts; resolves when it is done. One at a time. */
  async ask(command: { readonly do: string; readonly [key: string]: unknown }): Promise<unknown> {
    this.#child.stdin!.write(`${JSON.stringify(command)}\n`);
    const answer = (await this.#line()) as { result?: unknown; error?: string };
    if (answer.error !== undefined) throw new Error(`fake API server: ${answer.error}`);
    return answer.result;
  }

  async close(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.stdin!.end();
    await ended;
  }

  async #line(): Promise<unknown> {
    const { done, value } = await this.#lines.next();
    if (done) throw new Error('the fake API server has ended');
    return JSON.parse(value);
  }
}
