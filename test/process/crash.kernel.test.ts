/**
 * The program itself, killed in the middle of its work: established connections continue, and the
 * next process writes only the difference to the desired state.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { entryShape, fieldsOfSet } from '../../src/kernel/nft/sets.ts';
import { setDefinitions, tableName } from '../../src/modes/nftables/layout.ts';
import type { Family } from '../../src/net/address.ts';
import { type ActorName, clusterIp, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import { BASELINE, type KubernetesObject, service, slices } from '../lab/objects.ts';
import { orphans } from '../lab/owners.ts';
import { answerMs } from '../lab/pace.ts';
import { main } from './main.ts';
import { becomesReady } from './program.ts';

const attempt = {
  protocol: 'TCP',
  to: { address: clusterIp(10).IPv4, port: 80 },
  timeoutMs: answerMs,
} as const;
const podPort = 8080;

let lab: Lab;
let kernel: Kernel;
let directory: string;
let running: ChildProcess | undefined;

beforeEach(async () => {
  lab = await createLab();
  kernel = openKernel({ netns: lab.node.namespacePath });
  directory = await mkdtemp(join(tmpdir(), 'fairlead-crash-'));
});

afterEach(async () => {
  await kill();
  kernel.close();
  await rm(directory, { recursive: true });
  await lab.close();
});

/** Starts the program in the node's namespace. */
function start(): void {
  const flags = [`--manifests=${directory}`, '--hostname-override=node'];
  const cidrs = '--cluster-cidr=10.244.0.0/16,fd00:244::/32';
  // Limits of the machine are not a namespace's to set.
  const limits = ['max-per-core', 'tcp-timeout-established', 'tcp-timeout-close-wait'];
  const alone = limits.map((limit) => `--conntrack-${limit}=0`);
  const program = [process.execPath, main, ...flags, cidrs, ...alone];
  running = spawn('ip', ['netns', 'exec', lab.node.namespace, ...program], { stdio: 'ignore' });
}

async function kill(): Promise<void> {
  const child = running;
  running = undefined;
  if (child === undefined || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}

const otherIp = (i: number) => ({
  IPv4: `10.96.${1 + (i >> 8)}.${i & 255}`,
  IPv6: `fd00:96::1:${i.toString(16)}`,
});

/** Many Services, so that a load takes several batches; `web` is the one that is connected to. */
async function write(pods: readonly ActorName[], others: number): Promise<void> {
  const objects: KubernetesObject[] = [
    ...BASELINE,
    service('web', { clusterIp: clusterIp(10), ports: [{ port: 80 }] }),
    ...slices('web', pods),
  ];
  for (let i = 0; i < others; i += 1) {
    objects.push(service(`other-${i}`, { clusterIp: otherIp(i), ports: [{ port: 80 }] }));
    objects.push(...slices(`other-${i}`, pods));
  }
  const path = join(directory, 'cluster.json');
  await writeFile(
    `${path}.new`,
    JSON.stringify({ kind: 'List', apiVersion: 'v1', items: objects }),
  );
  await rename(`${path}.new`, path);
}

/**
 * Both tables as nft lists them; objects and elements sorted, their order has no meaning. Nor has
 * the owner: a process that finds all in place may not have taken the table over yet.
 */
async function ruleset(): Promise<string> {
  const tables = await Promise.all(
    ['ip', 'ip6'].map((family) => lab.node.run(['nft', 'list', 'table', family, tableName])),
  );
  return tables
    .flatMap((table) => withoutOwner(table).split('\n\n').map(sortedElements).sort())
    .join('\n\n');
}

function sortedElements(listing: string): string {
  const elements = /elements = \{([^}]*)\}/g;
  const sorted = listing.replace(elements, (_, list: string) =>
    list
      .split(',')
      .map((one) => one.trim())
      .sort()
      .join('\n'),
  );
  return sorted.replace(/^table .*|^\}\n/gm, '').trim();
}

/** Polls until the element shows; the deadline is generous, the machine may be busy or emulated. */
async function until(done: () => Promise<boolean>, what: string): Promise<void> {
  for (let attempt = 0; attempt < 3600; attempt += 1) {
    if (await done()) return;
    await sleep(50);
  }
  throw new Error(`not within 3 minutes: ${what}`);
}

/** All Services go to the treatment of this many endpoints, in both families. */
async function converged(pods: number, others: number): Promise<void> {
  await until(
    async () => {
      const found = await Promise.all([verdicts('IPv4'), verdicts('IPv6')]);
      const isFull = found.every((text) => {
        return text.split(`cluster-${pods}`).length - 1 === others + 1;
      });
      // The base chains of a first load are last, all together, but for those of kube-proxy.
      const chains = ['ip', 'ip6'].map((f) => lab.node.run(['nft', 'list', 'chains', f]));
      return isFull && (await Promise.all(chains)).every((text) => text.includes('KUBE-FORWARD'));
    },
    `${others + 1} Services go to cluster-${pods}`,
  );
}

/** The entries of the map `services`, which hold the names of chains. */
async function verdicts(family: Family): Promise<string> {
  const definition = setDefinitions(family).services;
  const { keyLength, dataLength } = fieldsOfSet(family, tableName, definition);
  const place = { family: NFPROTO[family], table: tableName, set: definition.name };
  const shape = entryShape(definition);
  const request = { kind: 'elementsDump', ...place, shape, keyLength, dataLength } as const;
  const { records } = await kernel.dump(request);
  const entries = records.map((record) => (record.kind === 'elements' ? record.entries : ''));
  return entries.map((bytes) => Buffer.from(bytes).toString('latin1')).join('');
}

test('established connections outlive the process, and the next one writes nothing', async () => {
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, podPort);
  await write(['pod-a'], 20);
  start();
  await converged(1, 20);
  const { client } = lab.actors;
  expect(await client.open('kept', attempt)).toMatchObject({ kind: 'answered', by: 'pod-a' });

  await kill();
  expect(await client.resume('kept', answerMs)).toMatchObject({ kind: 'answered', by: 'pod-a' });
  expect(await client.open('new', attempt)).toMatchObject({ kind: 'answered', by: 'pod-a' });

  // Nothing but to take over the tables, where these have owners (Linux 6.9).
  const taken = (await kernel.generation()) + (await orphans(kernel));
  start();
  await becomesReady({ run: (program, args) => lab.node.run([program, ...args]) });
  await until(async () => (await kernel.generation()) >= taken, 'the tables are taken over');
  // Long enough for what it would write after that.
  await sleep(1500);
  expect(await kernel.generation()).toBe(taken);
  expect(await client.resume('kept', answerMs)).toMatchObject({ kind: 'answered', by: 'pod-a' });
});

test('after a kill at any moment, the next process reaches the state that a fresh one writes', async () => {
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, podPort);
  await lab.actors['pod-b'].listen('TCP', POD_B_IP.IPv4, podPort);
  const others = 400;
  for (const delayMs of [300, 420, 480, 540, 600, 700, 900]) {
    await write(delayMs % 40 === 0 ? ['pod-a'] : ['pod-a', 'pod-b'], others);
    start();
    await sleep(delayMs);
    await kill();
  }
  await write(['pod-a', 'pod-b'], others);
  start();
  await converged(2, others);
  const tally = await lab.actors.client.connect(attempt, 40);
  expect(tally.map(({ outcome }) => outcome.kind)).toEqual(['answered', 'answered']);
  // What the last configuration no longer needs is deleted a little later.
  await until(async () => !(await ruleset()).includes('chain cluster-1-'), 'cluster-1 is gone');
  const found = await ruleset();
  await kill();

  await lab.node.run(['nft', 'flush', 'ruleset']);
  start();
  await converged(2, others);
  expect(indexless(await ruleset())).toBe(indexless(found));
});

/** Which endpoint has which index depends on history, and has no meaning. */
function indexless(listing: string): string {
  return listing.replace(/ \. 0x0000000[01] : /g, ' : ');
}
