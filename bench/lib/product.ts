/** The product as it is shipped: a process inside a namespace, with a probe in it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileVariable } from './collections.ts';
import type { Namespace } from './namespace.ts';
import type { ProbeReport } from './probe.ts';

const root = resolve(import.meta.dirname, '..', '..');
const probe = join(root, 'build', 'bench', 'probe.js');
const collections = join(root, 'build', 'bench', 'collections.js');

/** These flags leave sysctls alone that a namespace must not set. */
const conntrackFlags = [
  '--conntrack-max-per-core=0',
  '--conntrack-tcp-timeout-established=0s',
  '--conntrack-tcp-timeout-close-wait=0s',
];

export class Product {
  /** The time from the start of the process until each family was in force. */
  readonly programmedMs: Promise<number>;
  /** The time from the start until the lists were complete. */
  listedMs = 0;
  readonly #child: ChildProcess;

  /**
   * Without the probe there are no reports, and its memory is not part of the product's.
   * `checkout`: the folder of a built one, for another version. `collectionsFile` gets all
   * collections of the heap at the end (`collections.ts`).
   */
  constructor(
    namespace: Namespace,
    kubeconfig: string,
    flags: readonly string[] = [],
    { isProbed = true, checkout = root, collectionsFile = '' } = {},
  ) {
    const settings = ['--hostname-override=node-1', '--cluster-cidr=11.0.0.0/8', ...conntrackFlags];
    const program = join(checkout, 'bin', 'fairlead');
    const argv = [program, `--kubeconfig=${kubeconfig}`, ...settings, ...flags];
    const startedMs = performance.now();
    const preloaded = [isProbed ? probe : '', collectionsFile === '' ? '' : collections];
    const imports = preloaded.filter(Boolean).map((file) => `--import=${file}`);
    const options = [process.env.NODE_OPTIONS ?? '', ...imports].join(' ');
    this.#child = spawn('ip', ['netns', 'exec', namespace.name, ...argv], {
      stdio: ['ignore', 'inherit', 'pipe', isProbed ? 'ipc' : 'ignore'],
      env: { ...process.env, NODE_OPTIONS: options, [fileVariable]: collectionsFile },
    });
    this.programmedMs = this.#followLog(startedMs);
  }

  /** Fails when the process ends, and when it complains. */
  async #followLog(startedMs: number): Promise<number> {
    let programmedMs = 0;
    const families = new Set<unknown>();
    for await (const line of createInterface({ input: this.#child.stderr! })) {
      const nowMs = performance.now() - startedMs;
      const entry = JSON.parse(line) as Record<string, unknown>;
      // A slow machine writes the list of a large cluster for minutes.
      const isWaiting = entry.msg === 'Still waiting for the first list';
      if (entry.level === 'error' && !isWaiting) throw new Error(line);
      if (entry.msg === 'First list complete') this.listedMs = nowMs;
      if (entry.msg !== 'Kernel state verified' || entry.purpose !== 'start') continue;
      families.add(entry.family);
      programmedMs = nowMs;
      if (families.size === 2) break;
    }
    if (families.size < 2) throw new Error('the product has ended');
    this.#child.stderr!.resume();
    return programmedMs;
  }

  get pid(): number {
    return this.#child.pid!;
  }

  /** The probe's report now. */
  report(): Promise<ProbeReport> {
    return this.#ask('report');
  }

  /** The probe's report once no batch came for a while: on a busy machine one takes two seconds. */
  async settled(quietMs = 2000): Promise<ProbeReport> {
    let before: ProbeReport;
    let report = await this.report();
    do {
      before = report;
      await sleep(quietMs);
      report = await this.report();
    } while (report.batches !== before.batches);
    return report;
  }

  /** Resets the probe. `split`: it measures the parts of changes with trigger times from now on. */
  async reset(what: 'reset' | 'split' = 'reset'): Promise<void> {
    await this.#ask(what);
  }

  /** The probe's report after garbage is collected. */
  collected(): Promise<ProbeReport> {
    return this.#ask('collect');
  }

  async stop(): Promise<void> {
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await ended;
  }

  async #ask(what: 'report' | 'reset' | 'split' | 'collect'): Promise<ProbeReport> {
    const answer = once(this.#child, 'message');
    this.#child.send(what);
    return (await answer)[0] as ProbeReport;
  }
}
