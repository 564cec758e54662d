/**
 * Connect-time programs that a process has left end, in whatever order their configuration, their
 * mounts, the process and kube-proxy come and go: packets show which endpoint a client gets.
 */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, test as anyTest, beforeAll, beforeEach, expect } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { endUnused, findAttached } from '../../src/connect-time/maps/attached.ts';
import type { ConnectTimePaths } from '../../src/connect-time/maps/choice.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { type ActorName, FAMILIES, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, type KubernetesObject, service, settings, slices } from '../lab/objects.ts';
import { whoAnswers } from '../lab/who-answers.ts';
import { main } from '../process/main.ts';
import { vip } from './common.ts';
import { fairleadInside, type InsideOptions, type KillableProxy } from './fairlead-inside.ts';
import type { LogLine } from './fairlead-proxy.ts';

const test = anyTest.skipIf(!canTranslate());
/** As in a container without mounts. */
const nothingMounted: ConnectTimePaths = { directory: '/nowhere/fairlead', cgroup: undefined };
const detached = 'Detached connect-time programs that no process updates';
const foreign = 'Attached programs may be connect-time programs of an earlier process';
/** What is logged about programs that an earlier process has left. */
const aboutLeft: readonly LoggedMessage[] = [
  detached,
  foreign,
  'Removed connect-time programs',
  'Could not remove connect-time programs',
  'Connect-time programs that no process updates are attached',
  'Could not check for connect-time programs of an earlier process',
];

let lab: Lab;
let place: ConnectTimePlace;
let running: KillableProxy[] = [];
let lines: LogLine[] = [];

beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

beforeEach(async () => {
  lines = [];
  place = makeConnectTimePlace();
  for (const actor of ['node', 'pod-a', 'pod-b'] as const) place.include(lab.actors[actor].pid);
  for (const [pod, at] of [
    ['pod-a', POD_A_IP],
    ['pod-b', POD_B_IP],
  ] as const) {
    for (const family of FAMILIES) await lab.actors[pod].listen('TCP', at[family], 8080);
  }
});

afterEach(async () => {
  for (const proxy of running) await proxy.kill();
  running = [];
  await askKernel(lab.node, (kernel) => endUnused(kernel, place, false));
  await lab.reset();
  place.close();
});

function web(...pods: readonly ActorName[]): KubernetesObject[] {
  return [...BASELINE, service('web', { clusterIp: vip }), ...slices('web', pods)];
}

async function start(
  connectTime: 'off' | 'all',
  pod: ActorName,
  paths: ConnectTimePaths = place,
  options: InsideOptions = {},
): Promise<KillableProxy> {
  const log = (line: LogLine) => void lines.push(line);
  const proxy = fairleadInside('nftables', { connectTime: paths, log, ...options });
  const its = { ...settings, connectTime, ownTables: false };
  const started = await proxy.start(lab.node, its, web(pod));
  running.push(started);
  return started;
}

/** Who answers at the ClusterIP of both families, to the node and to a pod. */
async function answers(): Promise<string[]> {
  const found = new Set<string>();
  for (const client of ['node', 'pod-a'] as const) {
    for (const family of FAMILIES) {
      const to = { address: vip[family], port: 80 };
      const all = await whoAnswers(lab.actors[client], to, { connections: 4 });
      for (const one of all) found.add(one);
    }
  }
  return [...found];
}

async function attached(): Promise<number> {
  const found = await askKernel(lab.node, (kernel) => findAttached(kernel, nothingMounted));
  return found.kind === 'ours' ? found.programs.length : Number.NaN;
}

/** The program on the node. `mounted`: the bpf file system of the place is where the node has its own. */
async function program(mounted: boolean, ...args: readonly string[]) {
  const mount = mounted ? `mount --bind ${dirname(place.directory)} /sys/fs/bpf && ` : '';
  const script = `${mount}exec ${process.execPath} ${main} ${args.join(' ')}`;
  const argv = ['netns', 'exec', lab.node.namespace, 'sh', '-c', script];
  return promisify(execFile)('ip', argv).then(
    ({ stdout }) => ({ code: 0, stdout, stderr: '' }),
    ({ code, stderr, stdout }) => ({
      code: Number(code),
      stdout: String(stdout),
      stderr: String(stderr),
    }),
  );
}

/** What kube-proxy would have: rules at its hooks that lead the ClusterIPs to pod-b. */
async function kubeProxyServes(): Promise<void> {
  const rules = FAMILIES.map((family) => {
    const [table, address, to] =
      family === 'IPv4' ? ['ip', vip.IPv4, POD_B_IP.IPv4] : ['ip6', vip.IPv6, `[${POD_B_IP.IPv6}]`];
    const rule = `${table} daddr ${address} tcp dport 80 dnat to ${to}:8080`;
    const hook = (at: string, priority: string) =>
      `chain ${at} { type nat hook ${at} priority ${priority}; ${rule}; };`;
    return `table ${table} kube-proxy { ${hook('prerouting', 'dstnat')} ${hook('output', '-100')} }`;
  });
  await lab.node.run(['nft', rules.join('\n')]);
}

test('switched off together with its mounts, connect time leads no client to removed endpoints', async () => {
  const before = await start('all', 'pod-a');
  expect(await answers()).toEqual(['pod-a']);
  expect(await attached()).toBe(6);
  await before.stop();
  const after = await start('off', 'pod-b', nothingMounted);
  expect(await answers()).toEqual(['pod-b']);
  expect(await attached()).toBe(0);
  expect(lines.filter(({ msg }) => msg === detached)).toHaveLength(1);
  await after.stop();
  // What has no mount leaves the pins; whoever has it takes them over.
  expect(readdirSync(place.directory)).not.toEqual([]);
  await start('all', 'pod-b');
  expect(await answers()).toEqual(['pod-b']);
  expect(await attached()).toBe(6);
});

test('switched off with its mounts in place, connect time leaves nothing, and a restart finds nothing', async () => {
  const before = await start('all', 'pod-a');
  await before.kill();
  const after = await start('off', 'pod-b');
  expect(await answers()).toEqual(['pod-b']);
  expect([await attached(), place.left()]).toEqual([0, []]);
  await after.stop();
  lines = [];
  await start('off', 'pod-b');
  expect(lines.filter(({ msg }) => aboutLeft.includes(msg))).toEqual([]);
});

test('pins of names in later versions, and others in no visible folder, are detached', async () => {
  const before = await start('all', 'pod-a');
  await before.kill();
  renameSync(join(place.directory, 'connect4'), join(place.directory, 'later4'));
  renameSync(place.directory, join(dirname(place.directory), 'elsewhere'));
  await start('all', 'pod-b');
  expect(await answers()).toEqual(['pod-b']);
  expect(await attached()).toBe(6);
  expect(lines.filter(({ msg }) => msg === detached)).toHaveLength(1);
});

test('after a kill and a start of kube-proxy, the command ends connect time without touching rules', async () => {
  const before = await start('all', 'pod-a');
  await before.kill();
  await kubeProxyServes();
  const rules = await lab.node.run(['nft', 'list', 'ruleset']);
  const listed = await program(true, 'connect-time', 'remove', '--dry-run');
  expect(listed).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('/sys/fs/bpf/fairlead'),
  });
  expect(await answers()).toEqual(['pod-a']);
  const removed = await program(true, 'connect-time', 'remove');
  expect(removed).toMatchObject({ code: 0, stdout: 'removed directory /sys/fs/bpf/fairlead\n' });
  expect(await answers()).toEqual(['pod-b']);
  expect([await attached(), place.left()]).toEqual([0, []]);
  expect(await lab.node.run(['nft', 'list', 'ruleset'])).toBe(rules);
  for (const option of ['', '--dry-run']) {
    const again = await program(true, 'connect-time', 'remove', option);
    expect(again).toMatchObject({ code: 0, stdout: 'nothing to remove\n' });
  }
});

test('after a kill and a start of kube-proxy, the expired lease ends connect time', async () => {
  const before = await start('all', 'pod-a', { ...place, leaseMs: 3000 });
  expect(await answers()).toEqual(['pod-a']);
  await before.kill();
  await kubeProxyServes();
  while ((await answers()).join() !== 'pod-b');
  // They are still there.
  expect(await attached()).toBe(6);
  expect(place.left()).not.toEqual([]);
  await lab.node.run(['nft', 'flush table ip kube-proxy; flush table ip6 kube-proxy']);
  await start('all', 'pod-a');
  while ((await answers()).join() !== 'pod-a');
  expect(lines.filter(({ msg }) => msg === detached)).toEqual([]);
});

test.each(['connect-time remove', '--cleanup'])(
  'connect time in %s needs no mount',
  async (words) => {
    const before = await start('all', 'pod-a');
    await before.kill();
    const { code, stdout } = await program(false, ...words.split(' '));
    expect(code).toBe(0);
    expect(stdout.match(/^removed program /gm)).toHaveLength(6);
    await kubeProxyServes();
    expect(await answers()).toEqual(['pod-b']);
    expect(existsSync(place.directory)).toBe(true);
  },
);

test('without CAP_SYS_ADMIN and the mount, a start reports attached programs', async () => {
  const before = await start('all', 'pod-a');
  await before.stop();
  const { cgroup } = place;
  const paths = { ...nothingMounted, anyCgroup: cgroup };
  const after = await start('off', 'pod-b', paths, { without: 'sys_admin' });
  expect(await after.metrics()).toContain('fairlead_connect_time_state{state="unknown"} 1');
  const told = lines.find(({ msg }) => msg === foreign);
  expect(told).toMatchObject({ level: 'warn', attached: 6 });
});

test('without CAP_SYS_ADMIN, but with the mount, a start detaches what an earlier process left', async () => {
  const before = await start('all', 'pod-a');
  await before.stop();
  await start('off', 'pod-b', { ...place, isMounted: true }, { without: 'sys_admin' });
  expect(await answers()).toEqual(['pod-b']);
  expect([await attached(), place.left()]).toEqual([0, []]);
});

test('the programs of another network namespace are not changed', async () => {
  await start('all', 'pod-a');
  const other = openKernel({
    netns: `/run/netns/${lab.node.namespace.replace(/-node$/, '-pod-a')}`,
  });
  const ending = await endUnused(other, nothingMounted, false).finally(() => other.close());
  expect(ending).toMatchObject({ detached: [], left: [] });
  expect(await attached()).toBe(6);
});
