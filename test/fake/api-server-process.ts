/** The fake API server as a process of its own, over TLS. */
import { resolve } from 'node:path';
import { AskedProcess } from '../lab/asked-process.ts';

const main = resolve(import.meta.dirname, 'api-server-main.ts');

export class FakeApi {
  readonly #process: AskedProcess;
  /** The path of a kubeconfig for this server. */
  readonly kubeconfig: string;

  private constructor(process: AskedProcess, kubeconfig: string) {
    this.#process = process;
    this.kubeconfig = kubeconfig;
  }

  /** Without a namespace it listens in that of this process. */
  static async start(namespace?: { readonly name: string }): Promise<FakeApi> {
    const process = new AskedProcess(main, ['--tls'], namespace);
    const { kubeconfig } = JSON.parse(await process.line()) as { kubeconfig: string };
    return new FakeApi(process, kubeconfig);
  }

  /** Runs a command of api-server-main.ts; resolves when it is done. One at a time. */
  ask(command: { readonly do: string; readonly [key: string]: unknown }): Promise<unknown> {
    return this.#process.ask(command);
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}
