/** A cluster that only `kubectl fairlead` sees: its kubectl answers from files. */
import { spawn } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Output, outputOf } from '../../process/output-of.ts';

const plugin = resolve(import.meta.dirname, '../../../deploy/kubectl-fairlead');

export class PaperCluster {
  readonly path = mkdtempSync(join(tmpdir(), 'fairlead-cluster-'));
  #pods = '';

  constructor() {
    for (const folder of ['bin', 'exec', 'get', 'now']) mkdirSync(join(this.path, folder));
    copyFileSync(join(import.meta.dirname, 'fake-kubectl'), join(this.path, 'bin/kubectl'));
    onTestFinished(() => rmSync(this.path, { recursive: true, force: true }));
  }

  /** A node, and what its Fairlead prints; `state`: phase and reason of a pod that does not run. */
  node(name: string, answer: string, state?: string): this {
    this.#pods += `${name} ${state === undefined ? '2026-11-28T12:00:00Z' : ''}\n`;
    if (state !== undefined) this.object(`fairlead-${name}`, state);
    writeFileSync(join(this.path, 'pods'), this.#pods);
    writeFileSync(join(this.path, 'exec', name), answer);
    return this;
  }

  /** A node whose pod runs this script of the shell. */
  script(name: string, lines: string): this {
    this.node(name, `#!/bin/sh\n${lines}\n`);
    chmodSync(join(this.path, 'exec', name), 0o755);
    return this;
  }

  /** What `kubectl get` prints for this word of its command line. */
  object(word: string, printed: string): this {
    writeFileSync(join(this.path, 'get', word), printed);
    return this;
  }

  /** The labels of all pods; by default every selector finds them. */
  labels(labels: string): this {
    writeFileSync(join(this.path, 'labels'), labels);
    return this;
  }

  /** The port of all pods for readers. */
  reader(port: string): this {
    writeFileSync(join(this.path, 'reader'), port);
    return this;
  }

  log(printed: string): this {
    writeFileSync(join(this.path, 'log'), printed);
    return this;
  }

  read(file: string): string {
    const path = join(this.path, file);
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }

  /** Runs the plugin. */
  ask(...args: readonly string[]): Promise<Output> {
    return this.run('sh', plugin, ...args);
  }

  /** Runs a program where kubectl is that of this cluster. */
  async run(program: string, ...args: readonly string[]): Promise<Output> {
    const env = { PATH: `${join(this.path, 'bin')}:${process.env.PATH}`, CLUSTER: this.path };
    const options = { env, cwd: this.path, stdio: ['ignore', 'pipe', 'pipe'] } as const;
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    return outputOf(child);
  }
}

/** A report as nodes write it: `report('healthy yes', 'mode nftables')`; blanks separate fields. */
export function report(...lines: readonly string[]): string {
  const all = ['fairlead-report 1 v0.1.0', ...lines, 'end'];
  return all.map((line) => `${line.replace(/ (?! )/g, '\t').replace(/~/g, ' ')}\n`).join('');
}

/** The rows of a printed table, each as its cells. */
export function rows(printed: string): string[][] {
  return printed
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/));
}
