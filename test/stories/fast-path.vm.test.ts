/**
 * Established connections by the flowtable and by the rules: the same answers, to the end. The
 * kernels of the VM suite have flowtables.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { kernelWith } from '../fake/kernel-with.ts';
import {
  type ActorName,
  addressOf,
  CLIENT_IP,
  clusterIp,
  FAMILIES,
  type Family,
  lbVip,
  POD_B_IP,
} from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import {
  BASELINE,
  type KubernetesObject,
  SERVER_PORT,
  service,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import type { Protocol } from '../lab/outcome.ts';
import { paced } from '../lab/pace.ts';
import type { RunningProxy } from '../lab/proxy.ts';
import { serverOf } from '../lab/who-answers.ts';
import { inForce, Place, Program, until } from '../process/program.ts';
import { cleanup, type FairleadOptions, fairlead } from './fairlead-proxy.ts';

const settings = {
  ...standard,
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

/** An emulated machine has the time for some of the tests on every run of `npm test`. */
const isFirst = process.env.FAIRLEAD_STORIES === 'first';
const inFull = (name: string, run: () => Promise<void>): void => {
  if (!isFirst) test(name, run);
};

let running: RunningProxy | undefined;

async function start(
  objects: readonly KubernetesObject[],
  { mode = 'nftables', ...options }: FairleadOptions & { mode?: 'nftables' | 'iptables' } = {},
  more: { fastPath?: 'flowtable' | 'off' } = {},
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

/** Another program's rules in the same hook, which count packets to servers, and answers. */
async function countForwarded(): Promise<() => Promise<number[]>> {
  const rules = `table inet others {
    chain forward {
      type filter hook forward priority -300;
      ct direction original counter
      ct direction reply counter
    }
  }`;
  await lab.node.run(['nft', '-f', '-'], rules);
  return async () => {
    const text = await lab.node.run(['nft', 'list', 'table', 'inet', 'others']);
    return [...text.matchAll(/packets (\d+)/g)].map((match) => Number(match[1]));
  };
}

const modesWithRules = ['nftables', 'iptables'] as const;

const each = (['TCP', 'UDP'] as const).flatMap((protocol) =>
  FAMILIES.map((family) => ({ protocol, family, flow: `${protocol} ${family}` })),
);

async function openEach(): Promise<void> {
  for (const { family, flow, protocol } of each) {
    expect(await open(flow, protocol, family)).toBe('pod-a');
  }
}

const modes = isFirst ? ['nftables' as const] : modesWithRules;

describe.each(modes)('in mode %s', (mode) => {
  test('packets of established connections meet no hook, in either direction', async () => {
    await start(behind('pod-a'), { mode });
    const packets = await countForwarded();
    await openEach();
    expect(await tracked()).toMatchObject({ offloaded: each.length });
    const before = await packets();
    for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
    expect(await packets()).toEqual(before);
  });

  test('UDP leaves a removed endpoint within a second or two, and TCP stays', async () => {
    const proxy = await start(behind('pod-a'), { mode });
    await openEach();
    await proxy.apply(behind('pod-b'));
    for (const { flow, protocol } of each) {
      const expected = protocol === 'UDP' ? 'pod-b' : 'pod-a';
      await until(async () => (await ask(flow)) === expected, `${flow} is answered by ${expected}`);
    }
  });
});

/** A kernel that does not list this link. */
function without(link: string): (kernel: Kernel) => Kernel {
  return (kernel) =>
    kernelWith(kernel, {
      dump: async (...args) => {
        const result = await kernel.dump(...args);
        const records = result.records.filter((one) => one.kind !== 'link' || one.link !== link);
        return { ...result, records };
      },
    });
}

test('a connection by a device that has no part stays with the rules, in both directions', async () => {
  await start(behind('pod-a'), { kernel: without('eth0') });
  const packets = await countForwarded();
  await openEach();
  expect(await tracked()).toMatchObject({ all: each.length, offloaded: 0 });
  const before = await packets();
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  const passed = (await packets()).map((count, i) => count - before[i]!);
  for (const count of passed) expect(count).toBeGreaterThanOrEqual(each.length);
});

test("another program's flowtable on the same devices changes no answer", async () => {
  const second = `table inet second {
    flowtable f { hook ingress priority 0; devices = { eth0, cni0, veth-a, veth-b }; }
    chain forward {
      type filter hook forward priority 0;
      meta l4proto { tcp, udp } ct state established flow add @f
    }
  }`;
  await lab.node.run(['nft', '-f', '-'], second);
  const proxy = await start(behind('pod-a'));
  await openEach();
  expect(await tracked()).toMatchObject({ offloaded: each.length });
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  await proxy.apply(behind('pod-b'));
  for (const { flow, protocol } of each) {
    const expected = protocol === 'UDP' ? 'pod-b' : 'pod-a';
    await until(async () => (await ask(flow)) === expected, `${flow} is answered by ${expected}`);
  }
  await lab.node.run(['nft', 'delete', 'table', 'inet', 'second']);
  for (const { flow, protocol } of each) {
    expect(await ask(flow)).toBe(protocol === 'UDP' ? 'pod-b' : 'pod-a');
  }
});

/** What is the same with and without it. */
const settingsInFull = isFirst ? [] : (['flowtable', 'off'] as const);
describe.each(settingsInFull)('with the fast path: %s', (fastPath) => {
  const ways = { fastPath };
  /** The number of connections in the flowtable, and the number that it may have. */
  const taken = (connections: number) => ({ offloaded: fastPath === 'off' ? 0 : connections });

  test('an endpoint goes: UDP goes to another one, and TCP stays', async () => {
    const proxy = await start(behind('pod-a'), {}, ways);
    const packets = await countForwarded();
    await openEach();
    expect(await tracked()).toMatchObject({ all: each.length, ...taken(each.length) });
    const before = await packets();
    for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
    const meanwhile = (await packets()).map((count, i) => count > before[i]!);
    expect(meanwhile).toEqual(fastPath === 'off' ? [true, true] : [false, false]);
    await proxy.apply(behind('pod-b'));
    for (const { flow, protocol } of each) {
      const expected = protocol === 'UDP' ? 'pod-b' : 'pod-a';
      await until(async () => (await ask(flow)) === expected, `${flow} is answered by ${expected}`);
    }
  });

  test('a Service goes: its UDP conversations end, and TCP stays', async () => {
    const proxy = await start(behind('pod-a'), {}, ways);
    await openEach();
    await proxy.apply(BASELINE);
    for (const { flow, protocol } of each) {
      if (protocol === 'TCP') expect(await ask(flow)).toBe('pod-a');
      else await until(async () => (await ask(flow)) !== 'pod-a', `nobody answers ${flow}`);
    }
  });

  test('session affinity holds for later connections', async () => {
    const affine = { spec: { sessionAffinity: 'ClientIP' }, ports } as const;
    const objects = [
      ...BASELINE,
      service('web', affine),
      ...slices('web', ['pod-a', 'pod-b'], { ports: slicePorts }),
    ];
    await start(objects, {}, ways);
    const first = await open('kept', 'TCP', 'IPv4');
    expect(await tracked()).toMatchObject(taken(1));
    for (let n = 0; n < 8; n += 1) expect(await open(`more ${n}`, 'TCP', 'IPv4')).toBe(first);
  });

  test('an endpoint reaches itself, and a pod one on the same node', async () => {
    await start(behind('pod-a'), {}, ways);
    for (const actor of ['pod-a', 'pod-b'] as const) {
      for (const { family, flow, protocol } of each) {
        expect(await open(flow, protocol, family, { actor })).toBe('pod-a');
        expect(await ask(flow, actor)).toBe('pod-a');
      }
    }
  });

  test('source ranges refuse later connections, and leave those that are there', async () => {
    const balancer = lbVip(1);
    const limited = (range: Readonly<Record<Family, string>>): KubernetesObject[] => [
      ...BASELINE,
      service('web', {
        ports,
        vips: [balancer],
        spec: { loadBalancerSourceRanges: FAMILIES.map((family) => range[family]) },
      }),
      ...slices('web', ['pod-a'], { ports: slicePorts }),
    ];
    const proxy = await start(limited({ IPv4: '0.0.0.0/0', IPv6: '::/0' }), {}, ways);
    const attempt = (family: Family, timeoutMs = paced(3000)) =>
      ({ protocol: 'TCP', to: { address: balancer[family], port: 80 }, timeoutMs }) as const;
    for (const family of FAMILIES) {
      expect(serverOf(await lab.actors.client.open(family, attempt(family)))).toBe('pod-a');
      for (let n = 0; n < 2; n += 1) expect(await ask(family)).toBe('pod-a');
    }
    expect(await tracked()).toMatchObject(taken(FAMILIES.length));
    await proxy.apply(limited({ IPv4: '192.0.2.0/24', IPv6: '2001:db8:ffff::/48' }));
    for (const family of FAMILIES) {
      expect(await ask(family)).toBe('pod-a');
      const late = await lab.actors.client.open(`late ${family}`, attempt(family, paced(300)));
      expect(serverOf(late)).toBe('timeout');
    }
  });

  test('a smaller MTU on one side is reported to the server, and a download continues', async () => {
    const { client, node } = lab.actors;
    await start(behind('pod-a'), {}, ways);
    await node.run(['ip', 'link', 'set', 'eth0', 'mtu', '1400']);
    try {
      for (const family of FAMILIES) {
        const attempt = { protocol: 'TCP', to: to('TCP', family), timeoutMs: paced(3000) } as const;
        await client.open(family, attempt, { download: 'endless' });
        if (fastPath !== 'off') {
          await until(async () => (await tracked()).offloaded > 0, 'the flowtable has it');
        }
        await sleep(paced(300));
        expect(await ask(family)).toBe('pod-a');
      }
    } finally {
      await node.run(['ip', 'link', 'set', 'eth0', 'mtu', '1500']);
    }
  });

  test('an ICMP error of the endpoint reaches the client of its Service', async () => {
    await start(behind('pod-a'), {}, ways);
    for (const family of FAMILIES) await open(family, 'UDP', family);
    expect(await tracked()).toMatchObject(taken(2));
    await lab.actors['pod-a'].reset();
    for (const family of FAMILIES) expect(await ask(family)).toBe('unreachable');
  });

  test('a port is used again after RST', async () => {
    await start(behind('pod-a'), {}, ways);
    for (const family of FAMILIES) {
      for (let n = 0; n < 4; n += 1) {
        expect(await open('same', 'TCP', family, { from: { port: 9001 } })).toBe('pod-a');
        await lab.actors.client.close('same');
      }
    }
  });

  test('a port is used again after FIN', async () => {
    await start(behind('pod-a'), {}, ways);
    const { client } = lab.actors;
    // Otherwise a client keeps the port of a connection that it ended for a minute.
    await client.run(['sysctl', '-w', 'net.ipv4.tcp_tw_reuse=1']);
    for (const family of FAMILIES) {
      const answers = await client.run(afterFIN(vip[family], 9002));
      expect(answers.trim().split('\n')).toEqual(Array(9).fill('pod-a'));
    }
  });

  test('a conversation continues after the kernel has forgotten it', async () => {
    await start(behind('pod-a'), {}, ways);
    const forgetful = ['udp_timeout', 'udp_timeout_stream'].map(
      (name) => `net.netfilter.nf_conntrack_${name}`,
    );
    const before = (await lab.node.run(['sysctl', '-n', ...forgetful])).trim().split('\n');
    await lab.node.run(['sysctl', '-w', ...forgetful.map((name) => `${name}=1`)]);
    await forgetAfter(1);
    try {
      for (const family of FAMILIES) await open(family, 'UDP', family);
      await until(async () => (await tracked()).all === 0, 'there are no entries');
      for (const family of FAMILIES) expect(await ask(family)).toBe('pod-a');
    } finally {
      await forgetAfter(3600);
      const values = forgetful.map((name, i) => `${name}=${before[i]}`);
      await lab.node.run(['sysctl', '-w', ...values]);
    }
  });

  test("another program's flowtable and filter work in the same hooks", async () => {
    const drop = POD_B_IP.IPv4;
    await lab.node.run(
      ['nft', '-f', '-'],
      `table inet others {
        flowtable f { hook ingress priority 0; devices = { eth0, cni0 }; }
        chain forward { type filter hook forward priority 0; ip daddr ${drop} drop; }
      }`,
    );
    const proxy = await start(behind('pod-a'), {}, ways);
    expect(await open('kept', 'TCP', 'IPv4')).toBe('pod-a');
    expect(await tracked()).toMatchObject(taken(1));
    await proxy.apply(behind('pod-b'));
    const attempt = { protocol: 'UDP', to: to('UDP', 'IPv4'), timeoutMs: paced(300) } as const;
    expect(serverOf(await lab.actors.client.open('dropped', attempt))).toBe('timeout');
    expect(await ask('kept')).toBe('pod-a');
    expect(await lab.node.run(['nft', 'list', 'flowtables'])).toContain('flowtable f {');
  });

  test('killed and started again, it writes nothing, and connections continue', async () => {
    for (const address of Object.values(addressOf('pod-a'))) {
      await lab.actors['pod-a'].listen('TCP', address, SERVER_PORT);
    }
    const { namespace: name, namespacePath: path } = lab.node;
    const place = new Place({
      ...{ name, path },
      run: (program, args, input) => lab.node.run([program, ...args], input),
    });
    place.configure({ ...settings, fastPath });
    place.apply(['pod-a']);
    const begin = async (): Promise<Program> => {
      const program = place.start();
      await program.logged(inForce, 2);
      if (fastPath !== 'off') await program.logged('Using fast path');
      return program;
    };
    const first = await begin();
    for (const family of FAMILIES) expect(await open(family, 'TCP', family)).toBe('pod-a');
    first.kill('SIGKILL');
    await first.exitCode;
    for (const family of FAMILIES) expect(await ask(family)).toBe('pod-a');
    expect(await tracked()).toMatchObject({ all: 2, ...taken(2) });
    const handles = async () => withoutOwner(await lab.node.run(['nft', '-a', 'list', 'ruleset']));
    const before = await handles();
    const second = await begin();
    expect(await handles()).toBe(before);
    for (const family of FAMILIES) expect(await ask(family)).toBe('pod-a');
    expect(await tracked()).toMatchObject({ all: 2, ...taken(2) });
    await tells(place, fastPath !== 'off');
    second.kill('SIGTERM');
    await second.exitCode;
    await cleanup(lab.node);
  });
});

/** Whether `explain` and `trace` of a running program say that later packets take it. */
async function tells(place: Place, isTaken: boolean): Promise<void> {
  const words = 'After 2 packets a connection takes the fast path';
  const what = `${vip.IPv4}:80`;
  const explained = new Program(place.namespace, ['explain', what, '--from', CLIENT_IP.IPv4]);
  expect(await explained.exitCode).toBe(0);
  expect(explained.stdout.includes(words)).toBe(isTaken);
  const traced = new Program(place.namespace, ['trace', what, '--timeout', '60s']);
  await until(async () => traced.words.includes('Tracing'), 'packets are traced');
  const attempt = { protocol: 'TCP', to: to('TCP', 'IPv4'), timeoutMs: paced(3000) } as const;
  expect(serverOf(await lab.actors.client.open('traced', attempt))).toBe('pod-a');
  expect(await traced.exitCode).toBe(0);
  expect(traced.stdout.includes(words)).toBe(isTaken);
}

/** A client that asks three times on three connections from one port, and ends each by FIN. */
function afterFIN(host: string, localPort: number): string[] {
  const script = `
    import { connect } from 'node:net';
    import { once } from 'node:events';
    const once3 = () => new Promise((done, failed) => {
      const socket = connect({ host: '${host}', port: 80, localPort: ${localPort} });
      socket.setNoDelay();
      let asked = 0;
      const ask = () => { asked += 1; socket.write('?\\n'); };
      socket.on('connect', ask).on('error', failed).on('close', () => done());
      socket.on('data', (data) => {
        console.log(JSON.parse(String(data)).by);
        if (asked < 3) ask(); else socket.end();
      });
    });
    for (let made = 0; made < 3;) {
      try { await once3(); made += 1; } catch (error) {
        if (!['EADDRNOTAVAIL', 'EADDRINUSE'].includes(error.code)) throw error;
        await new Promise((done) => setTimeout(done, 200));
      }
    }`;
  return [process.execPath, '--input-type=module', '--eval', script];
}

inFull('a conversation goes on after the flowtable has forgotten it', async () => {
  await start(behind('pod-a'));
  await forgetAfter(1);
  try {
    await openEach();
    await until(async () => (await tracked()).offloaded === 0, 'the flowtable is empty');
  } finally {
    await forgetAfter(3600);
  }
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  expect(await tracked()).toMatchObject({ offloaded: each.length });
});

test('a restart writes nothing, and connections continue', async () => {
  const first = await start(behind('pod-a'));
  await openEach();
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
  await openEach();
  expect(await tracked()).toMatchObject({ offloaded: each.length });
  await proxy.apply([optedOut, ...rest]);
  // A thread of the kernel empties a flowtable that is deleted (nf_tables_trans_destroy_work).
  await until(async () => (await tracked()).offloaded === 0, 'the flowtable is empty');
  for (const { flow } of each) expect(await ask(flow)).toBe('pod-a');
  expect(await tracked()).toMatchObject({ offloaded: 0 });
  const attempt = { protocol: 'UDP', timeoutMs: paced(3000) } as const;
  const address = clusterIp(11).IPv4;
  await lab.actors.client.open('other', { ...attempt, to: { address, port: 53 } });
  await ask('other');
  await ask('other');
  expect(await tracked()).toMatchObject({ offloaded: 1 });
});

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
