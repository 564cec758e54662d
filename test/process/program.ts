/** The program itself in a network namespace, as tests of the process start it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { onTestFinished } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { createNamespace, type Namespace } from '../conformance/namespace.ts';
import { type ActorName, addressOf } from '../lab/addresses.ts';
import { withoutOwner } from '../lab/listing.ts';
import { BASELINE, type KubernetesObject, service, slices } from '../lab/objects.ts';
import { hangsMs, paced } from '../lab/pace.ts';
import { main } from './main.ts';

/** Limits of the machine are not a namespace's to set. */
const conntrack = { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' };

/** What proves CAP_NET_ADMIN works in the first user namespace alone. */
export const canProve = /^\s*0\s+0\s+4294967295$/m.test(readFileSync('/proc/self/uid_map', 'utf8'));

/** The words before those of a program of root that has none. */
export const withoutCapabilities = ['setpriv', '--bounding-set=-all', '--inh-caps=-all'];

export interface Line {
  readonly msg: LoggedMessage;
  readonly [key: string]: unknown;
}

export interface Circumstances {
  /** The words before the program's own: `['prlimit', '--nofile=64']`. */
  readonly within?: readonly string[];
  /** Whether its log is read. Default: yes. */
  readonly isRead?: boolean;
  /** The program's main module. Default: that of this version. */
  readonly main?: string;
}

/** One process of the program. */
export class Program {
  readonly lines: Line[] = [];
  stdout = '';
  /** Output that is not a line of the log. */
  words = '';
  readonly exitCode: Promise<number | null>;
  /** How it ended: a code or a signal. Undefined while it runs. */
  ended: number | string | undefined;
  readonly #child: ChildProcess;
  #pending = '';

  constructor(
    namespace: Namespace,
    args: readonly string[],
    { within = [], isRead = true, main: chosen = main }: Circumstances = {},
  ) {
    const argv = ['netns', 'exec', namespace.name, ...within, process.execPath, chosen, ...args];
    this.#child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child.stdout?.on('data', (part) => {
      this.stdout += String(part);
    });
    if (isRead) this.read();
    this.#child.once('exit', (code, signal) => {
      this.ended = code ?? String(signal);
    });
    this.exitCode = new Promise((done) => this.#child.once('close', done));
    onTestFinished(async () => {
      this.#child.kill('SIGKILL');
      await this.exitCode;
    });
  }

  /** The process that `ip` and what came before the program have become. */
  get pid(): number {
    return this.#child.pid!;
  }

  /** Reads what it logs, from now on. */
  read(): void {
    this.#child.stderr?.on('data', (part) => this.#take(String(part)));
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Waits until the program has logged this `count` times; resolves to the last of them. */
  async logged(msg: LoggedMessage, count = 1): Promise<Line> {
    const found = (): Line[] => this.lines.filter((line) => line.msg === msg);
    await until(async () => found().length >= count, `${count} times "${msg}"`);
    return found()[count - 1]!;
  }

  #take(text: string): void {
    const lines = (this.#pending + text).split('\n');
    this.#pending = lines.pop() ?? '';
    for (const line of lines) {
      if (line.startsWith('{')) this.lines.push(JSON.parse(line) as Line);
      else this.words += `${line}\n`;
    }
  }
}

const hangsSeconds = hangsMs / 1000;

/** Resolves once it is done. Fails with `what` if that hangs. */
export async function until(done: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const deadlineMs = performance.now() + hangsMs;
  while (performance.now() < deadlineMs) {
    if (await done()) return;
    await sleep(paced(25));
  }
  throw new Error(`not within ${hangsSeconds} s: ${what}`);
}

/** Makes a namespace forward packets, as network plugins make nodes. */
export async function forwards({ run }: Pick<Namespace, 'run'>): Promise<void> {
  await run('sysctl', ['-qew', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1']);
}

/** Its servers open independently of its rules, and may be later. */
export async function listens({ run }: Pick<Namespace, 'run'>, port: number): Promise<void> {
  const listed = async () => (await run('ss', ['-Hltn', `sport = :${port}`])) !== '';
  await until(listed, `something listens on port ${port}`);
}

/** Waits until `/readyz` answers 200, with few processes: each takes an emulated one long. */
export async function becomesReady({ run }: Pick<Namespace, 'run'>): Promise<void> {
  const isReady = 'read -r _ status _ <&3 && [ "$status" = 200 ]';
  const asks = `until { ${connects(10256)} && ${sends('/readyz', 10256)} && ${isReady}; } 2>/dev/null
    do sleep ${paced(0.1)}; done`;
  await run('timeout', [`${hangsSeconds}`, 'bash', '-c', asks]);
}

/** A cluster of one Service in a directory, with a configuration file. */
export class Place {
  readonly namespace: Namespace;
  readonly manifests = temporaryDirectory();
  readonly config = join(temporaryDirectory(), 'config.conf');

  constructor(namespace: Namespace) {
    this.namespace = namespace;
    this.apply(['pod-a', 'pod-b']);
    this.configure({});
  }

  static async make(): Promise<Place> {
    const namespace = await createNamespace();
    await namespace.run('ip', ['link', 'set', 'lo', 'up']);
    await forwards(namespace);
    return new Place(namespace);
  }

  start(...flags: readonly string[]): Program {
    return this.startUnder({}, ...flags);
  }

  startUnder(circumstances: Circumstances, ...flags: readonly string[]): Program {
    const given = [`--config=${this.config}`, `--manifests=${this.manifests}`];
    const args = [...given, '--hostname-override=node', ...flags];
    return new Program(this.namespace, args, circumstances);
  }

  /** The cluster from now on: a Service `web` with these endpoints, and others. */
  apply(pods: readonly ActorName[], ...others: readonly KubernetesObject[]): void {
    const items = [...BASELINE, service('web'), ...slices('web', pods), ...others];
    const path = join(this.manifests, 'cluster.json');
    writeFileSync(`${path}.new`, JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
    renameSync(`${path}.new`, path);
  }

  /**
   * Asks a server of the program, at the loopback address, as soon as it listens: rules may be in
   * force before. Rejects without an answer by then.
   */
  async ask(
    path: string,
    port = 10256,
    patienceS = hangsSeconds,
  ): Promise<{ status: number; body: string }> {
    // Node takes long to start, on an emulated processor for seconds.
    const asks = `until { ${connects(port)}; } 2>/dev/null; do sleep 0.1; done
      ${sends(path, port)} && exec cat <&3`;
    const words = [`${patienceS}`, 'bash', '-c', asks];
    const answer = await this.namespace.run('timeout', words);
    const [head, status, body] = /^HTTP\/1\.[01] (\d{3}) .*?\r\n\r\n(.*)$/s.exec(answer) ?? [];
    if (head === undefined) throw new Error(`no answer of HTTP: ${JSON.stringify(answer)}`);
    return { status: Number(status), body: body! };
  }

  /** Waits until mode nftables sends connections to Service `web` to these, and to no other. */
  async serves(...pods: readonly ActorName[]): Promise<void> {
    const wanted = pods.map((pod) => addressOf(pod).IPv4!).sort();
    await until(async () => {
      const all = endpointsOf(await this.ruleset());
      const found = all.flatMap(({ frontend, address }) =>
        frontend === '10.96.0.10 . tcp . 80' ? address : [],
      );
      return isDeepStrictEqual(found.sort(), wanted);
    }, `web is served by ${wanted}`);
  }

  configure(fields: object): void {
    const head = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration' };
    this.write(JSON.stringify({ ...head, mode: 'nftables', conntrack, ...fields }));
  }

  write(text: string): void {
    writeFileSync(`${this.config}.new`, text);
    renameSync(`${this.config}.new`, this.config);
  }

  /** Without the words about who owns a table: that goes with the process, and the rules stay. */
  async ruleset(): Promise<string> {
    const text = await this.namespace.run('nft', ['list', 'ruleset']);
    return withoutOwner(text);
  }
}

/** Words of bash: file descriptor 3 becomes a connection to a server at the loopback address. */
function connects(port: number): string {
  return `exec 3<>/dev/tcp/127.0.0.1/${port}`;
}

/** Words of bash: asks for `path` over that connection. */
function sends(path: string, port: number): string {
  return `printf '%s\\r\\n' 'GET ${path} HTTP/1.0' 'Host: 127.0.0.1:${port}' '' >&3`;
}

interface ProgrammedEndpoint {
  /** `10.96.0.10 . tcp . 80` */
  readonly frontend: string;
  readonly address: string;
}

/** Endpoints at port 8080 that the rules of mode nftables send connections to a frontend to. */
export function endpointsOf(ruleset: string): ProgrammedEndpoint[] {
  const elements = /(\S+ \. tcp \. \d+) \. 0x[\da-f]+ : ([\d.]+) \. 8080/g;
  return [...ruleset.matchAll(elements)].map(([, frontend, address]) => {
    return { frontend: frontend!, address: address! };
  });
}

export function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'fairlead-process-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

/** Logged when everything desired is in force, once for each family. */
export const inForce = 'Kernel state verified';
