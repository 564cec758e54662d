/** One process of the program in the node of a lab, and its log. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import type { Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR } from '../lab/objects.ts';
import { main } from '../process/main.ts';
import type { Mode } from './readers.ts';

const root = resolve(import.meta.dirname, '..', '..');

/** Flags for sysctls that a namespace must not set. */
const conntrack = ['max-per-core', 'tcp-timeout-established', 'tcp-timeout-close-wait'];

const latestMax = 40;

/** `built`: as it is shipped, bin/fairlead. `source`: without a build, for tests. */
export type Form = 'built' | 'source';

export interface Batch {
  readonly family: string;
  readonly purpose: string;
  readonly writes: number;
}

interface Entry {
  readonly msg: LoggedMessage;
  readonly [key: string]: unknown;
}

export class Program {
  /** The batches that the kernel took, oldest first. */
  readonly batches: Batch[] = [];
  /** Lines of level error, and output that is not a line of the log. */
  readonly complaints: string[] = [];
  /** The newest lines of the log, for messages of failures. */
  readonly latest: string[] = [];
  /** Families whose first rules are complete. */
  readonly #inForce = new Set<string>();
  readonly #child: ChildProcess;
  /** Code or signal, when all that it has said is read. */
  readonly #exited: Promise<number | string>;
  #lastBatchMs = performance.now();

  constructor(lab: Lab, mode: Mode, kubeconfig: string, form: Form) {
    const program = form === 'built' ? [join(root, 'bin', 'fairlead')] : [process.execPath, main];
    const settings = [
      `--kubeconfig=${kubeconfig}`,
      `--proxy-mode=${mode}`,
      `--hostname-override=${lab.node.nodeName}`,
      `--cluster-cidr=${DEFAULT_CLUSTER_CIDR}`,
      '--v=2',
      ...conntrack.map((limit) => `--conntrack-${limit}=0`),
    ];
    const argv = ['netns', 'exec', lab.node.namespace, ...program, ...settings];
    this.#child = spawn('ip', argv, { stdio: ['ignore', 'ignore', 'pipe'] });
    this.#exited = new Promise((ended) =>
      this.#child.once('close', (code, signal) => ended(code ?? signal!)),
    );
    createInterface({ input: this.#child.stderr! }).on('line', (line) => this.#read(line));
  }

  get pid(): number {
    return this.#child.pid!;
  }

  get alive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Both families have taken over what was there, and written what was missing. */
  get ready(): boolean {
    return this.#inForce.size === 2;
  }

  get writes(): number {
    return this.batches.reduce((sum, { writes }) => sum + writes, 0);
  }

  /** Nothing was written for this time. */
  get quietMs(): number {
    return performance.now() - this.#lastBatchMs;
  }

  /** Resolves when it is ready. */
  async started(timeoutMs: number): Promise<void> {
    const endMs = performance.now() + timeoutMs;
    while (!this.ready) {
      if (performance.now() > endMs) {
        throw new Error(`the program is not ready in time; its log:\n${this.latest.join('\n')}`);
      }
      if (!this.alive) {
        const how = await this.#exited;
        throw new Error(`the program has ended (${how}); its log:\n${this.latest.join('\n')}`);
      }
      await sleep(5);
    }
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.#exited;
  }

  #read(line: string): void {
    this.latest.push(line);
    if (this.latest.length > latestMax) this.latest.shift();
    const entry = line.startsWith('{') ? (JSON.parse(line) as Entry) : undefined;
    if (entry === undefined || entry.level === 'error' || entry.level === 'fatal') {
      this.complaints.push(line);
      return;
    }
    if (entry.msg === 'Applied batch') {
      this.batches.push(entry as unknown as Batch);
      this.#lastBatchMs = performance.now();
    }
    if (entry.msg === 'Kernel state verified' && entry.purpose === 'start') {
      this.#inForce.add(String(entry.family));
    }
  }
}
