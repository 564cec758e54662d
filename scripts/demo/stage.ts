/** The demo's private network: a node's namespace and one for each pod, removed when it ends. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Load, Outcome, PodOrder, PodReport } from './pod.ts';

/** The node's address in the pod network: every pod's gateway. */
const gateway = '10.244.0.1';

/**
 * The command that runs `args` in namespaces of their own, as root in them. All processes end with
 * the first one (--kill-child), and the namespaces with the processes.
 */
export function onStageCommand(args: readonly string[]): string[] {
  if (spawnSync('ip', ['-V']).error !== undefined) {
    throw new Error('the demo needs the command ip: apt-get install -y iproute2');
  }
  const isRoot = process.getuid?.() === 0;
  const namespaces = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const user = isRoot ? [] : ['--user', '--map-root-user'];
  if (spawnSync('unshare', [...user, ...namespaces, 'true']).status !== 0) {
    throw new Error(
      isRoot
        ? 'the demo may not make network namespaces here: run it outside of this container'
        : 'the demo needs root or user namespaces: sysctl -w kernel.unprivileged_userns_clone=1',
    );
  }
  return ['unshare', ...user, ...namespaces, ...args];
}

/** Makes the namespace of this process a node: loopback up, forwarding on. */
export function becomeNode(): void {
  ip('link set lo up', `address add ${gateway}/32 dev lo`);
  writeFileSync('/proc/sys/net/ipv4/ip_forward', '1');
}

/** Runs commands of ip(8), all in one process. */
function ip(...commands: readonly string[]): void {
  execFileSync('ip', ['-batch', '-'], { input: commands.join('\n'), stdio: ['pipe', 2, 2] });
}

export class Pod {
  readonly name: string;
  readonly address: string;
  readonly #process: ChildProcess;

  /** A pod with the address 10.244.0.`number`. */
  constructor(name: string, number: number) {
    this.name = name;
    this.address = `10.244.0.${number}`;
    const script = join(import.meta.dirname, 'pod.ts');
    this.#process = spawn('unshare', ['--net', process.execPath, script], {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
  }

  /** Connects the pod's namespace to the node's. */
  async plugIn(): Promise<void> {
    await this.#inOwnNamespace();
    const { pid } = this.#process;
    const device = `veth-${this.name}`;
    ip(
      `link add ${device} type veth peer name eth0 netns ${pid}`,
      `link set ${device} up`,
      `route add ${this.address}/32 dev ${device}`,
    );
    const inside = [
      'link set lo up',
      'link set eth0 up',
      `address add ${this.address}/32 dev eth0`,
      `route add ${gateway}/32 dev eth0`,
      `route add default via ${gateway} src ${this.address}`,
    ];
    execFileSync('nsenter', ['--target', String(pid), '--net', 'ip', '-batch', '-'], {
      input: inside.join('\n'),
      stdio: ['pipe', 2, 2],
    });
  }

  async serve(port: number): Promise<void> {
    await this.#ask({ kind: 'serve', name: this.name, port }, 'serving');
  }

  async connect(load: Load): Promise<Outcome> {
    const report = await this.#ask({ kind: 'connect', load }, 'outcome');
    return report.outcome;
  }

  stopConnecting(): void {
    this.#process.send({ kind: 'stop-connecting' } satisfies PodOrder);
  }

  end(): void {
    this.#process.disconnect();
  }

  /** unshare has put the process into its own namespace once it runs Node. */
  async #inOwnNamespace(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#process.once('spawn', resolve);
      this.#process.once('error', reject);
    });
    const mine = networkNamespace('self');
    for (let attempt = 0; networkNamespace(this.#process.pid!) === mine; attempt += 1) {
      if (attempt > 1000) throw new Error(`pod ${this.name} got no network namespace`);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  #ask<K extends PodReport['kind']>(
    order: PodOrder,
    kind: K,
  ): Promise<Extract<PodReport, { kind: K }>> {
    return new Promise((resolve, reject) => {
      const ended = (): void => reject(new Error(`pod ${this.name} ended`));
      const answer = (report: PodReport): void => {
        if (report.kind !== kind) return;
        this.#process.off('message', answer);
        this.#process.off('exit', ended);
        resolve(report as Extract<PodReport, { kind: K }>);
      };
      this.#process.on('message', answer);
      this.#process.once('exit', ended);
      this.#process.send(order);
    });
  }
}

function networkNamespace(pid: number | 'self'): string {
  return readlinkSync(`/proc/${pid}/ns/net`);
}
