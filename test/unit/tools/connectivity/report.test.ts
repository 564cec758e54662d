/** What clients of `kubectl fairlead test` make of a cluster, and that servers answer over both protocols. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { attemptsOf } from '../../../../src/tools/connectivity/checks.ts';
import { report, sceneOf } from '../../../../src/tools/connectivity/client.ts';
import {
  type Exchange,
  type Exchanged,
  exchange,
  serve,
} from '../../../../src/tools/connectivity/exchange.ts';
import { quiet } from '../../sync/double.ts';
import { fakeTimeouts } from '../../turns.ts';

const nodes = new Map([
  ['a', ['192.0.2.1', '2001:db8::1']],
  ['b', ['192.0.2.2', '2001:db8::2']],
  ['c', ['192.0.2.3', '2001:db8::3']],
]);

const ports = (nodePort?: number) =>
  (['TCP', 'UDP'] as const).map((protocol) => ({
    protocol,
    port: 80,
    ...(nodePort && { nodePort }),
  }));
const service = (name: string, last: number, nodePort?: number, more = {}) => ({
  kind: 'Service',
  metadata: { name },
  spec: { clusterIPs: [`10.96.0.${last}`, `fd00::${last}`], ports: ports(nodePort), ...more },
  status: {},
});
const pod = (name: string, nodeName: string, ip: string) => ({
  kind: 'Pod',
  metadata: { name },
  spec: { nodeName },
  status: { podIPs: [{ ip }] },
});
const listed = {
  items: [
    service('plain', 1, 30001),
    service('affinity', 2),
    service('empty', 3, 30003),
    service('local', 4, 30004, { healthCheckNodePort: 30005 }),
    service('external', 5, undefined, { externalIPs: ['198.51.100.1'] }),
    {
      ...service('balanced', 6, 30006),
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.2' }, { hostname: 'x' }] } },
    },
    pod('server-2', 'b', '10.244.2.1'),
    pod('server-1', 'a', '10.244.1.1'),
  ],
};

type Target = Parameters<Exchange>[0];

const failed = (how: 'refused' | 'timeout'): Exchanged => ({ failed: how, error: how });

const status = (code: number): Exchanged => ({ failed: `status ${code}`, error: `status ${code}` });

/**
 * A cluster as it should be, for a client on this node; `fault` changes what some of it does with
 * the nth connection of an attempt.
 */
function clusterAround(
  node: string,
  fault: (to: Target, n: number) => Exchanged | undefined = () => undefined,
): Exchange {
  const tried = new Map<string, number>();
  const by = (server: number): Exchanged => {
    return { server: `server-${server}`, seen: '192.0.2.9', own: '192.0.2.9' };
  };
  return async (to) => {
    const { address, port, through } = to;
    const n = (tried.get(JSON.stringify(to)) ?? 0) + 1;
    tried.set(JSON.stringify(to), n);
    const odd = fault(to, n);
    if (odd !== undefined) return odd;
    if (address === '10.244.1.1' || through === '10.244.1.1') return by(1);
    if (port === 30005) return status(/[.:]1$/.test(address) ? 200 : 503);
    if (address === '10.244.2.1' || /^(10.96.0.|fd00::)2$/.test(address)) return by(2);
    if (port === 30003 || /^(10.96.0.|fd00::)3$/.test(address)) return failed('refused');
    if (port === 30004) return /[.:]1$/.test(address) ? by(1) : failed('timeout');
    if (/^(10.96.0.|fd00::)4$/.test(address)) return node === 'a' ? by(1) : failed('timeout');
    return by(1 + (n % 2));
  };
}

async function reported(
  network: 'pod' | 'node',
  node: string,
  around: Exchange = clusterAround(node),
): Promise<string[][]> {
  const text = await report(sceneOf(listed, nodes, { network, node }), around);
  expect(text.length).toBeLessThanOrEqual(4096);
  expect(text.endsWith('\nend\n')).toBe(true);
  return text
    .split('\n')
    .slice(0, -2)
    .map((line) => line.split('\t'));
}

describe('the report of a client', () => {
  const everywhere = [
    'pod, without a Service 4',
    'ClusterIP 4',
    'ClusterIP, session affinity 4',
    'ClusterIP, internalTrafficPolicy Local 4',
    'ClusterIP, no endpoints 4',
    'node port, own node 4',
    'node port, another node 4',
    'node port, no endpoints 2',
    'external IP 2',
    'load balancer 1',
  ];
  const local = 'node port, externalTrafficPolicy Local';
  const none = `${local}, no endpoint there`;
  const [up, down] = ['', 'no '].map((one) => `health-check node port, ${one}endpoint there`);

  it.each([
    ['pod', 'a', [`${down} 2`]],
    ['pod', 'c', [`${up} 2`, `${down} 2`]],
    ['node', 'a', [`${none} 4`, `${down} 2`]],
    ['node', 'b', [`${local} 4`, `${up} 2`]],
    ['node', 'c', [`${local} 4`, `${none} 4`, `${up} 2`, `${down} 2`]],
  ] as const)('of a %s on %s passes what a sound cluster does', async (network, node, more) => {
    const lines = await reported(network, node);
    const passed = lines.map(([result, check, count]) => `${result} ${check} ${count}`);
    const itself = 'ClusterIP, from its only endpoint to itself 2';
    const ofPods = network === 'pod' ? ['ClusterIP, by its name in DNS 1', itself] : [];
    const [before, between, after] = [[0, 2], [2, 8], [8]].map((at) => everywhere.slice(...at));
    const expected = [...before!, ...ofPods, ...between!, ...more, ...after!];
    expect(passed).toEqual(expected.map((one) => `pass ${one}`));
  });

  it('names DNS that does not know the name of a Service', async () => {
    const error = 'getaddrinfo ENOTFOUND plain';
    const fault = ({ address }: { address: string }): Exchanged | undefined =>
      address === 'plain' ? { failed: 'other', error } : undefined;
    const lines = await reported('pod', 'c', clusterAround('c', fault));
    expect(lines.filter(([result]) => result === 'fail')).toEqual([
      ['fail', 'ClusterIP, by its name in DNS', 'plain:80/TCP', 'c', 'pod', error],
    ]);
  });

  it('names a pod that does not reach itself, and the node that decides', async () => {
    const fault = ({ through }: Target) => (through ? failed('timeout') : undefined);
    const lines = await reported('pod', 'c', clusterAround('c', fault));
    expect(lines.filter(([result]) => result === 'fail')).toEqual(
      ['10.96.0.4', '[fd00::4]'].map((of) => [
        ...['fail', 'ClusterIP, from its only endpoint to itself', `${of}:80/TCP`, 'a', 'pod'],
        'timeout',
      ]),
    );
  });

  it.each<[string, Parameters<typeof clusterAround>[1], string[][]]>([
    [
      'a frontend that always leads to one of two servers',
      ({ address }) =>
        address === '198.51.100.1' ? { server: 'server-1', seen: '', own: '' } : undefined,
      [
        ['external IP', '198.51.100.1:80/TCP', 'c', 'node', 'only server-1 answers 30 connections'],
        ['external IP', '198.51.100.1:80/UDP', 'c', 'node', 'only server-1 answers 30 connections'],
      ],
    ],
    [
      'a frontend of IPv6 that drops everything',
      ({ address }) => (address === 'fd00::1' ? failed('timeout') : undefined),
      [
        ['ClusterIP', '[fd00::1]:80/TCP', 'c', 'node', 'timeout'],
        ['ClusterIP', '[fd00::1]:80/UDP', 'c', 'node', 'timeout'],
      ],
    ],
    [
      'a node that says of its endpoints what is not so',
      ({ port }) => (port === 30005 ? status(503) : undefined),
      ['192.0.2.1', '[2001:db8::1]'].map((of) => [
        ...[up!, `${of}:30005/TCP`, 'a', 'outside'],
        'status 503, and should be status 200',
      ]),
    ],
    [
      'affinity that is not kept',
      ({ address }, n) =>
        address === '10.96.0.2'
          ? { server: `server-${1 + (n % 3)}`, seen: '', own: '' }
          : undefined,
      [],
    ],
    [
      'a Service without endpoints that drops instead of refusing',
      ({ address }) => (address === '10.96.0.3' ? failed('timeout') : undefined),
      ['TCP', 'UDP'].map((of) => [
        ...['ClusterIP, no endpoints', `10.96.0.3:80/${of}`, 'c', 'node'],
        'timeout, and should be refused',
      ]),
    ],
    [
      'a policy Local at another node that is not heeded',
      ({ address, port }) =>
        port === 30004 && address === '192.0.2.2'
          ? { server: 'server-1', seen: '', own: '' }
          : undefined,
      ['TCP', 'UDP'].map((of) => [
        ...[none, `192.0.2.2:30004/${of}`, 'b', 'outside'],
        'server-1 answers, and should be dropped',
      ]),
    ],
    [
      'a policy Local behind which the client has another address',
      ({ address, port }) =>
        port === 30004 && address === '192.0.2.1'
          ? { server: 'server-1', seen: '192.0.2.1', own: '192.0.2.3' }
          : undefined,
      ['TCP', 'UDP'].map((of) => [
        ...[local, `192.0.2.1:30004/${of}`, 'a', 'outside'],
        'the server sees the client as 192.0.2.1, and not as 192.0.2.3',
      ]),
    ],
  ])('names %s', async (_, fault, expected) => {
    const lines = await reported('node', 'c', clusterAround('c', fault));
    const failures = lines.filter(([result]) => result === 'fail').map((line) => line.slice(1));
    const passed = lines.flatMap(([result, , count]) => (result === 'pass' ? [Number(count)] : []));
    const all = attemptsOf(sceneOf(listed, nodes, { network: 'node', node: 'c' }));
    expect(failures.length + passed.reduce((sum, one) => sum + one)).toBe(all.length);
    if (expected.length > 0) return expect(failures).toEqual(expected);
    expect(failures.map(([check]) => check)).toContain('ClusterIP, session affinity');
    expect(failures[0]!.at(-1)).toMatch(/^several servers answer: server-\d,server-\d$/);
  });

  it('names a connection that fails after others, and forgives a late start', async () => {
    const tried = new Map<string, number>();
    const count = (address: string): number => {
      tried.set(address, (tried.get(address) ?? 0) + 1);
      return tried.get(address)!;
    };
    const fault = ({ address }: { address: string }): Exchanged | undefined => {
      const n = count(address);
      // Attempts over both protocols take turns.
      if (address === '198.51.100.1' && n === 5) return failed('refused');
      if (address === '198.51.100.2' && n <= 5) return failed('timeout');
      return undefined;
    };
    const lines = await reported('pod', 'c', clusterAround('c', fault));
    expect(lines.filter(([result]) => result === 'fail')).toEqual([
      [
        ...['fail', 'external IP', '198.51.100.1:80/TCP', 'c', 'pod'],
        'connection 3 failed after others were answered: refused',
      ],
    ]);
    const never = ({ address }: { address: string }): Exchanged | undefined =>
      address === '198.51.100.2' ? failed('timeout') : undefined;
    const [line] = await reported('pod', 'c', clusterAround('c', never));
    expect(line!.slice(0, 3)).toEqual(['fail', 'load balancer', '198.51.100.2:80/TCP']);
  });

  it('is cut to what the kubelet keeps, with the number of failures that are left out', async () => {
    const error = 'x'.repeat(1000);
    const lines = await reported('node', 'c', async () => ({ failed: 'other', error }));
    const failures = lines.filter(([result]) => result === 'fail');
    const left = lines.find(([result]) => result === 'more')!;
    const all = attemptsOf(sceneOf(listed, nodes, { network: 'node', node: 'c' })).length;
    expect(failures.length + Number(left[1])).toBe(all);
    expect(failures.length).toBeGreaterThan(15);
  });
});

describe('a server', () => {
  it.each(['TCP', 'UDP'] as const)('answers over %s with its name and the client', async (of) => {
    const server = await serve('me', 0);
    onTestFinished(() => server.close());
    const at = { protocol: of, address: '127.0.0.1', port: server.ports[of] };
    const found = await exchange(at, 60_000);
    expect(found).toEqual({ server: 'me', seen: '127.0.0.1', own: '127.0.0.1' });
  });

  it('connects for a client where it may, and passes on only what servers of a test answer', async () => {
    const [me, other] = [await serve('me', 0), createServer((_, to) => void to.end('secret'))];
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const [own, foreign] = [me.ports.TCP, (other.address() as AddressInfo).port].map(
      (port) => `127.0.0.1/${port}`,
    );
    const server = await serve('you', 0, [own!, foreign!, '127.0.0.1/99999']);
    onTestFinished(() => void [me.close(), server.close(), other.close()]);
    const asked = async (path: string, of = server): Promise<string> =>
      (await fetch(`http://127.0.0.1:${of.ports.TCP}/${path}`)).text();
    expect(await asked(own!)).toBe('fairlead-test me 127.0.0.1');
    for (const path of [foreign!, '127.0.0.1/99999', `${own}/`]) expect(await asked(path)).toBe('');
    expect(await asked(own!, me)).toBe('');
  });
});

describe('a client', () => {
  const of = (protocol: 'TCP' | 'UDP', port: number) => ({ protocol, address: '127.0.0.1', port });

  it('names another program that answers, and a refusal', async () => {
    const other = createServer((_, response) => void response.end('hello'));
    onTestFinished(() => void other.close());
    await once(other.listen(0, '127.0.0.1'), 'listening');
    const { port } = other.address() as AddressInfo;
    const error = 'another program answered, status 200';
    expect(await exchange(of('TCP', port), 60_000)).toEqual({ failed: 'status 200', error });
    const endless = createServer((_, response) => {
      response.write('fairlead-test me 127.0.0.1'.padEnd(12_001));
    });
    onTestFinished(() => void endless.close());
    await once(endless.listen(0, '127.0.0.1'), 'listening');
    const found = await exchange(of('TCP', (endless.address() as AddressInfo).port), 60_000);
    expect(found).toEqual({ failed: 'status 200', error });
    const gone = await serve('me', 0);
    gone.close();
    for (const protocol of ['TCP', 'UDP'] as const) {
      const found = await exchange(of(protocol, gone.ports[protocol]), 60_000);
      expect(found).toEqual({ failed: 'refused', error: 'refused' });
    }
  });

  it('waits for as long as it may', async () => {
    fakeTimeouts();
    const tcp = createServer(() => {}).listen(0, '127.0.0.1');
    const udp = createSocket('udp4').bind(0, '127.0.0.1');
    onTestFinished(() => {
      tcp.closeAllConnections();
      tcp.close();
      udp.close();
    });
    await Promise.all([once(tcp, 'listening'), once(udp, 'listening')]);
    const ends: string[] = [];
    const asked = ([tcp, udp] as const).map(async (server, i) => {
      const { port } = server.address() as AddressInfo;
      const found = await exchange(of(i === 0 ? 'TCP' : 'UDP', port), 2000);
      ends.push('failed' in found ? `${found.failed}: ${found.error}` : '');
    });
    await vi.advanceTimersByTimeAsync(1999);
    await quiet();
    expect(ends).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    await Promise.all(asked);
    expect(ends).toEqual(['timeout: timed out', 'timeout: timed out']);
  });
});
