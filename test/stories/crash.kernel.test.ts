/** The program itself, killed while it writes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  DEFAULT_CLUSTER_CIDR,
  type KubernetesObject,
  service,
  slices,
} from '../lab/objects.ts';
import { assortment } from './assortment.ts';
import { vip } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';

const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url));
const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;
/** Sysctls of connection tracking belong to the whole machine: they are left alone. */
const configuration = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'nftables',
  hostnameOverride: 'node',
  conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  ...settings,
};

/** Several batches in each family: both to add them and to delete them. */
const SERVICES = 2500;
const KILLS = 4;

let lab: Lab;
let directory: string;
beforeAll(async () => {
  lab = await createLab();
  directory = mkdtempSync(path.join(tmpdir(), 'fairlead-crash-'));
});
afterAll(async () => {
  rmSync(directory, { recursive: true });
  await lab.close();
});

/** The program in the node's namespace. */
class Program {
  readonly child: ChildProcess;
  readonly #lines: string[] = [];
  #heard = (): void => {};

  constructor(manifests: string, config: string) {
    const argv = ['run', '--config', config, '--manifests', manifests];
    const command = ['netns', 'exec', lab.node.namespace, process.execPath, MAIN, ...argv];
    this.child = spawn('ip', command, { stdio: ['ignore', 'ignore', 'pipe'] });
    createInterface({ input: this.child.stderr! }).on('line', (line) => {
      this.#lines.push(line);
      this.#heard();
    });
  }

  count(text: string): number {
    return this.#lines.filter((line) => line.includes(text)).length;
  }

  /** Until it has said so this often. */
  async said(text: string, times: number): Promise<void> {
    const endMs = performance.now() + 30_000;
    while (this.count(text) < times) {
      const dead = this.child.exitCode !== null || performance.now() > endMs;
      if (dead) throw new Error(`the program never said “${text}”:\n${this.#lines.join('\n')}`);
      await Promise.race([new Promise<void>((resolve) => (this.#heard = resolve)), sleep(1000)]);
    }
  }

  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<unknown> {
    const ended = once(this.child, 'exit');
    this.child.kill(signal);
    return (await ended)[0];
  }
}

/** Each round has other Services, and another pod behind `web`. */
function objectsOf(round: number): KubernetesObject[] {
  const pod = round % 2 === 0 ? 'pod-a' : 'pod-b';
  return [
    ...BASELINE,
    ...assortment(SERVICES, round * SERVICES),
    service('web', { clusterIp: vip }),
    ...slices('web', [pod]),
  ];
}

async function generation(): Promise<number> {
  const kernel = openKernel({ netns: lab.node.namespacePath });
  try {
    return await kernel.generation();
  } finally {
    kernel.close();
  }
}

/** What the program says of each family once all is in force. */
const done = 'Kernel is as wanted';

/** Waits for so many transactions since `before`, or for the end of all; returns their number. */
async function committed(program: Program, before: number, wanted: number): Promise<number> {
  const endMs = performance.now() + 30_000;
  for (;;) {
    const commits = (await generation()) - before;
    if (commits >= wanted || program.count(done) === 2) return commits;
    if (performance.now() > endMs) throw new Error('the program writes nothing');
    await sleep(3);
  }
}

test('A process that is killed while it writes leaves nothing that the next one does not mend', async () => {
  const manifests = path.join(directory, 'manifests');
  mkdirSync(manifests);
  const config = path.join(directory, 'config.yaml');
  writeFileSync(config, JSON.stringify(configuration));
  const write = (round: number): void => {
    const list = { apiVersion: 'v1', kind: 'List', items: objectsOf(round) };
    writeFileSync(path.join(manifests, 'all.json'), JSON.stringify(list));
  };
  const interrupted: number[] = [];
  for (let round = 0; round < KILLS; round += 1) {
    write(round);
    const before = await generation();
    const program = new Program(manifests, config);
    const commits = await committed(program, before, round + 1);
    await program.end('SIGKILL');
    if (program.count(done) < 2) interrupted.push(commits);
  }
  // Not before the first transaction, and not after the last.
  expect(Math.min(...interrupted)).toBeGreaterThan(0);
  expect(interrupted.length).toBeGreaterThanOrEqual(KILLS / 2);

  write(KILLS);
  const last = new Program(manifests, config);
  await last.said(done, 2);
  expect(await last.end('SIGTERM')).toBe(0);
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8080);
  const to = { address: vip.IPv4, port: 80 };
  expect(
    await lab.actors.client.connect({ protocol: 'TCP', to, timeoutMs: 3000 }, 4),
  ).toMatchObject([{ count: 4, outcome: { kind: 'answered', by: 'pod-a' } }]);

  // Whoever starts now and finds nothing to write knows that all is as wanted.
  const before = await generation();
  const proxy = fairlead('nftables');
  const running = await proxy.start(lab.node, settings, objectsOf(KILLS));
  expect(await generation()).toBe(before);
  await running.stop();
  await proxy.cleanup(lab.node);
});
