/** Pods that are excluded from connect-time translation; a directory holds their cgroups. */
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import type { PodSink, WatchPods } from '../../../src/source/pods.ts';
import { configOf, Running, serveWeb } from '../agent/running.ts';
import { asked, said } from '../ask/asking.ts';
import { quiet } from '../sync/double.ts';
import { turnsUntil } from '../turns.ts';

const flags = ['--manifests=/anywhere', '--connect-time=all'];
const excluding = '--connect-time-excluded-pods=mesh=on';
const directory = '/nowhere/bpf/fairlead';

let cgroup: string;
beforeEach(() => {
  cgroup = mkdtempSync(join(tmpdir(), 'fairlead-excluded-'));
  mkdirSync(join(cgroup, 'kubepods.slice'));
  onTestFinished(() => rmSync(cgroup, { recursive: true }));
});

/** Makes the cgroup of a pod, and returns its number. */
function folder(id: string): bigint {
  const path = join(cgroup, 'kubepods.slice', `kubepods-pod${id}.slice`);
  mkdirSync(path, { recursive: true });
  return statSync(path, { bigint: true }).ino;
}

/** A watch that tests speak through. */
class SpokenPods {
  readonly selectors: string[] = [];
  sink: PodSink | undefined;

  readonly watch: WatchPods = (selector, sink, signal) => {
    this.selectors.push(selector);
    this.sink = sink;
    return new Promise((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
  };

  say(...ids: string[]): void {
    const pods = ids.map((id) => [`shop/${id}`, { key: `shop/${id}`, id }] as const);
    this.sink!.chosen(new Map(pods));
  }
}

interface Given {
  readonly kernel?: Running['kernel'];
  /** Whether the source has pods. */
  readonly watch?: 'watched' | 'absent';
  /** See `ExcludedPodsOptions.excludedCgroupsMax`. */
  readonly cgroupsMax?: number;
}

interface Started {
  readonly app: Running;
  readonly pods: SpokenPods;
}

async function start(config: Config, given: Given = {}): Promise<Started> {
  const pods = new SpokenPods();
  const app = new Running(config);
  const { cgroupsMax, kernel, watch = 'watched' } = given;
  const connectTime = { directory, cgroup };
  await app.start({
    connectTime,
    ...(watch === 'watched' && { watchPods: pods.watch }),
    ...(kernel && { kernel }),
    ...(cgroupsMax !== undefined && { excludedCgroupsMax: cgroupsMax }),
  });
  await serveWeb(app);
  return { app, pods };
}

/** Numbers in the map; 0 says that all are there. */
function excluded({ kernel }: Running, map = 'excluded4'): bigint[] {
  const keys = [...(kernel.bpf.maps.get(`${directory}/${map}`)?.keys() ?? [])];
  return keys.map((key) => Buffer.from(key, 'hex').readBigUInt64LE()).sort(byNumber);
}

function byNumber(a: bigint, b: bigint): number {
  return a < b ? -1 : 1;
}

/** Until the map of each family has these, and what says that it is all. */
async function untilExcluded(app: Running, ...numbers: bigint[]): Promise<void> {
  const all = [0n, ...numbers].sort(byNumber);
  await turnsUntil(() =>
    ['excluded4', 'excluded6'].every((map) => isDeepStrictEqual(excluded(app, map), all)),
  );
  await quiet();
}

async function metrics(app: Running, name: string): Promise<string[]> {
  const text = await (await app.get('metrics', '/metrics')).text();
  return text.split('\n').filter((line) => line.startsWith(name) && !line.endsWith(' 0'));
}

it('translates only the node’s own connections until the pods are known, and serves anyway', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  expect(pods.selectors).toEqual(['mesh=on']);
  expect([...app.kernel.bpf.links.values()]).toMatchObject([{ excludes: 1 }, { excludes: 1 }]);
  expect(excluded(app)).toEqual([]);
  const state = 'fairlead_connect_time_state';
  expect(await metrics(app, state)).toEqual([`${state}{state="host"} 1`]);
  pods.say();
  await untilExcluded(app);
  expect(await metrics(app, state)).toEqual([`${state}{state="all"} 1`]);
});

it('follows changes of pods and their cgroups', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  const a = folder('aa');
  pods.say('aa', 'bb');
  await untilExcluded(app, a);
  const name = 'fairlead_connect_time_excluded_pods';
  expect(await metrics(app, name)).toEqual([
    `${name}{cgroup="found"} 1`,
    `${name}{cgroup="missing"} 1`,
  ]);
  const { remarks } = (await asked(app, 'status')).body;
  expect(remarks).toContain('Pods to exclude from connect time without a cgroup: 1.');
  const { stdout } = await said(app, 'status');
  expect(stdout).toMatch(/Connect time: +all; .*; 1 pod excluded, 1 without a cgroup\n/);
  const b = folder('bb');
  await untilExcluded(app, a, b);
  pods.say('bb');
  await untilExcluded(app, b);
  pods.say();
  await untilExcluded(app);
});

it.each([
  [0, 50],
  // After pauses of 50, 100 … 3,200 ms.
  [6350, 5000],
])('a pod without a cgroup is looked for again, after %i ms in %i', async (sinceMs, restMs) => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  // The kernel reports nothing of a folder that is not there yet.
  rmSync(join(cgroup, 'kubepods.slice'), { recursive: true });
  pods.say('aa');
  await untilExcluded(app);
  await app.clock.pass(sinceMs);
  const a = folder('aa');
  await app.clock.pass(restMs - 1);
  expect(excluded(app)).toEqual([0n]);
  await app.clock.pass(1);
  await untilExcluded(app, a);
});

it('knows the excluded cgroups after a restart, and writes nothing', async () => {
  const config = () => configOf(...flags, excluding);
  const { app, pods } = await start(await config());
  const a = folder('aa');
  pods.say('aa');
  await untilExcluded(app, a);
  await app.stop();
  const { writes } = app.kernel;
  const again = await start(await config(), { kernel: app.kernel });
  expect(await metrics(again.app, 'fairlead_connect_time_state')).toEqual([
    'fairlead_connect_time_state{state="all"} 1',
  ]);
  again.pods.say('aa');
  const found = ['fairlead_connect_time_excluded_pods{cgroup="found"} 1'];
  await turnsUntil(async () => {
    // Metrics are made once a second.
    await again.app.clock.pass(1000);
    const pods = await metrics(again.app, 'fairlead_connect_time_excluded_pods');
    return isDeepStrictEqual(pods, found);
  });
  await quiet();
  // The lease of each family.
  expect(app.kernel.writes).toBe(writes + 2);
  again.pods.say();
  await turnsUntil(() => isDeepStrictEqual(excluded(app), [0n]));
});

it('reports that pods cannot be watched, and when they are known after all', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  pods.sink!.unavailable('pods is forbidden');
  const unknown = app.lines.find(({ msg }) => String(msg).includes('Could not read the pods'));
  expect(unknown).toMatchObject({ level: 'warn', err: 'pods is forbidden' });
  expect(unknown?.fallback).toBe('rules translate the connections of all pods');
  const { body } = await asked(app, 'status');
  expect(body).toMatchObject({
    healthy: true,
    remarks: expect.arrayContaining([
      'Pods to exclude from connect time are not known: pods is forbidden.',
    ]),
    connectTime: { state: 'host', excludedPods: { selector: 'mesh=on', excluded: 0 } },
  });
  expect((await said(app, 'status')).stdout).toMatch(/Connect time: +host; .*; .* not known\n/);
  pods.say();
  await untilExcluded(app);
  expect(app.logged).toContain('Read the pods to exclude from connect-time translation');
});

it('reports that manifests have no pods', async () => {
  const config = await configOf(...flags, excluding);
  const { app } = await start(config, { watch: 'absent' });
  const unknown = app.lines.find(({ msg }) => String(msg).includes('Could not read the pods'));
  expect(unknown).toMatchObject({ err: 'they do not come from an API server' });
});

it('follows the configuration: another selector, none, and one again', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  const [a, b] = [folder('aa'), folder('bb')];
  pods.say('aa');
  await untilExcluded(app, a);
  await app.app.reconfigure(await configOf(...flags, '--connect-time-excluded-pods=other'));
  await quiet();
  expect(pods.selectors).toEqual(['mesh=on', 'other']);
  // Until the new list is there, the old one holds.
  await untilExcluded(app, a);
  pods.say('bb');
  await untilExcluded(app, b);
  await app.app.reconfigure(await configOf(...flags));
  await turnsUntil(() => excluded(app).length === 0);
  await quiet();
  expect([...app.kernel.bpf.links.values()]).toMatchObject([{ excludes: 0 }, { excludes: 0 }]);
  await app.app.reconfigure(await configOf(...flags, excluding));
  await quiet();
  expect(excluded(app)).toEqual([]);
  pods.say('aa', 'bb');
  await untilExcluded(app, a, b);
});

it('has a limited number of cgroups, and reports when there are more', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding), { cgroupsMax: 3 });
  const ids = ['aa', 'bb', 'cc', 'dd'];
  const numbers = ids.map(folder);
  pods.say(...ids);
  const warning = 'Too many pods to exclude from connect-time translation';
  await turnsUntil(() => app.logged.includes(warning));
  await turnsUntil(() => excluded(app).length === 4);
  expect(excluded(app)).toContain(0n);
  expect(numbers).toEqual(expect.arrayContaining(excluded(app).slice(1)));
  await quiet();
  expect(app.app.upToDate).toBe(true);
});

it('repairs changes of the map by another program', async () => {
  const { app, pods } = await start(await configOf(...flags, excluding));
  const a = folder('aa');
  pods.say('aa');
  await untilExcluded(app, a);
  const map = app.kernel.bpf.maps.get(`${directory}/excluded4`)!;
  const [first] = map.keys();
  map.delete(first!);
  map.set('0700000000000000', '00000000');
  await app.clock.pass(3_600_000);
  await untilExcluded(app, a);
});
