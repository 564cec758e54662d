/**
 * Established connections by the flowtable: the same answers as by the rules, to the end. The
 * kernels of the VM suite have flowtables.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  type ActorName,
  addressOf,
  clusterIp,
  FAMILIES,
  type Family,
  POD_B_IP,
} from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  DEFAULT_CLUSTER_CIDR,
  type KubernetesObject,
  SERVER_PORT,
  service,
  slices,
} from '../lab/objects.ts';
import type { Protocol } from '../lab/outcome.ts';
import { paced } from '../lab/pace.ts';
import type { RunningProxy } from '../lab/proxy.ts';
import { serverOf } from '../lab/who-answers.ts';
import { until } from '../process/program.ts';
import { cleanup, type FairleadOptions, fairlead } from './fairlead-proxy.ts';

const settings = {
  detectLocalMode: 'ClusterCIDR',
  clusterCIDR: DEFAULT_CLUSTER_CIDR,
  fastPath: 'flowtable',
  fastPathPackets: 2,
} as const;

const vip = clusterIp(10);
const ports = [
  { name: 'tcp', port: 80 },
  { name: 'udp', port: 53, protocol: 'UDP' },
] as const;
const slicePorts = [
  { name: 'tcp', port: SERVER_PORT, protocol: 'TCP' },
  { name: 'udp', port: SERVER_PORT, protocol: 'UDP' },
] as const;

function behind(...pods: readonly ActorName[]): KubernetesObject[] {
  return [...BASELINE, service('web', { ports }), ...slices('web', pods, { ports: slicePorts })];
}

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  await forgetAfter(3600);
});
afterAll(() => lab.close());

/** The kernel's own time, 30 s, is short where a machine is slow. */
async function forgetAfter(seconds: number): Promise<void> {
  const names = ['udp', 'tcp'].map((name) => `net.netfilter.nf_flowtable_${name}_timeout`);
  await lab.node.run(['sysctl', '-w', ...names.map((name) => `${name}=${seconds}`)]);
}

/** An emulated machine has the time for some on every run of `npm test`. */
const inFull = test.skipIf(process.env.FAIRLEAD_STORIES === 'first');

let running: RunningProxy | undefined;

async function start(
  objects: readonly KubernetesObject[],
  { mode = 'nftables', ...options }: FairleadOptions & { mode?: 'nftables' | 'iptables' } = {},
  more: { fastPath?: 'off' } = {},
): Promise<RunningProxy> {
  for (const pod of ['pod-a', 'pod-b'] as const) {
    for (const address of Object.values(addressOf(pod))) {
      for (const protocol of ['TCP', 'UDP'] as const) {
        await lab.actors[pod].listen(protocol, address, SERVER_PORT);
      }
    }
  }
  running = await fairlead(mode, options).start(lab.node, { ...settings, ...more }, objects);
  return running;
}

afterEach(async () => {
  const stopped = running?.stop();
  running = undefined;
  await stopped?.finally(() => cleanup(lab.node));
  await lab.reset();
});

function to(protocol: Protocol, family: Family) {
  return { address: vip[family], port: protocol === 'TCP' ? 80 : 53 };
}

/** Opens a connection and asks on it, so that it has packets enough. Resolves to who answered. */
async function open(
  flow: string,
  protocol: Protocol,
  family: Family,
  { actor = 'client' as ActorName, from = {} as { port?: number } } = {},
): Promise<string> {
  const attempt = { protocol, to: to(protocol, family), from, timeoutMs: paced(3000) };
  const outcome = await lab.actors[actor].open(flow, attempt);
  await ask(flow, actor);
  await ask(flow, actor);
  return serverOf(outcome);
}

async function ask(flow: string, actor: ActorName = 'client'): Promise<string> {
  return serverOf(await lab.actors[actor].resume(flow, paced(3000)));
}

/** Entries of connection tracking, and how many of them a flowtable has. */
async function tracked(): Promise<{ all: number; offloaded: number }> {
  const lists = ['ipv4', 'ipv6'].map((family) => lab.node.run(['conntrack', '-L', '-f', family]));
  const lines = (await Promise.all(lists)).join('').split('\n').filter(Boolean);
  const offloaded = lines.filter((line) => line.includes('OFFLOAD'));
  return { all: lines.length, offloaded: offloaded.length };
}

/** Another program's rules in the same hook, which count packets. */
async function countForwarded(): Promise<() => Promise<number>> {
  const rules = `table inet others {
    counter forwarded { }
    chain forward { type filter hook forward priority -300; counter name forwarded; }
  }`;
  await lab.node.run(['nft', '-f', '-'], rules);
  return async () => {
    const text = await lab.node.run(['nft', 'list', 'counter', 'inet', 'others', 'forwarded']);
    return Number(/packets (\d+)/.exec(text)![1]);
  };
}

const modesWithRules = ['nftables', 'iptables'] as const;

const each = (['TCP', 'UDP'] as const).flatMap((protocol) =>
  FAMILIES.map((family) => ({ protocol, family, flow: `${protocol} ${family}` })),
);

const modes = process.env.FAIRLEAD_STORIES === 'first' ? ['nftables' as const] : modesWithRules;

describe.each(modes)('in mode %s', (mode) => {
  test('packets of established connections meet no hook, in either direction', async () => {
    await start(behind('pod-a'), { mode });
    const packets = await countForwarded();
    for (const { family, flow, protocol } of each) {
      expect(await open(flow, protocol, family)).toBe('pod-a');
    }
    expect(await tracked()).toMatchObject({ offloaded: each.length });
    const before = await packets();
    for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
    expect(await packets()).toBe(before);
  });

  test('UDP leaves a removed endpoint within a second or two, and TCP stays', async () => {
    const proxy = await start(behind('pod-a'), { mode });
    for (const { family, flow, protocol } of each) await open(flow, protocol, family);
    await proxy.apply(behind('pod-b'));
    for (const { flow, protocol } of each) {
      const expected = protocol === 'UDP' ? 'pod-b' : 'pod-a';
      await until(async () => (await ask(flow)) === expected, `${flow} is answered by ${expected}`);
    }
  });
});

inFull('without the setting each packet meets the hooks', async () => {
  await start(behind('pod-a'), {}, { fastPath: 'off' });
  const packets = await countForwarded();
  await open('kept', 'TCP', 'IPv4');
  const before = await packets();
  expect(await ask('kept')).toBe('pod-a');
  expect(await packets()).toBeGreaterThan(before);
  expect(await tracked()).toMatchObject({ offloaded: 0 });
});

inFull('a deleted Service ends its UDP conversations', async () => {
  const proxy = await start(behind('pod-a'));
  await open('kept', 'UDP', 'IPv4');
  await proxy.apply(BASELINE);
  await until(async () => (await ask('kept')) !== 'pod-a', 'nobody answers');
});

inFull('session affinity holds beside connections of the flowtable', async () => {
  const affine = { spec: { sessionAffinity: 'ClientIP' }, ports } as const;
  const objects = [
    ...BASELINE,
    service('web', affine),
    ...slices('web', ['pod-a', 'pod-b'], { ports: slicePorts }),
  ];
  await start(objects);
  const first = await open('kept', 'TCP', 'IPv4');
  expect(await tracked()).toMatchObject({ offloaded: 1 });
  for (let n = 0; n < 8; n += 1) expect(await open(`more ${n}`, 'TCP', 'IPv4')).toBe(first);
});

inFull('an endpoint that reaches itself, and a pod on the same node', async () => {
  await start(behind('pod-a'));
  for (const actor of ['pod-a', 'pod-b'] as const) {
    for (const { family, flow, protocol } of each) {
      expect(await open(flow, protocol, family, { actor })).toBe('pod-a');
      expect(await ask(flow, actor)).toBe('pod-a');
    }
  }
});

inFull('a smaller MTU on the way out is told to the server, and a download goes on', async () => {
  const { client, node } = lab.actors;
  await start(behind('pod-a'));
  await node.run(['ip', 'link', 'set', 'eth0', 'mtu', '1400']);
  try {
    for (const family of FAMILIES) {
      const attempt = { protocol: 'TCP', to: to('TCP', family), timeoutMs: paced(3000) } as const;
      await client.open(family, attempt, { download: 'endless' });
      await until(async () => (await tracked()).offloaded > 0, 'the flowtable has it');
      await sleep(paced(300));
      expect(await ask(family)).toBe('pod-a');
    }
  } finally {
    await node.run(['ip', 'link', 'set', 'eth0', 'mtu', '1500']);
  }
});

inFull('an ICMP error of the endpoint reaches the client of its Service', async () => {
  await start(behind('pod-a'));
  for (const family of FAMILIES) await open(family, 'UDP', family);
  expect(await tracked()).toMatchObject({ offloaded: 2 });
  await lab.actors['pod-a'].reset();
  for (const family of FAMILIES) expect(await ask(family)).toBe('unreachable');
});

inFull('a port is used again after FIN and after RST', async () => {
  await start(behind('pod-a'));
  for (const family of FAMILIES) {
    for (let n = 0; n < 4; n += 1) {
      expect(await open('same', 'TCP', family, { from: { port: 9001 } })).toBe('pod-a');
      await lab.actors.client.close('same');
    }
  }
});

inFull('a conversation goes on after the flowtable has forgotten it', async () => {
  await start(behind('pod-a'));
  await forgetAfter(1);
  try {
    for (const { family, flow, protocol } of each) await open(flow, protocol, family);
    await until(async () => (await tracked()).offloaded === 0, 'the flowtable is empty');
  } finally {
    await forgetAfter(3600);
  }
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  expect(await tracked()).toMatchObject({ offloaded: each.length });
});

test('a restart writes nothing, and connections go on', async () => {
  const first = await start(behind('pod-a'));
  for (const { family, flow, protocol } of each) await open(flow, protocol, family);
  await first.stop();
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  const handles = () => lab.node.run(['nft', '-a', 'list', 'table', 'inet', 'fairlead-fast-path']);
  const before = await handles();
  await start(behind('pod-a'));
  expect(await handles()).toBe(before);
  expect(await tracked()).toMatchObject({ offloaded: each.length });
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
});

test('a Service that opts out meets the rules, also when it does so later', async () => {
  const web = service('web', { ports });
  const annotations = { 'fairlead.io/fast-path': 'off' };
  const optedOut = { ...web, metadata: { ...web.metadata, annotations } };
  const other = service('other', { ports, clusterIp: clusterIp(11) });
  const rest = [
    ...BASELINE,
    other,
    ...slices('web', ['pod-a'], { ports: slicePorts }),
    ...slices('other', ['pod-b'], { ports: slicePorts }),
  ];
  const proxy = await start([web, ...rest]);
  for (const { family, flow, protocol } of each) await open(flow, protocol, family);
  expect(await tracked()).toMatchObject({ offloaded: each.length });
  await proxy.apply([optedOut, ...rest]);
  expect(await tracked()).toMatchObject({ offloaded: 0 });
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  expect(await tracked()).toMatchObject({ offloaded: 0 });
  const attempt = { protocol: 'UDP', timeoutMs: paced(3000) } as const;
  const address = clusterIp(11).IPv4;
  await lab.actors.client.open('other', { ...attempt, to: { address, port: 53 } });
  await ask('other');
  await ask('other');
  expect(await tracked()).toMatchObject({ offloaded: 1 });
});

inFull(
  "another program's flowtable on the same devices, and its filter, stand beside it",
  async () => {
    const drop = POD_B_IP.IPv4;
    await lab.node.run(
      ['nft', '-f', '-'],
      `table inet others {
      flowtable f { hook ingress priority 0; devices = { eth0, cni0 }; }
      chain forward { type filter hook forward priority 0; ip daddr ${drop} drop; }
    }`,
    );
    await start(behind('pod-a'));
    expect(await open('kept', 'TCP', 'IPv4')).toBe('pod-a');
    expect(await tracked()).toMatchObject({ offloaded: 1 });
    await running!.apply(behind('pod-b'));
    const attempt = { protocol: 'UDP', to: to('UDP', 'IPv4'), timeoutMs: paced(300) } as const;
    expect(serverOf(await lab.actors.client.open('dropped', attempt))).toBe('timeout');
    expect(await ask('kept')).toBe('pod-a');
    expect(await lab.node.run(['nft', 'list', 'flowtables'])).toContain('flowtable f {');
  },
);

inFull('a cleanup removes the table', async () => {
  await start(behind('pod-a'));
  await open('kept', 'TCP', 'IPv4');
  await running!.stop();
  running = undefined;
  await cleanup(lab.node);
  const tables = await askKernel(lab.node, (kernel) =>
    kernel.dump({ kind: 'tablesDump', family: 0 }),
  );
  expect(tables.records).toEqual([]);
});
