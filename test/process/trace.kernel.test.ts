/** `fairlead trace` of the running program, with real packets; nft reads the same events. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Trace } from '../../src/ask/trace.ts';
import type { Namespace } from '../conformance/namespace.ts';
import { CLIENT_IP, clusterIp, lbVip, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, service, slices } from '../lab/objects.ts';
import { hangsMs, paced } from '../lab/pace.ts';
import { inForce, listens, Place, Program, until } from './program.ts';

const web = clusterIp(10).IPv4;
const empty = clusterIp(11).IPv4;
const nobody = '10.96.77.77';
const guarded = lbVip(1).IPv4;

let lab: Lab;
let namespace: Namespace;

beforeAll(async () => {
  lab = await createLab();
  const { namespace: name, namespacePath: path } = lab.node;
  namespace = {
    ...{ name, path },
    run: (program, args, input) => lab.node.run([program, ...args], input),
  };
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8080);
});

afterAll(() => lab.close());

/** The program, with Services of every fate. */
async function start(mode: 'nftables' | 'iptables' | ''): Promise<void> {
  const place = new Place(namespace);
  place.configure({
    ...{ mode, clusterCIDR: DEFAULT_CLUSTER_CIDR, detectLocalMode: 'ClusterCIDR' },
  });
  place.apply(
    ['pod-a'],
    service('empty', { clusterIp: clusterIp(11) }),
    service('guarded', {
      clusterIp: clusterIp(12),
      vips: [lbVip(1)],
      spec: { loadBalancerSourceRanges: ['192.0.2.0/24'] },
    }),
    ...slices('guarded', ['pod-a']),
  );
  const program = place.start();
  await program.logged(inForce, 2);
  // A trace asks it for an explanation.
  await listens(namespace, 10_249);
  onTestFinished(async () => {
    program.kill('SIGTERM');
    await program.exitCode;
    await lab.node.run(['nft', 'flush', 'ruleset']);
    await lab.actors.node.flushConntrack();
  });
}

/**
 * Traces packets of the client, or of another sender, to the address; undefined = its own packets.
 */
async function traced(
  address: string,
  from: 'client' | 'pod-a' | 'pod-b' | undefined,
): Promise<Trace['packets'][number]> {
  const options = from === undefined ? ['--from=node'] : ['--timeout=20s'];
  const args = ['trace', `${address}:80`, '-o', 'json', ...options];
  const program = new Program(namespace, args);
  if (from !== undefined) {
    await until(async () => program.words.includes('Tracing'), 'packets are traced');
    await lab.actors[from].connect(
      { protocol: 'TCP', to: { address, port: 80 }, timeoutMs: paced(700) },
      1,
    );
  }
  const code = await program.exitCode;
  const { packets } = JSON.parse(program.stdout) as Trace;
  expect([packets.length, program.words.match(/Error/)]).toEqual([1, null]);
  const [packet] = packets;
  expect(code).toBe(packet!.failed ? 1 : 0);
  return packet!;
}

/** The multicast group of a netlink socket (NFNLGRP_NFTRACE), as a bit of /proc/net/netlink. */
const traceGroup = 1 << 8;
const netfilter = '12';

/**
 * The events that nft shows of the packets that are traced in that time. It is a process of its own
 * that may be behind: wait for an event before you look for others.
 */
class Monitor {
  readonly #child: ChildProcess;
  #text = '';

  private constructor() {
    this.#child = spawn('ip', ['netns', 'exec', namespace.name, 'nft', 'monitor', 'trace']);
    this.#child.stdout!.on('data', (part) => {
      this.#text += String(part);
    });
    const closed = once(this.#child, 'close');
    onTestFinished(async () => {
      this.#child.kill('SIGKILL');
      await closed;
    });
  }

  /** Resolves when it hears of events. */
  static async start(): Promise<Monitor> {
    const listensToTraces = async (): Promise<boolean> => {
      const sockets = await namespace.run('cat', ['/proc/net/netlink']);
      return sockets.split('\n').some((socket) => {
        const [, family, , groups] = socket.trim().split(/ +/);
        return family === netfilter && (Number.parseInt(groups!, 16) & traceGroup) !== 0;
      });
    };
    const monitor = new Monitor();
    await until(listensToTraces, 'nft hears of events');
    return monitor;
  }

  /** Chains of others than the trace that ended with their policy, in order. */
  policies(): string[] {
    const ends = [...this.#text.matchAll(/^trace id \w+ (\S+ \S+ \S+) policy accept/gm)];
    return ends.map(([, chain]) => chain!).filter((chain) => !chain.includes('fairlead-trace'));
  }

  /** Rules that dropped a packet. */
  drops(): string[] {
    return [...this.#text.matchAll(/^trace id \w+ (\S+ \S+ \S+) rule .*\(verdict drop\)/gm)].map(
      ([, chain]) => chain!,
    );
  }
}

/** Chains that a packet has passed, as its steps have it. */
function passed({ steps }: Trace['packets'][number]): string[] {
  return steps.flatMap(({ text }) => {
    const [, chains] = /^It passes hook \w+: chains? (.*)\.$/.exec(text) ?? [];
    return chains?.split(', ') ?? [];
  });
}

describe('fairlead trace in mode nftables', () => {
  test('follows a packet to its endpoint, and to what refuses it', async () => {
    await start('nftables');
    const monitor = await Monitor.start();
    const reached = await traced(web, 'client');
    expect(reached).toMatchObject({
      ...{
        outcome: 'endpoint',
        destination: `${POD_A_IP.IPv4}:8080`,
        ...{ answered: 'yes', ended: `It was answered by ${POD_A_IP.IPv4}:8080.`, failed: false },
      },
      ...{ interface: 'eth0', explained: { outcome: 'endpoint' } },
    });
    expect(reached.source).toMatch(`${CLIENT_IP.IPv4}:`);
    const texts = reached.steps.map(({ text }) => text);
    expect(texts).toContain(`${web}:80/TCP is the ClusterIP of default/web.`);
    expect(texts.join('\n')).toMatch(/Its only endpoint is taken: 10\.244\.1\.2:8080\./);
    expect(texts.join('\n')).toMatch(
      /It is masqueraded: .*\n(.*\n)*It comes from 10\.244\.1\.1:\d+ now/,
    );
    expect(texts.at(-1)).toMatch(
      /^It leaves by cni0, from 10\.244\.1\.1:\d+ to 10\.244\.1\.2:8080\.$/,
    );
    const forwards = 'ip fairlead filter-forward';
    await until(async () => monitor.policies().includes(forwards), 'nft shows the packet');
    expect(passed(reached)).toEqual(expect.arrayContaining(monitor.policies()));
    expect(monitor.drops()).toEqual([]);

    const refused = await traced(empty, 'pod-b');
    expect(refused).toMatchObject({ outcome: 'rejected', explained: { outcome: 'rejected' } });
    expect(refused.steps.at(-1)!.text).toMatch(/^The packet is rejected\. /);
    await until(async () => monitor.drops().length > 0, 'nft shows the drop');
    expect(monitor.drops()).toEqual(['ip fairlead reject-chain']);

    const excluded = await traced(guarded, 'client');
    expect(excluded).toMatchObject({ outcome: 'dropped', explained: { outcome: 'dropped' } });
    expect(excluded.steps.map(({ text }) => text).join('\n')).toMatch(/loadBalancerSourceRanges/);

    const own = await traced(web, undefined);
    expect(own).toMatchObject({ outcome: 'endpoint', destination: `${POD_A_IP.IPv4}:8080` });
    expect(own.interface).toBeUndefined();

    const unallocated = await traced(nobody, 'pod-b');
    expect(unallocated).toMatchObject({ outcome: 'dropped', explained: { outcome: 'nobody' } });
  });

  test("names another program's rule that drops", async () => {
    await start('nftables');
    await namespace.run(
      'nft',
      ['-f', '-'],
      `table inet firewalld {
      chain filter_FWD_POLICIES { ip daddr 10.244.1.0/24 tcp dport 8080 drop comment "no pods"; }
      chain filter_FORWARD {
        type filter hook forward priority 10; policy accept;
        ct state established,related accept
        jump filter_FWD_POLICIES
      }
    }`,
    );
    const monitor = await Monitor.start();
    const { because, explained, outcome, steps } = await traced(web, 'client');
    expect([outcome, explained!.outcome]).toEqual(['dropped', 'endpoint']);
    expect(because).toMatch(
      /^It is dropped by rule \d+ of chain inet firewalld filter_FWD_POLICIES: .* drop "no pods"\.$/,
    );
    expect(because).toContain('ip daddr 10.244.1.0/24 meta l4proto tcp th dport 8080 drop');
    expect(steps.at(-1)!.text).toBe('The packet is dropped in hook forward.');
    await until(async () => monitor.drops().length > 0, 'nft shows the drop');
    expect(monitor.drops()).toEqual(['inet firewalld filter_FWD_POLICIES']);
  });

  test("names another program's rule that takes packets elsewhere, and explain knows of it", async () => {
    await start('nftables');
    await namespace.run(
      'nft',
      ['-f', '-'],
      `table ip mesh {
      chain pre {
        type nat hook prerouting priority -150; policy accept;
        ip saddr ${CLIENT_IP.IPv4} ip daddr ${web} tcp dport 80 dnat to 10.244.1.99:8080
      }
    }`,
    );
    const diverted = await traced(web, 'client');
    expect(diverted).toMatchObject({
      ...{ outcome: 'diverted', destination: '10.244.1.99:8080', failed: true },
      because: expect.stringMatching(
        /, by a rule of another program: rule \d+ of chain ip mesh pre: /,
      ),
    });
    const explained = await Promise.all(
      [CLIENT_IP.IPv4, 'node'].map((from) => {
        return new Program(namespace, ['explain', `${web}:80`, `--from=${from}`]).exitCode;
      }),
    );
    expect(explained).toEqual([1, 0]);
    expect((await traced(web, undefined)).outcome).toBe('endpoint');
  });

  test.each([
    ['iptables', ['-w', '-t', 'raw', '-A', 'PREROUTING', '-d', web, '-j', 'NOTRACK']],
    [
      'nft',
      [
        'add table ip cache ; add chain ip cache raw { type filter hook prerouting priority -300 ; } ; ' +
          `add rule ip cache raw ip daddr ${web} notrack`,
      ],
    ],
  ])('names a rule of %s that keeps packets from connection tracking', async (tool, rule) => {
    await start('nftables');
    await namespace.run(tool, rule);
    expect(await traced(web, 'client')).toMatchObject({
      outcome: 'untranslated',
      because: expect.stringMatching(/^It is exempted .* by rule \d+ of chain ip (raw|cache) /),
      explained: { warnings: [expect.stringMatching(/^A rule of another program exempts from /)] },
    });
    const asked = async (...args: string[]): Promise<[number | null, string]> => {
      const program = new Program(namespace, args);
      return [await program.exitCode, program.stdout];
    };
    const named = expect.stringMatching(
      `exempts from connection tracking, and so from translation, packets of pods, and from outside, to ${web}:80/TCP: rule`,
    );
    expect(await asked('problems')).toEqual([1, named]);
    expect(await asked('explain', `${web}:80`, '--from=pod')).toEqual([1, named]);
    expect((await asked('explain', `${web}:80`, '--from=node'))[0]).toBe(0);
    expect((await traced(web, undefined)).outcome).toBe('endpoint');
  });

  test('leaves nothing in the kernel, however it ends', async () => {
    const before = await namespace.run('nft', ['list', 'tables']);
    const args = ['trace', `${web}:80`];
    const traces: string[] = [];
    for (const delayMs of [undefined, 60, 200, 350, 500]) {
      const program = new Program(namespace, args);
      if (delayMs === undefined) {
        await until(async () => program.words.includes('Tracing'), 'packets are traced');
        traces.push(await namespace.run('nft', ['list', 'ruleset']));
      } else await sleep(delayMs);
      program.kill('SIGKILL');
      await program.exitCode;
      expect(await namespace.run('nft', ['list', 'tables'])).toBe(before);
    }
    // It was there, and nft can list it.
    expect(traces[0]).toMatch(/table ip fairlead-trace-\w+ \{ # progname/);
    expect(traces[0]).toMatch(/tcp flags syn \/ syn,ack|tcp flags & \(syn \| ack\) == syn/);
    const program = new Program(namespace, args);
    await until(async () => program.words.includes('Tracing'), 'packets are traced');
    program.kill('SIGINT');
    expect(await program.exitCode).toBe(1);
    expect(await namespace.run('nft', ['list', 'tables'])).toBe(before);
  });
});

/** Where a bridge runs the hooks of IP (br_netfilter), it also forwards what they translate. */
const bridgeHooks = '/proc/sys/net/bridge/bridge-nf-call-iptables';

test.skipIf(!existsSync(bridgeHooks))(
  'a bridge that sends nothing back to the port of a packet is named',
  async () => {
    await start('nftables');
    const set = (value: 0 | 1) => namespace.run('sh', ['-c', `echo ${value} > ${bridgeHooks}`]);
    await set(1);
    onTestFinished(async () => void (await set(0)));
    const { because, outcome } = await traced(web, 'pod-a');
    expect(outcome).toBe('lost');
    const place = 'It got through hook prerouting, and no further';
    expect(because).toContain(`${place}: it is for its own sender, and bridge cni0 `);
  },
);

test.each(['iptables', ''] as const)(
  'in mode "%s", a policy of FORWARD that drops what is not masqueraded is named',
  async (mode) => {
    await start(mode);
    await namespace.run('iptables', ['-w', '-P', 'FORWARD', 'DROP']);
    onTestFinished(
      async () => void (await namespace.run('iptables', ['-w', '-P', 'FORWARD', 'ACCEPT'])),
    );
    const asked = async (...args: string[]): Promise<[number | null, string]> => {
      const program = new Program(namespace, args);
      const code = await program.exitCode;
      return [code, program.stdout];
    };
    const drops = 'drops packets that this node forwards and does not masquerade, to endpoint';
    const named = new RegExp(
      `Chain ip filter FORWARD of another program ${drops} 10.244.1.2:8080/TCP`,
    );
    // The rules in table filter, by which it masquerades, come last.
    await until(async () => named.test((await asked('problems'))[1]), 'problems names the policy');
    expect(await asked('problems')).toEqual([1, expect.stringMatching(named)]);
    const to = { protocol: 'TCP', to: { address: web, port: 80 }, timeoutMs: paced(700) } as const;
    const connected = async (from: 'client' | 'pod-b') =>
      (await lab.actors[from].connect(to, 1)).map(({ outcome }) => outcome.kind);
    expect(await connected('pod-b')).toEqual(['timeout']);
    expect(await asked('explain', `${web}:80`, '--from=pod')).toEqual([
      1,
      expect.stringMatching(named),
    ]);
    // Its packets are masqueraded.
    await expect.poll(() => connected('client'), { timeout: hangsMs }).toEqual(['answered']);
    expect((await asked('explain', `${web}:80`, `--from=${CLIENT_IP.IPv4}`))[0]).toBe(0);
  },
);

test('fairlead trace in mode iptables shows the rules of iptables', async () => {
  await start('iptables');
  const reached = await traced(web, 'pod-b');
  expect(reached).toMatchObject({ outcome: 'endpoint', destination: `${POD_A_IP.IPv4}:8080` });
  const texts = reached.steps.map(({ text }) => text);
  expect(texts).toContain(`${web}:80/TCP is the ClusterIP of default/web.`);
  const objects = reached.steps.map(({ object = '' }) => object).join('\n');
  expect(objects).toMatch(
    /rule \d+ of chain ip nat KUBE-SVC-\w+: .*-j DNAT --to-destination 10\.244\.1\.2:8080/,
  );
  const refused = await traced(empty, 'pod-b');
  expect(refused).toMatchObject({ outcome: 'rejected', explained: { outcome: 'rejected' } });
});
