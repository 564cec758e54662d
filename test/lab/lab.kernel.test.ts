/**
 * Proves the lab itself, without the product: the proxy is a ruleset written by hand, which knows
 * one Service and treats its ports in every way a proxy can.
 */
import { execFile, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  clusterIp,
  type Family,
  PLACES,
  POD_A_IP,
  POD_B_IP,
  POD_C_IP,
  SERVICE_CIDR,
} from './addresses.ts';
import { createLab, type Lab } from './lab.ts';
import { service, slices } from './objects.ts';
import { PROTOCOLS } from './outcome.ts';
import { answerMs, hangsMs } from './pace.ts';
import type { ProxyUnderTest } from './proxy.ts';
import { runStory, StoryFailure } from './run-story.ts';
import {
  answered,
  answeredByOne,
  apply,
  at,
  connect,
  open,
  refused,
  reset,
  resume,
  type Story,
  silence,
  unreachable,
} from './story.ts';

const PORTS = { balanced: 80, fixed: 81, reset: 82, icmp: 83, dropped: 84, admin: 85, remote: 86 };
const NODE_PORT = 30080;

/** One family's table. `balanced` goes to both pods, `fixed` always to pod-a, and so on. */
function table(family: Family): string {
  const ip = family === 'IPv4' ? 'ip' : 'ip6';
  const vip = clusterIp(10)[family];
  const [a, b, c] = [POD_A_IP[family], POD_B_IP[family], POD_C_IP[family]];
  const icmp = family === 'IPv4' ? 'icmp' : 'icmpv6';
  const any = 'meta l4proto { tcp, udp, sctp }';
  const dnat = (pod: string): string => `dnat to ${family === 'IPv4' ? pod : `[${pod}]`}:8080`;
  return `table ${ip} lab {
  chain services {
    ${ip} daddr ${vip} ${any} th dport ${PORTS.fixed} ${dnat(a)}
    ${ip} daddr ${vip} ${any} th dport ${PORTS.remote} ${dnat(c)}
    ${ip} daddr ${vip} ${any} th dport ${PORTS.balanced} \\
      dnat ${ip} addr . port to numgen inc mod 2 map { 0 : ${a} . 8080, 1 : ${b} . 8080 }
    fib daddr type local ${any} th dport ${NODE_PORT} ${dnat(b)}
  }
  chain refusals {
    ${ip} daddr ${vip} tcp dport ${PORTS.reset} reject with tcp reset
    ${ip} daddr ${vip} th dport ${PORTS.icmp} reject
    ${ip} daddr ${vip} th dport ${PORTS.admin} reject with ${icmp} type admin-prohibited
    ${ip} daddr ${SERVICE_CIDR[family]} th dport ${PORTS.dropped} drop
  }
  chain prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain output { type nat hook output priority -100; jump services; }
  chain forward { type filter hook forward priority filter; jump refusals; }
  chain filter-output { type filter hook output priority filter; jump refusals; }
  chain postrouting {
    type nat hook postrouting priority srcnat;
    ct status dnat ${ip} saddr . ${ip} daddr { ${a} . ${a}, ${b} . ${b} } masquerade
    ct status dnat ${ip} saddr != { ${a}, ${b}, ${c} } masquerade
  }
}`;
}

const RULESET = `${table('IPv4')}\n${table('IPv6')}`;

/** Loads a ruleset at the start and heeds no objects. */
function handWritten(ruleset: string): ProxyUnderTest {
  return {
    mode: 'hand-written',
    start: async (node) => {
      await node.run(['nft', '-f', '-'], `flush ruleset\n${ruleset}`);
      return { apply: async () => {}, stop: async () => {} };
    },
    cleanup: async (node) => {
      await node.run(['nft', 'flush', 'ruleset']);
    },
  };
}

const web = [
  service('web', { ports: [{ port: PORTS.balanced }] }),
  ...slices('web', ['pod-a', 'pod-b', 'pod-c'], {
    ports: [
      { port: 8080, name: 'tcp' },
      { port: 8080, name: 'udp', protocol: 'UDP' },
      { port: 8080, name: 'sctp', protocol: 'SCTP' },
    ],
  }),
];
const vip = clusterIp(10);

function story(name: string, steps: Story['steps']): Story {
  return { name, covers: ['5.4'], steps: [apply(...web), ...steps] };
}

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

async function failureOf(ruleset: string, failing: Story): Promise<string> {
  const error = await runStory(lab, handWritten(ruleset), failing).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(StoryFailure);
  return (error as StoryFailure).message;
}

describe('a ruleset that is wrong makes the story fail and say how', () => {
  test('without masquerading', async () => {
    const message = await failureOf(
      RULESET.replaceAll(/ct status dnat .* masquerade/g, ''),
      story('Clients are masqueraded', [
        connect('pod-b', at(vip, PORTS.fixed), answered({ 'pod-a': 'own' })),
        connect('client', at(vip, PORTS.fixed), answered({ 'pod-a': 'node' }), {
          families: ['IPv4'],
        }),
      ]),
    );
    const to = '10.96.0.10:81 and [fd00:96::a]:81 TCP';
    const ofFamilies = 'EndpointSlice default/web-ipv4, EndpointSlice default/web-ipv6';
    expect(message.split('\n').slice(0, 10)).toEqual([
      'Clients are masqueraded (sections 5.4; mode hand-written)',
      `  1. apply Service default/web, ${ofFamilies}`,
      `  2. connect from pod-b to ${to}: answered by pod-a seeing the client's own address`,
      `  3. connect from client to ${to}: answered by pod-a seeing the node's address`,
      '     at       10.96.0.10:81',
      "     expected answered by pod-a seeing the node's address",
      "     got      16 × answered by pod-a:8080 seeing 198.51.100.10 (the client's own)",
      "     because  pod-a saw 198.51.100.10 (the client's own), expected the node's address",
      '',
      'Ruleset of the node:',
    ]);
    expect(message).toContain('dnat to 10.244.1.2:8080');
  });

  test('with an endpoint that never gets a connection', async () => {
    const message = await failureOf(
      RULESET.replaceAll('numgen inc mod 2', 'numgen inc mod 1'),
      story('Both pods answer', [
        connect('client', at(vip, PORTS.balanced), answered({ 'pod-a': 'node', 'pod-b': 'node' })),
      ]),
    );
    expect(message).toMatch(/got {6}160 × answered by pod-a:8080 seeing/);
    expect(message).toContain('because  pod-b never answered');
  });

  test('with an endpoint too many, or one that is not to change', async () => {
    const both = await failureOf(
      RULESET,
      story('Only pod-a answers', [
        connect('client', at(vip, PORTS.balanced), answered({ 'pod-a': 'node' })),
      ]),
    );
    expect(both).toContain('because  pod-b:8080 must not answer');
    const changing = await failureOf(
      RULESET,
      story('The same pod answers every time', [
        connect(
          'client',
          at(vip, PORTS.balanced),
          answeredByOne({ 'pod-a': 'any', 'pod-b': 'any' }),
        ),
      ]),
    );
    expect(changing).toContain('one server was to answer every time');
  });

  test('with refusals of another kind', async () => {
    const wrong = [
      { port: PORTS.icmp, expected: reset, got: '4 × ICMP port-unreachable from' },
      { port: PORTS.reset, expected: unreachable(), got: '4 × reset' },
      { port: PORTS.admin, expected: refused, got: '4 × ICMP admin-prohibited from' },
      { port: PORTS.icmp, expected: silence, got: '4 × ICMP port-unreachable from' },
      { port: PORTS.dropped, expected: refused, got: '4 × silence' },
    ];
    for (const { port, expected, got } of wrong) {
      const steps = [connect('client', at(vip, port), expected, { families: ['IPv6'] })];
      expect(await failureOf(RULESET, story('Refused otherwise', steps))).toContain(got);
    }
  });

  test('when an open connection is cut off', async () => {
    const message = await failureOf(
      RULESET,
      story('A connection stays open', [
        open('kept', 'client', at(vip, PORTS.fixed), answered({ 'pod-a': 'node' })),
        { do: 'wait', ms: 0, why: 'nothing is waited for' },
        resume('kept', answered({ 'pod-b': 'any' })),
      ]),
    );
    expect(message).toContain('because  pod-a:8080 must not answer');
  });
});

test('A hundred refusals in a row are all seen', async () => {
  const attempt = { to: { address: POD_A_IP.IPv4, port: 9 }, timeoutMs: answerMs };
  const reasons = { icmp: 'port-unreachable', from: POD_A_IP.IPv4 };
  expect(await lab.actors.client.connect({ ...attempt, protocol: 'UDP' }, 100)).toEqual([
    { count: 100, outcome: { kind: 'unreachable', ...reasons } },
  ]);
});

test('A server that closes without an answer is distinguished from a reset', async () => {
  const { client, 'pod-b': host } = lab.actors;
  const to = { address: POD_B_IP.IPv6, port: 7000 };
  const script = `
    const server = require('net').createServer((socket) => { socket.end(); server.close(); });
    server.listen(${to.port}, '${to.address}')`;
  const served = host.run([process.execPath, '-e', script]);
  const connected = () => client.connect({ protocol: 'TCP', to, timeoutMs: answerMs }, 1);
  await expect
    .poll(connected, { timeout: hangsMs })
    .toEqual([{ count: 1, outcome: { kind: 'closed' } }]);
  await served;
});

test('An attempt that cannot be made is not counted as silence', async () => {
  const attempt = { to: { address: POD_A_IP.IPv4, port: 9 }, from: { address: '192.0.2.1' } };
  for (const protocol of PROTOCOLS) {
    expect(
      await lab.actors.client.connect({ ...attempt, protocol, timeoutMs: answerMs }, 1),
    ).toEqual([{ count: 1, outcome: { kind: 'error', detail: 'EADDRNOTAVAIL' } }]);
  }
});

test('An SCTP endpoint that has forgotten an association aborts it', async () => {
  const { client, 'pod-a': server } = lab.actors;
  const to = { address: POD_A_IP.IPv4, port: 8080 };
  await server.listen('SCTP', to.address, to.port);
  const outcome = await client.open('kept', { protocol: 'SCTP', to, timeoutMs: answerMs });
  expect(outcome).toMatchObject({ by: 'pod-a' });
  await server.reset();
  await server.listen('SCTP', to.address, to.port);
  expect(await client.resume('kept', answerMs)).toEqual({ kind: 'reset' });
});

describe('namespaces', () => {
  async function namespaces(): Promise<string[]> {
    const { stdout } = await promisify(execFile)('ip', ['netns', 'list']);
    return stdout.split('\n').flatMap((line) => line.split(' ')[0] || []);
  }

  async function goneWithin(timeoutMs: number, prefix: string): Promise<string[]> {
    const end = Date.now() + timeoutMs;
    for (;;) {
      const left = (await namespaces()).filter((name) => name.startsWith(prefix));
      if (left.length === 0 || Date.now() > end) return left;
      await sleep(50);
    }
  }

  test.each(['SIGTERM', 'SIGKILL'] as const)(
    'are removed when their maker dies of %s',
    async (signal) => {
      const script = `import { createLab } from './test/lab/lab.ts';
      process.stdout.write((await createLab()).node.namespace);`;
      const maker = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const namespace = await new Promise<string>((resolve) =>
        maker.stdout.once('data', (data: Buffer) => resolve(data.toString())),
      );
      const prefix = namespace.slice(0, -'node'.length);
      expect(await goneWithin(0, prefix)).toHaveLength(PLACES.length);
      maker.kill(signal);
      expect(await goneWithin(60_000, prefix)).toEqual([]);
    },
  );

  test('of dead runs, and only those, are removed by the next lab', async () => {
    // No process has this number: pid_max is 2^22 at most.
    const leftover = 'fl-4194305-1-1-node';
    await promisify(execFile)('ip', ['netns', 'add', leftover]);
    const next = await createLab();
    await next.close();
    const left = await namespaces();
    expect(left).not.toContain(leftover);
    expect(left).not.toContain(next.node.namespace);
    expect(left).toContain(lab.node.namespace);
  });
});
