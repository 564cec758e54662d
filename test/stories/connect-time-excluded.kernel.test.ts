/** Pods that are excluded from connect-time translation: rules translate their connections. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, test as anyTest, beforeAll, beforeEach, expect, vi } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { openConntrack } from '../../src/kernel/conntrack.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { parseAddress } from '../../src/net/address.ts';
import type { PodSink } from '../../src/source/pods.ts';
import {
  type ActorName,
  FAMILIES,
  type Family,
  NODE_IP,
  POD_A_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { notingKernel } from '../lab/noting-kernel.ts';
import { BASELINE, service, slices, settings as standard } from '../lab/objects.ts';
import { answerMs, hangsMs } from '../lab/pace.ts';
import { vip } from './common.ts';
import { fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

const test = anyTest.skipIf(!canTranslate());

type Client = Extract<ActorName, 'node' | 'pod-a' | 'pod-b'>;
const addresses = { node: NODE_IP, 'pod-a': POD_A_IP, 'pod-b': POD_B_IP } as const;
const ids = {
  node: '0a1b2c3d-0d3b-4c57-9f0e-2f3a4b5c6d7e',
  'pod-a': '1a1b2c3d-0d3b-4c57-9f0e-2f3a4b5c6d7e',
  'pod-b': '2a1b2c3d-0d3b-4c57-9f0e-2f3a4b5c6d7e',
} as const satisfies Record<Client, string>;

const settings = {
  ...standard,
  connectTime: 'all',
  connectTimeExcludedPods: 'mesh=on',
  ownTables: false,
} as const;

let lab: Lab;
let place: ConnectTimePlace;
let running: MeasuredProxy | undefined;
/** Receives the pods that the API server would report. */
let pods: PodSink;
/** See `notingKernel`. */
let sent: string[];

beforeAll(async () => {
  lab = await createLab();
  place = makeConnectTimePlace();
});
afterAll(async () => {
  await lab.close();
  place.close();
});

beforeEach(async () => {
  place.include(lab.actors['pod-a'].pid);
  place.include(lab.actors.node.pid, podFolder('node', 'kubepods.slice/kubepods-pod%.slice'));
  const burstable = 'kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod%.slice';
  place.include(lab.actors['pod-b'].pid, podFolder('pod-b', burstable));
  for (const family of FAMILIES) await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
});
afterEach(async () => {
  await stop();
  const kernel = openKernel();
  await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
  await lab.reset();
});

/** Makes the cgroup of a container in a pod. */
function podFolder(client: Client, path: string): string {
  return place.folder(`${path.replace('%', ids[client].replaceAll('-', '_'))}/cri-1.scope`);
}

async function start(): Promise<void> {
  sent = [];
  const proxy = fairlead('nftables', {
    connectTime: place,
    kernel: (kernel) => notingKernel(kernel, sent),
    watchPods: (_, sink, signal) => {
      pods = sink;
      return new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    },
  });
  const objects = [...BASELINE, service('web', { clusterIp: vip }), ...slices('web', ['pod-a'])];
  running = await proxy.start(lab.node, settings, objects);
}

async function stop(): Promise<void> {
  await running?.stop();
  running = undefined;
}

/** The API server reports that these pods have the labels. */
function choose(...clients: readonly Client[]): void {
  const chosen = clients.map((name) => [name, { key: `shop/${name}`, id: ids[name] }] as const);
  pods.chosen(new Map(chosen));
}

const attempts = 3;

/** Who translates connections of the client to the ClusterIP. */
async function translator(client: Client, family: Family): Promise<'rules' | 'program'> {
  const before = await tracked(client, family);
  const to = { address: vip[family], port: 80 };
  const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
  for (const { outcome } of await lab.actors[client].connect(attempt, attempts)) {
    expect(outcome).toMatchObject({ kind: 'answered', by: 'pod-a' });
  }
  const more = (await tracked(client, family)) - before;
  expect([0, attempts]).toContain(more);
  return more === 0 ? 'program' : 'rules';
}

/** Connections of the client to the ClusterIP that the node's connection tracking knows. */
async function tracked(client: Client, family: Family): Promise<number> {
  const conntrack = openConntrack({ netns: lab.node.namespacePath });
  const destination = { address: parseAddress(vip[family])!.bytes, port: 80 };
  const request = { family, protocol: 'TCP', state: 'any', zone: 0, destination } as const;
  const { entries } = await conntrack.dump(request).finally(() => conntrack.close());
  const from = parseAddress(addresses[client][family])!.bytes;
  const isFrom = (index: number) =>
    Buffer.compare(entries.address(index, 'originalSource'), from) === 0;
  return entries.filter(isFrom).length;
}

async function untilTranslated(by: Readonly<Partial<Record<Client, string>>>): Promise<void> {
  const found = async (family: Family) => {
    const all: Partial<Record<Client, string>> = {};
    for (const client of Object.keys(by) as Client[])
      all[client] = await translator(client, family);
    return all;
  };
  for (const family of FAMILIES) {
    await vi.waitFor(async () => expect(await found(family)).toEqual(by), hangsMs);
  }
}

test('only the node’s own connections are translated until the pods are known; then labels decide', async () => {
  await start();
  await untilTranslated({ node: 'program', 'pod-b': 'rules', 'pod-a': 'rules' });
  choose();
  await untilTranslated({ node: 'program', 'pod-b': 'program', 'pod-a': 'program' });
  choose('pod-b');
  await untilTranslated({ node: 'program', 'pod-b': 'rules', 'pod-a': 'program' });
  // Its processes are in the node's network namespace, as with hostNetwork.
  choose('node');
  await untilTranslated({ node: 'rules', 'pod-b': 'program', 'pod-a': 'program' });
  choose();
  await untilTranslated({ node: 'program', 'pod-b': 'program' });
});

test('pods stay excluded without the process, a restart writes nothing, and all can be removed', async () => {
  await start();
  choose('pod-b');
  await untilTranslated({ 'pod-b': 'rules', 'pod-a': 'program' });
  await stop();
  await untilTranslated({ 'pod-b': 'rules', 'pod-a': 'program' });
  await start();
  choose('pod-b', 'node');
  await untilTranslated({ 'pod-b': 'rules', node: 'rules', 'pod-a': 'program' });
  expect(sent).toEqual(['bpfElementsAdd', 'bpfElementsAdd']);
  await stop();
  await start();
  expect(sent).toEqual([]);
  await stop();
  const kernel = openKernel();
  await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
  expect(place.left()).toEqual([]);
});

test('a version without excluded pods is replaced without a gap', async () => {
  await start();
  choose('pod-b');
  await untilTranslated({ 'pod-b': 'rules', 'pod-a': 'program' });
  await stop();
  for (const name of ['excluded4', 'excluded6']) rmSync(join(place.directory, name));
  await start();
  // Maps are added, and programs replaced: nothing of the rest is written.
  expect(sent.sort()).toEqual(['bpfLinksAdd', 'bpfLinksAdd', 'bpfMapsAdd', 'bpfMapsAdd']);
  await untilTranslated({ node: 'program', 'pod-b': 'rules', 'pod-a': 'rules' });
  choose('pod-b');
  await untilTranslated({ 'pod-b': 'rules', 'pod-a': 'program' });
});
