/**
 * `npm run demo`: the program in a private network namespace, real connections through it, and what
 * a change writes. It shows no times: they would be those of its own load. Ends by itself and
 * removes everything. `main.ts [PROGRAM]`: default dist/main.js.
 */
import { type ChildProcess, execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Batches } from './batches.ts';
import { Page } from './page.ts';
import type { Load, Outcome } from './pod.ts';
import { becomeNode, onStageCommand, Pod } from './stage.ts';

/** With this word behind the program, this one runs inside its namespaces. */
const onStage = 'on-stage';
const dist = resolve(import.meta.dirname, '..', '..', 'dist', 'main.js');
const [, main, program = dist, place] = process.argv;
const clusterIP = '10.96.0.10';
const servicePort = 80;
const podPort = 8080;
const endsAfterMs = 120_000;
const noNft = '  nft is not installed: apt-get install -y nftables, and look here again';

/** Runs the demo, first outside of its namespaces, then in them. */
async function run(): Promise<number> {
  try {
    if (place !== onStage) return enterStage();
    const deadline = setTimeout(() => process.exit(fail('took too long')), endsAfterMs);
    deadline.unref();
    await perform(new Page(process.stdout));
    return 0;
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function fail(reason: string): number {
  process.stderr.write(`demo: ${reason}\n`);
  return 1;
}

/** Runs this again inside the namespaces; this process keeps the terminal. */
function enterStage(): number {
  const [command, ...args] = onStageCommand([process.execPath, main!, program, onStage]);
  return spawnSync(command!, args, { stdio: 'inherit' }).status ?? 1;
}

async function perform(page: Page): Promise<void> {
  const [linux] = release().split(/(?<=\d\.\d+)\D/, 1);
  page.title(`npm run demo: a Service on Linux ${linux}, in a network namespace of its own`);
  becomeNode();
  const directory = mkdtempSync(join(tmpdir(), 'fairlead-demo-'));
  const backends = ['a', 'b', 'c'].map((name, i) => new Pod(`pod-${name}`, 11 + i));
  const client = new Pod('client', 99);
  const agent = { process: undefined as ChildProcess | undefined };
  try {
    await Promise.all([...backends, client].map((pod) => pod.plugIn()));
    await Promise.all(backends.map((pod) => pod.serve(podPort)));
    const cluster = new Cluster(directory);
    cluster.start(backends);
    agent.process = startAgent(directory);
    const batches = new Batches(agent.process);
    await batches.ready;
    await story(page, cluster, { batches, client, pods: backends });
  } finally {
    agent.process?.kill('SIGTERM');
    for (const pod of [...backends, client]) pod.end();
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Cast {
  readonly batches: Batches;
  readonly client: Pod;
  readonly pods: readonly Pod[];
}

async function story(page: Page, cluster: Cluster, { batches, client, pods }: Cast): Promise<void> {
  const target = { address: clusterIP, port: servicePort };
  page.heading(`3,000 connections to ${clusterIP}:${servicePort}, three backends`);
  const first = await client.connect({ ...target, connections: 3000, concurrency: 16 });
  page.outcome(first);

  page.heading('the Service scales while connections run');
  const load: Load = { ...target, connections: 'until-stopped', concurrency: 8 };
  const running = client.connect(load);
  const [a, b, c] = pods as readonly [Pod, Pod, Pod];
  const steps: readonly (readonly [string, readonly Pod[]])[] = [
    ['pod-c leaves', [a, b]],
    ['pod-b leaves', [a]],
    ['pod-c takes the place of pod-a', [c]],
    ['pod-a comes back', [c, a]],
    ['pod-b comes back', [c, a, b]],
  ];
  for (const [label, endpoints] of steps) {
    await sleep(300);
    const batch = batches.next();
    cluster.scale(endpoints);
    page.change(label, await batch);
  }
  await sleep(300);
  client.stopConnecting();
  const outcome = await running;
  page.outcome(outcome);
  if (total(outcome.failures) + total(first.failures) > 0) {
    throw new Error('connections failed, see above');
  }
  await explain(page, client, target);
  await interfere(page, client, target);
  page.heading('what the kernel holds');
  page.listing(listing());
  page.heading('what now?');
  page.text('docs/tutorial.md         a Service of your own in ten minutes, without a cluster');
  page.text('bin/fairlead preflight   what a node of yours would say; changes nothing');
  page.text('docs/install             kind, minikube, k3s, kubeadm and others, and the way back');
}

interface Target {
  readonly address: string;
  readonly port: number;
}

/** What happens to a packet: according to the rules, and as the kernel traces a real one. */
async function explain(page: Page, client: Pod, target: Target): Promise<void> {
  page.heading('what becomes of a packet of the client?');
  const from = ['--from', client.address];
  const question = ['explain', 'demo/web:http', ...from];
  page.command(['fairlead', ...question], (await ask(question)).stdout);
  const trace = ['trace', 'demo/web:http', ...from];
  const traced = ask(trace);
  const load: Load = { ...target, connections: 'until-stopped', concurrency: 1 };
  const running = client.connect(load);
  const { stdout } = await traced;
  client.stopConnecting();
  await running;
  // The steps are those of the explanation, with rules; the first line is the outcome.
  page.command(['fairlead', ...trace], stdout.split('\n\n', 1)[0]!);
}

/** Another program deletes all of our rules, if the kernel permits it. */
async function interfere(page: Page, client: Pod, target: Target): Promise<void> {
  page.heading('another program flushes the rules');
  const words = ['nft', 'flush', 'table', 'ip', 'fairlead'];
  const { status, stderr, error } = spawnSync('nft', words.slice(1), { encoding: 'utf8' });
  if (error !== undefined) return page.text(noNft);
  page.command(words, status === 0 ? '(done)' : stderr.split('\n', 1)[0]!);
  // If the kernel has no owners of tables, the rules are written again immediately.
  page.text(
    status === 0 ? 'Fairlead writes them again.' : 'The kernel refused it: the table is ours.',
  );
  await sleep(status === 0 ? 500 : 0);
  const outcome = await client.connect({ ...target, connections: 300, concurrency: 8 });
  page.outcome(outcome);
  if (total(outcome.failures) > 0) throw new Error('connections failed, see above');
}

/** Sends a question to the agent, through a command of this program. */
async function ask(args: readonly string[]): Promise<{ readonly stdout: string }> {
  const argv = [program, ...args];
  return promisify(execFile)(process.execPath, argv, { env: { ...process.env, NO_COLOR: '1' } });
}

function total(counts: Outcome['failures']): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** The directory of manifests that replaces the cluster. */
class Cluster {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  start(pods: readonly Pod[]): void {
    this.#write('service.yaml', serviceManifest(clusterIP, servicePort));
    this.scale(pods);
  }

  /** Changes the endpoints. */
  scale(pods: readonly Pod[]): void {
    this.#write('slice.yaml', sliceManifest(pods, podPort));
  }

  /** Atomic: the agent never reads half a file. */
  #write(name: string, content: string): void {
    const path = join(this.#directory, name);
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  }
}

function startAgent(directory: string): ChildProcess {
  const flags = ['--hostname-override=demo', '--cluster-cidr=10.244.0.0/16'];
  // Limits of the machine cannot be set in a namespace.
  const limits = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0'];
  const log = ['-v=2', '--logging-format=json'];
  const argv = [program, `--manifests=${directory}`, ...flags, ...limits, ...log];
  return spawn(process.execPath, [...argv, '--conntrack-tcp-timeout-close-wait=0'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** What nft, an independent program, reads from the kernel. */
function listing(): string {
  if (spawnSync('nft', ['--version']).error !== undefined) {
    return noNft;
  }
  const list = (kind: 'map' | 'chain', name: string): string =>
    execFileSync('nft', ['list', kind, 'ip', 'fairlead', name], { encoding: 'utf8' });
  const services = list('map', 'services');
  const [, shard] = /goto cluster-4-(\w)/.exec(services) ?? [];
  const endpoints = list('map', `endpoints-${shard}`);
  const chains = ['services', `cluster-4-${shard}`, `pick-4-${shard}`];
  return [services, endpoints, ...chains.map((chain) => list('chain', chain))]
    .map((text) => text.replace(/^table ip fairlead \{\n/, '').replace(/\}\n$/, ''))
    .join('');
}

/** The demo's objects, in the form of a cluster's. */
function serviceManifest(clusterIP: string, port: number): string {
  return `apiVersion: v1
kind: Service
metadata: { name: web, namespace: demo }
spec:
  clusterIP: ${clusterIP}
  ports: [{ name: http, port: ${port}, protocol: TCP }]
`;
}

function sliceManifest(pods: readonly { readonly address: string }[], port: number): string {
  const endpoints = pods.map(
    ({ address }) => `  - { addresses: [${address}], conditions: { ready: true } }\n`,
  );
  return `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: demo
  labels: { kubernetes.io/service-name: web }
addressType: IPv4
ports: [{ name: http, port: ${port}, protocol: TCP }]
endpoints:
${endpoints.join('')}`;
}

process.exitCode = await run();
