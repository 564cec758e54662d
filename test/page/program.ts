/** The program as it is shipped, on manifests, in the network namespace of this process. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Status } from '../../src/ask/status.ts';

const root = resolve(import.meta.dirname, '..', '..');
const limits = ['max-per-core', 'tcp-timeout-established', 'tcp-timeout-close-wait'];
const patienceMs = 300_000;

export const address = 'http://127.0.0.1:10249';

export class Program {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  constructor(manifests: string) {
    const settings = [
      `--manifests=${manifests}`,
      '--proxy-mode=nftables',
      '--v=0',
      '--hostname-override=node-a',
      '--service-metrics',
      '--cluster-cidr=10.244.0.0/16',
      ...limits.map((limit) => `--conntrack-${limit}=0`),
    ];
    const main = resolve(root, 'dist', 'main.js');
    this.#child = spawn(process.execPath, [main, ...settings], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    this.#ended = once(this.#child, 'close');
  }

  /** Resolves when it says that these Services are in force. */
  async ready(services: number): Promise<void> {
    const endMs = performance.now() + patienceMs;
    for (;;) {
      const status = await askStatus().catch(() => undefined);
      if (status?.healthy && status.services.known === services) return;
      if (performance.now() > endMs) throw new Error(`not ready in time: ${status?.problems}`);
      await sleep(100);
    }
  }

  async end(): Promise<void> {
    this.#child.kill();
    await this.#ended;
  }
}

async function askStatus(): Promise<Status> {
  return (await (await fetch(`${address}/fairlead/v1/status`)).json()) as Status;
}
