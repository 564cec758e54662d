/** Every story, in mode nftables, and tests that are not stories. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import type { Actor } from '../lab/actor.ts';
import {
  type ActorName,
  addressOf,
  CLIENT_OTHER_IP,
  FAMILIES,
  POD_A_IP,
} from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import {
  BASELINE,
  type KubernetesObject,
  SERVER_PORT,
  service,
  settings,
  slices,
} from '../lab/objects.ts';
import type { Attempt } from '../lab/outcome.ts';
import { orphans, untilReleased } from '../lab/owners.ts';
import { answerMs, hangsMs, paced } from '../lab/pace.ts';
import type { RunningProxy } from '../lab/proxy.ts';
import { runStory } from '../lab/run-story.ts';
import { frontends, lb, NODE_PORT, reachable, vip } from './common.ts';
import { servicesOfEveryClass } from './every-class.ts';
import { cleanup, type FairleadOptions, fairlead, type LogLine } from './fairlead-proxy.ts';
import { chosenStories } from './index.ts';

/** An emulated machine has no time for as much. */
const isFirst = process.env.FAIRLEAD_STORIES === 'first';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

let running: RunningProxy | undefined;

/** It is stopped when the test ends. */
async function start(
  objects: readonly KubernetesObject[],
  options?: FairleadOptions,
): Promise<RunningProxy> {
  running = await fairlead('nftables', options).start(lab.node, settings, objects);
  return running;
}

afterEach(async () => {
  if (running === undefined) return;
  const stopped = running.stop();
  running = undefined;
  await stopped.finally(() => cleanup(lab.node)).finally(() => lab.reset());
});

for (const story of chosenStories('all')) {
  test(story.name, () => runStory(lab, fairlead('nftables'), story));
}

function ask<T>(question: (kernel: Kernel) => Promise<T>): Promise<T> {
  return askKernel(lab.node, question);
}

function generation(): Promise<number> {
  return ask((kernel) => kernel.generation());
}

/** All that nft lists except owners, with handles: a recreated object has another one. */
async function ruleset(): Promise<string> {
  return withoutOwner(await lab.node.run(['nft', '--handle', 'list', 'ruleset']));
}

/** What the kernel calls each connection: an entry that is deleted and made again has another. */
async function connections(): Promise<string[]> {
  const lists = ['ipv4', 'ipv6'].map((family) =>
    lab.node.run(['conntrack', '-L', '-o', 'id', '-f', family]),
  );
  return (await Promise.all(lists))
    .join('')
    .match(/\bid=\d+/g)!
    .sort();
}

/** The kernel forgets a flow of UDP after 30 s: an emulated machine may take longer for a start. */
async function rememberFlows(): Promise<void> {
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_udp_timeout=600']);
}

describe('a restart without a change', () => {
  test('only takes ownership of the tables and deletes no connection, whatever exists', async () => {
    await rememberFlows();
    const protocols = ['TCP', 'UDP', 'SCTP'] as const;
    const ports = protocols.map((protocol) => ({ name: protocol, protocol, port: 8080 }));
    const servicePorts = ports.map((port) => ({ ...port, port: 80, nodePort: NODE_PORT }));
    const objects = [
      ...BASELINE,
      ...servicesOfEveryClass(100),
      service('web', { clusterIp: vip, ports: servicePorts }),
      ...slices('web', ['pod-a'], { ports }),
    ];
    const first = await start(objects);
    const { client, 'pod-a': server } = lab.actors;
    for (const protocol of protocols) {
      for (const family of FAMILIES) {
        const to = { address: vip[family], port: 80 };
        await server.listen(protocol, POD_A_IP[family], 8080);
        const flow = `${protocol} ${family}`;
        const outcome = await client.open(flow, { protocol, to, timeoutMs: answerMs });
        expect(outcome).toMatchObject({ kind: 'answered', by: 'pod-a' });
      }
    }
    await first.stop();
    await untilReleased(lab.node);
    const before = await connections();
    expect(before.length).toBeGreaterThanOrEqual(6);
    const handles = await ruleset();
    const taken = (await generation()) + (await ask(orphans));

    await start(objects);
    expect(await connections()).toEqual(before);
    expect(await ruleset()).toBe(handles);
    expect(await generation()).toBe(taken);
  });
});

describe('a flow that is not to a Service', () => {
  test('keeps its entry although its port is that of a node port whose endpoint is removed', async () => {
    await rememberFlows();
    const web = service('web', { ports: [{ port: 53, protocol: 'UDP', nodePort: NODE_PORT }] });
    const behind = (pod: ActorName) => [
      ...BASELINE,
      web,
      ...slices('web', [pod], { ports: [{ port: SERVER_PORT, protocol: 'UDP' }] }),
    ];
    const proxy = await start(behind('pod-a'));
    const { client, 'pod-a': server } = lab.actors;
    const to = { address: POD_A_IP.IPv4, port: NODE_PORT };
    await server.listen('UDP', to.address, to.port);
    const outcome = await client.open('direct', { protocol: 'UDP', to, timeoutMs: answerMs });
    expect(outcome).toMatchObject({ kind: 'answered', by: 'pod-a' });
    const before = await connections();
    expect(before).toHaveLength(1);
    await proxy.apply(behind('pod-b'));
    expect(await connections()).toEqual(before);
  });
});

describe('while endpoints come and go', () => {
  test('every connection is answered, by every kind of frontend', async () => {
    const pods = ['pod-a', 'pod-b', 'pod-c'] as const;
    const change = (n: number) => {
      // Grows, shrinks, and loses the first, the middle and the last one.
      const chosen = pods.filter((_, i) => n % 3 === 0 || (n + i) % 3 !== 0);
      return [...BASELINE, reachable(), ...slices('web', chosen)];
    };
    for (const pod of pods) {
      for (const address of Object.values(addressOf(pod))) {
        await lab.actors[pod].listen('TCP', address, SERVER_PORT);
      }
    }
    const proxy = await start(change(0));
    const targets = Object.values(frontends).flatMap(({ addresses, port }) =>
      FAMILIES.map((family) => ({ address: addresses[family]!, port })),
    );
    // An emulated machine has no time for as many.
    const connections = isFirst ? 30 : 300;
    const all = { done: false };
    let [changes, rounds] = [0, 0];
    const tallies = (async () => {
      const found = [];
      do {
        rounds += 1;
        // One after another, so that none has to wait.
        for (const to of targets) {
          const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
          const results = await lab.actors.client.connect(attempt, connections);
          found.push(...results.map((result) => ({ to, ...result })));
        }
      } while (changes <= 20);
      return found;
    })().finally(() => {
      all.done = true;
    });
    for (; !all.done; changes += 1) await proxy.apply(change(changes));
    const results = await tallies;
    expect(results.filter(({ outcome }) => outcome.kind !== 'answered')).toEqual([]);
    expect(results.reduce((sum, { count }) => sum + count, 0)).toBe(
      rounds * connections * targets.length,
    );
    expect(changes).toBeGreaterThan(20);
  });
});

describe('while source ranges are replaced', () => {
  test('clients in all of them always get through, and those in none do not', async () => {
    const within = { IPv4: '198.51.100.0/28', IPv6: '2001:db8:51::/123' };
    const change = (n: number) => {
      // Whatever n is, none of them holds an address of the client.
      const ranges = Array.from({ length: isFirst ? 200 : 1000 }, (_, i) => [
        `20.${n % 200}.${i >> 7}.${(i & 127) * 2}/32`,
        `3fff:${n % 200}:${i.toString(16)}::/64`,
      ]);
      const loadBalancerSourceRanges = [...Object.values(within), ...ranges.flat()];
      return [...BASELINE, reachable({ loadBalancerSourceRanges }), ...slices('web', ['pod-a'])];
    };
    for (const address of Object.values(POD_A_IP)) {
      await lab.actors['pod-a'].listen('TCP', address, SERVER_PORT);
    }
    const proxy = await start(change(0));
    const all = { done: false };
    const [admitted, refused] = isFirst ? [60, 32] : [300, 64];
    let [changes, rounds] = [0, 0];
    const tallies = (async () => {
      const found = new Map<string, number>();
      const connect = async (what: string, attempt: Attempt, connections: number) => {
        for (const { outcome, count } of await lab.actors.client.connect(attempt, connections)) {
          const key = `${what}: ${outcome.kind}`;
          found.set(key, (found.get(key) ?? 0) + count);
        }
      };
      do {
        rounds += 1;
        for (const family of FAMILIES) {
          const to = { address: lb[family], port: 80 };
          const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
          await connect(`within ${family}`, attempt, admitted);
          const from = { address: CLIENT_OTHER_IP[family] };
          await connect(`outside ${family}`, { ...attempt, from, timeoutMs: paced(300) }, refused);
        }
      } while (changes <= 5);
      return found;
    })().finally(() => {
      all.done = true;
    });
    for (; !all.done; changes += 1) await proxy.apply(change(changes));
    const found = await tallies;
    for (const family of FAMILIES) {
      expect(found.get(`outside ${family}: timeout`)).toBe(rounds * refused);
      expect(found.get(`within ${family}: answered`)).toBe(rounds * admitted);
    }
    expect(changes).toBeGreaterThan(5);
  });

  test('no datagram of a flood from outside gets through, also while the Service comes and goes', async () => {
    const within = (n: number) => ({ loadBalancerSourceRanges: [`20.0.${n % 200}.0/24`] });
    const behind = (spec: Record<string, unknown>) => [
      ...BASELINE,
      reachable(spec, { ports: [{ port: 80, protocol: 'UDP', nodePort: NODE_PORT }] }),
      ...slices('web', ['pod-a'], { ports: [{ port: SERVER_PORT, protocol: 'UDP' }] }),
    ];
    const { client, 'pod-a': server } = lab.actors;
    await server.run(['nft', '-f', '-'], arrivals);
    const arrived = async () => /packets (\d+)/.exec(await server.run(listArrivals))![1];
    const proxy = await start(behind(within(0)));
    const flood = startFlood(client, CLIENT_OTHER_IP.IPv4, lb.IPv4, 80);
    for (let n = 1; n <= (isFirst ? 30 : 120) || !flood.hasSentMany; n += 1) {
      await proxy.apply(n % 3 === 2 ? BASELINE : behind(within(n)));
    }
    expect(await arrived()).toBe('0');
    // With its clients let in, it arrives.
    await proxy.apply(behind({ loadBalancerSourceRanges: [`${CLIENT_OTHER_IP.IPv4}/32`] }));
    await vi.waitFor(async () => expect(await arrived()).not.toBe('0'), { timeout: hangsMs });
    await flood.end();
    await server.run(['nft', 'delete', 'table', 'ip', 'arrivals']);
  });
});

/** Counts what a server gets, in its own namespace. */
const arrivals = `table ip arrivals {
  counter datagrams { }
  chain input {
    type filter hook input priority 0;
    udp dport ${SERVER_PORT} counter name datagrams
  }
}`;
const listArrivals = ['nft', 'list', 'counter', 'ip', 'arrivals', 'datagrams'];

/** Sends datagrams from one address and port until it is killed. Prints once it has sent many. */
const flooder = `
  const [from, to, port] = process.argv.slice(1);
  const socket = require('node:dgram').createSocket('udp4');
  let sent = 0;
  const go = () => {
    sent += 1;
    if (sent === 1000) console.log('many');
    socket.send('x', Number(port), to, () => setImmediate(go));
  };
  socket.bind(0, from, go);
`;

/** A flood from this actor. */
function startFlood(actor: Actor, from: string, to: string, port: number) {
  const words = [process.execPath, '-e', flooder, from, to, String(port)];
  const argv = ['-t', String(actor.pid), '-n', ...words];
  const child = spawn('nsenter', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  const flood = {
    hasSentMany: false,
    end: async (): Promise<void> => {
      child.kill('SIGKILL');
      await ended;
    },
  };
  child.stdout.once('data', () => {
    flood.hasSentMany = true;
  });
  return flood;
}

describe('unusable input', () => {
  test('is logged with the name of the object, the field and the reason', async () => {
    const lines: LogLine[] = [];
    const objects = [
      ...BASELINE,
      service('web', { externalIps: [vip], spec: { externalIPs: ['300.1.1.1'] } }),
      ...slices('web', [{ at: { IPv4: '169.254.1.1' } }]),
      service('shop', {
        spec: { clusterIP: vip.IPv4, clusterIPs: [vip.IPv4], ipFamilies: ['IPv4'] },
      }),
    ];
    const proxy = await start(objects, { log: (line) => lines.push(line) });
    await proxy.stop();
    const warnings = lines.filter(({ level }) => level === 'warn');
    expect(warnings).toMatchObject([
      {
        subject: 'Service default/web',
        field: 'spec.externalIPs[0]',
        err: 'is not an IP address: "300.1.1.1"',
      },
      {
        subject: 'EndpointSlice default/web-ipv4',
        field: 'endpoints[0].addresses[0]',
        err: '"169.254.1.1" is a link-local address: not usable for an endpoint',
      },
      {
        service: 'default/web',
        err: 'default/web does not get TCP 10.96.0.10:80, which default/shop holds',
        msg: 'Frontend is already in use by another Service',
      },
    ]);
  });
});
