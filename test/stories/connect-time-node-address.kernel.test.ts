/**
 * A cache of the node at the ClusterIP, as node-local DNS has it: an address of the node, and
 * rules that keep its packets from being tracked. Connections end there, with and without
 * translation at connect time.
 */
import { afterAll, afterEach, test as anyTest, beforeAll, expect } from 'vitest';
import { removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { FAMILIES, type Family, POD_A_IP } from '../lab/addresses.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, slices, settings as standard } from '../lab/objects.ts';
import { answerMs } from '../lab/pace.ts';
import { serverOf } from '../lab/who-answers.ts';
import { vip } from './common.ts';
import { cleanup, fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

const test = anyTest.skipIf(!canTranslate());

const prefixes = { IPv4: 32, IPv6: 128 } as const;
const programs = { IPv4: 'iptables', IPv6: 'ip6tables' } as const;
const untracked = [
  ['PREROUTING', '-d', '--dport'],
  ['OUTPUT', '-d', '--dport'],
  ['OUTPUT', '-s', '--sport'],
] as const;

let lab: Lab;
let place: ConnectTimePlace;
let running: MeasuredProxy | undefined;

beforeAll(async () => {
  lab = await createLab();
  place = makeConnectTimePlace();
  for (const actor of ['node', 'pod-b'] as const) place.include(lab.actors[actor].pid);
});
afterAll(async () => {
  await lab.close();
  place.close();
});
afterEach(async () => {
  await running?.stop();
  const kernel = openKernel();
  await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
  for (const family of FAMILIES) {
    const argv = ['ip', 'addr', 'del', `${vip[family]}/${prefixes[family]}`, 'dev', 'lo'];
    await lab.actors.node.run(argv).catch(() => {});
  }
  await cleanup(lab.node);
  await lab.reset();
});

async function start(connectTime: 'off' | 'all'): Promise<void> {
  await running?.stop();
  const proxy = fairlead('nftables', { connectTime: place });
  const settings = {
    ...standard,
    connectTime,
  } as const;
  const objects = [...BASELINE, service('web', { clusterIp: vip }), ...slices('web', ['pod-a'])];
  running = await proxy.start(lab.node, settings, objects);
}

async function cache(family: Family): Promise<void> {
  const { node } = lab.actors;
  const at = `${vip[family]}/${prefixes[family]}`;
  await node.run(['ip', 'addr', 'add', at, 'dev', 'lo', ...(family === 'IPv6' ? ['nodad'] : [])]);
  for (const [chain, at, port] of untracked) {
    const match = [at, vip[family], '-p', 'tcp', port, '80'];
    const rule = ['-w', '-t', 'raw', '-I', chain, ...match, '-j', 'NOTRACK'];
    await node.run([programs[family], ...rule]);
  }
  await node.listen('TCP', vip[family], 80);
}

async function answers(): Promise<string[]> {
  const found: string[] = [];
  for (const actor of ['node', 'pod-b'] as const) {
    for (const family of FAMILIES) {
      const to = { address: vip[family], port: 80 };
      const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
      const tally = await lab.actors[actor].connect(attempt, 2);
      found.push(...tally.map(({ outcome }) => serverOf(outcome)));
    }
  }
  return [...new Set(found)];
}

test.each(['off', 'all'] as const)(
  'a cache at the ClusterIP answers, and the endpoint before it: connect time %s',
  async (connectTime) => {
    for (const family of FAMILIES) await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await start(connectTime);
    expect(await answers()).toEqual(['pod-a']);
    for (const family of FAMILIES) await cache(family);
    await start(connectTime);
    expect(await answers()).toEqual(['node']);
  },
);
