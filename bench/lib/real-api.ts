/**
 * A real API server with its etcd inside a namespace: KUBE_APISERVER and ETCD name the programs.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AskedProcess } from '../../test/lab/asked-process.ts';
import type { Namespace } from './namespace.ts';

const url = 'https://127.0.0.1:6443';
const token = 'admin-token';
const readyMaxMs = 120_000;
/** The unit of times in /proc/PID/stat. */
const ticksPerSecond = 100;

export class RealApi {
  readonly kubeconfig: string;
  readonly #namespace: Namespace;
  readonly #directory: string;
  readonly #children: ChildProcess[] = [];
  #serverPid = 0;
  #client: AskedProcess | undefined;

  private constructor(namespace: Namespace) {
    this.#namespace = namespace;
    this.#directory = mkdtempSync(join(tmpdir(), 'fairlead-real-api-'));
    this.kubeconfig = join(this.#directory, 'kubeconfig');
  }

  static async start(namespace: Namespace): Promise<RealApi> {
    const api = new RealApi(namespace);
    try {
      await api.#start();
    } catch (error) {
      await api.close();
      throw error;
    }
    return api;
  }

  /** Seconds of processor time that the API server has used. */
  get cpuSeconds(): number {
    const fields = readFileSync(`/proc/${this.#serverPid}/stat`, 'utf8').split(') ')[1]!.split(' ');
    return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
  }

  /** As the server's own metrics have it after a collection of garbage. */
  get memory(): { readonly goroutines: number; readonly liveBytes: number } {
    const ask = ['-sfk', '-H', `Authorization: Bearer ${token}`];
    this.#namespace.run('curl', [...ask, '-o', '/dev/null', `${url}/debug/pprof/heap?gc=1`]);
    const text = this.#namespace.run('curl', [...ask, `${url}/metrics`]);
    const value = (name: string): number =>
      Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1] ?? Number.NaN);
    return {
      goroutines: value('go_goroutines'),
      liveBytes: value('go_memstats_alloc_bytes') + value('go_memstats_stack_inuse_bytes'),
    };
  }

  /** Runs a command of real-api-client.ts. */
  async ask<T>(command: { readonly do: string; readonly [key: string]: unknown }): Promise<T> {
    return (await this.#client!.ask(command)) as T;
  }

  async close(): Promise<void> {
    await this.#client?.close();
    for (const child of this.#children.reverse()) {
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await ended;
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #start(): Promise<void> {
    const at = (name: string): string => join(this.#directory, name);
    execFileSync('openssl', ['genrsa', '-out', at('key'), '2048'], { stdio: 'ignore' });
    const toPublic = ['rsa', '-in', at('key'), '-pubout', '-out', at('pub')];
    execFileSync('openssl', toPublic, { stdio: 'ignore' });
    writeFileSync(at('tokens'), `${token},admin,admin,system:masters\n`);
    writeFileSync(this.kubeconfig, kubeconfig(at('certs')));
    this.#spawn(program('ETCD'), [
      `--data-dir=${at('data')}`,
      '--unsafe-no-fsync',
      '--quota-backend-bytes=8000000000',
    ]);
    const server = this.#spawn(program('KUBE_APISERVER'), [
      '--etcd-servers=http://127.0.0.1:2379',
      '--secure-port=6443',
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--cert-dir=${at('certs')}`,
      '--service-account-issuer=https://fairlead.test',
      `--service-account-key-file=${at('pub')}`,
      `--service-account-signing-key-file=${at('key')}`,
      '--authorization-mode=RBAC',
      `--token-auth-file=${at('tokens')}`,
      '--service-cluster-ip-range=10.96.0.0/12',
    ]);
    this.#serverPid = server.pid!;
    await this.#ready();
    const client = join(import.meta.dirname, 'real-api-client.ts');
    this.#client = new AskedProcess(client, [url, token], this.#namespace);
  }

  /** `ip netns exec` becomes the program, so that its process is the program's. */
  #spawn(command: string, args: readonly string[]): ChildProcess {
    const argv = ['netns', 'exec', this.#namespace.name, command, ...args];
    const child = spawn('ip', argv, { stdio: ['pipe', 'pipe', 'ignore'] });
    this.#children.push(child);
    return child;
  }

  async #ready(): Promise<void> {
    const untilMs = performance.now() + readyMaxMs;
    const ask = ['-sfk', '-m', '2', '-H', `Authorization: Bearer ${token}`, `${url}/readyz`];
    for (;;) {
      try {
        this.#namespace.run('curl', ask);
        return;
      } catch (error) {
        if (performance.now() > untilMs) throw error;
        await sleep(500);
      }
    }
  }
}

function program(variable: 'ETCD' | 'KUBE_APISERVER'): string {
  const path = process.env[variable];
  if (path === undefined) throw new Error(`${variable} must name a program`);
  return path;
}

/** `certificates`: the folder in which the server makes its own. */
function kubeconfig(certificates: string): string {
  const authority = join(certificates, 'apiserver.crt');
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'real',
    contexts: [{ name: 'real', context: { cluster: 'real', user: 'real' } }],
    clusters: [{ name: 'real', cluster: { server: url, 'certificate-authority': authority } }],
    users: [{ name: 'real', user: { token } }],
  });
}
