/**
 * Versions take turns while connections are made without a pause, and translated when they are
 * made. The node and a pod connect; the servers are pods of this node and of another.
 */
import type { ChildProcess } from 'node:child_process';
import { renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, test as anyTest, beforeAll, beforeEach, expect } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { addressFamily } from '../../src/connect-time/maps/layout.ts';
import { askedOf, standardRoom } from '../../src/connect-time/maps/placement.ts';
import { applied } from '../conformance/ops.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { type Loading, type LoadResult, serveLoad, startLoad } from '../lab/load.ts';
import { SERVER_PORT } from '../lab/objects.ts';
import { until } from '../process/program.ts';
import { frontend, TranslatingNode } from './connect-time.ts';
import { needsPrevious, ruleset, sharesAddon, stop, type Version, writes } from './versions.ts';

const test = anyTest.skipIf(!canTranslate());

let lab: Lab;
let paths: ConnectTimePlace;
let node: TranslatingNode;
let servers: ChildProcess[] = [];
const loads: Loading[] = [];

beforeAll(async () => {
  needsPrevious();
  lab = await createLab();
});
afterAll(() => lab.close());

beforeEach(async () => {
  paths = makeConnectTimePlace();
  node = await TranslatingNode.make(lab, paths);
  node.place.apply(['pod-a', 'pod-c']);
  // All connections would fill the table of connection tracking.
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_tcp_timeout_close=1']);
  const pods = [lab.actors['pod-a'], lab.actors['pod-c']];
  servers = await Promise.all(pods.map((pod) => serveLoad(pod, SERVER_PORT)));
});
afterEach(async () => {
  // Those of a test that has failed.
  await Promise.allSettled(loads.splice(0).map((one) => one.end()));
  for (const server of servers) server.kill();
  await askKernel(lab.node, (kernel) => removeConnectTime(kernel, paths.directory));
  const left = paths.left();
  await lab.reset();
  paths.close();
  expect(left).toEqual([]);
});

/** Connections of the node and of a pod, until they are ended. */
function startLoads(): void {
  const { cgroup } = paths;
  for (const client of ['node', 'pod-b'] as const) {
    loads.push(startLoad(lab.actors[client], frontend, { cgroup, clients: 1 }));
  }
}

/** Ends them: each has connected, none has failed, and rules have handled none. */
async function endWell(): Promise<void> {
  const results = await Promise.all(loads.splice(0).map((one) => one.end()));
  const counts = results.map(({ made }) => made.length);
  const byRules = await node.byRules();
  console.log(`${counts.join(' and ')} connections; by rules: ${byRules}`);
  expect({ failed: results.flatMap(failuresOf), byRules }).toEqual({ failed: [], byRules: 0 });
  expect(Math.min(...counts)).toBeGreaterThan(100);
}

/** When each began, in milliseconds since the first, and why it failed. */
function failuresOf({ made }: LoadResult): string[] {
  const firstMs = made[0]?.startedMs ?? 0;
  const failed = made.filter(({ failure }) => failure !== undefined);
  return failed.map((one) => `${one.failure} after ${(one.startedMs - firstMs).toFixed(1)} ms`);
}

test('versions alternate: no connection fails or meets the rules, and nothing is written', async () => {
  let running = await node.start('previous');
  startLoads();
  const kept = async () => ({
    rules: await ruleset(node.place),
    // Another addon may have other programs.
    ...(sharesAddon() && { programs: await node.programs(), elements: await node.elements() }),
  });
  const first = await kept();
  for (const version of ['current', 'previous', 'current'] as const) {
    await stop(running);
    running = await node.start(version);
    expect(await writes(node.place), version).toBe(0);
    expect(await kept(), version).toEqual(first);
  }
  await endWell();
  expect(await kept()).toEqual(first);
  await stop(running);
});

test('versions whose maps have another form alternate: no connection fails or meets the rules', async () => {
  let running = await node.start('other-room');
  startLoads();
  let replaced = await node.programs();
  for (const version of ['current', 'other-room', 'current', 'other-room'] satisfies Version[]) {
    await stop(running);
    running = await node.start(version);
    await until(() => node.hasReplaced(replaced), `${version} has replaced all programs`);
    replaced = await node.programs();
    console.log(`${version} serves; connections by rules: ${await node.byRules()}`);
    expect(await writes(node.place), version).toBe(0);
  }
  await endWell();
  await stop(running);
});

/** Attaches a program that has a pin of a name which no version knows. */
async function attachUnknown(): Promise<void> {
  const directory = join(dirname(paths.directory), 'newer');
  const placement = {
    ...paths,
    directory,
    excludes: false,
    reach: 'all',
    room: standardRoom,
  } as const;
  const its = askedOf({ ...placement, secret: new Uint8Array(16), leaseMs: 1 }, false);
  const at = { directory, family: addressFamily.IPv4 };
  await askKernel(lab.node, async (kernel) => {
    const added = { ...at, ...its };
    await applied(kernel, { kind: 'bpfMapsAdd', ...added }, { kind: 'bpfLinksAdd', ...added });
    renameSync(join(directory, 'connect4'), join(paths.directory, 'sendmsg4'));
    await removeConnectTime(kernel, directory);
  });
}

test.each(['previous', 'current'] as const)(
  'a program that only a newer version has is detached by a rollback to the %s version',
  async (version) => {
    const newer = await node.start('current');
    startLoads();
    const before = await node.programs();
    await stop(newer);
    await attachUnknown();
    expect(await node.attached()).toBe(before.size + 1);
    const running = await node.start(version);
    const isDetached = async () => (await node.attached()) === before.size;
    await until(isDetached, 'the program is detached');
    // Another addon may have other programs.
    if (version === 'current' || sharesAddon()) expect(await node.programs()).toEqual(before);
    await endWell();
    await stop(running);
  },
);
