/**
 * What becomes of connections to each endpoint is counted as packets show it: an endpoint that
 * listens, one that does not, one behind a firewall that drops, and one behind a firewall that
 * rejects; from outside, from the node, and between two addresses of the node.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { clusterIp, FAMILIES, type Family, NODE_IP, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, slices, settings as standard } from '../lab/objects.ts';
import type { Outcome } from '../lab/outcome.ts';
import { answerMs, paced } from '../lab/pace.ts';
import { cleanup, fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  for (const family of FAMILIES) {
    await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await lab.actors['pod-a'].listen('UDP', POD_A_IP[family], 8080);
    await lab.actors.node.listen('TCP', NODE_IP[family], 8080);
  }
  const firewall = [
    'add table inet firewall',
    'add chain inet firewall in { type filter hook input priority 0; }',
    'add rule inet firewall in tcp dport 8080 drop',
    'add rule inet firewall in tcp dport 8081 reject with icmpx admin-prohibited',
  ].join('\n');
  await lab.actors['pod-c'].run(['nft', '-f', '-'], firewall);
});
afterEach(() => cleanup(lab.node));
afterAll(() => lab.close());

const settings = { ...standard, serviceMetrics: true } as const;

/** Last byte of the ClusterIP of the Service without a server. */
const silent = 12;
const udp = { port: 80, protocol: 'UDP' } as const;
const objects = [
  ...BASELINE,
  service('open', { clusterIp: clusterIp(10) }),
  ...slices('open', ['pod-a']),
  service('closed', { clusterIp: clusterIp(11) }),
  ...slices('closed', ['pod-b']),
  service('silent', { clusterIp: clusterIp(silent) }),
  ...slices('silent', ['pod-c']),
  service('walled', { clusterIp: clusterIp(13) }),
  ...slices('walled', ['pod-c'], { ports: [{ port: 8081 }] }),
  service('host', { clusterIp: clusterIp(14) }),
  ...slices('host', ['node']),
  service('datagrams', { clusterIp: clusterIp(15), ports: [udp] }),
  ...slices('datagrams', ['pod-a'], { ports: [{ port: 8080, protocol: 'UDP' }] }),
  service('deaf', { clusterIp: clusterIp(16), ports: [udp] }),
  ...slices('deaf', ['pod-b'], { ports: [{ port: 8080, protocol: 'UDP' }] }),
];

/** `open answered: 10`, of one family. */
async function outcomes(proxy: MeasuredProxy, family: Family): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const line of (await proxy.metrics()).split('\n')) {
    const [, labels = '', count] =
      /^fairlead_service_outcomes_total\{(.*)\} (\d+)$/.exec(line) ?? [];
    const of = Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, text]) => [name, text]),
    );
    if (of.ip_family !== family) continue;
    const known = found[of.service];
    found[of.service] = `${known === undefined ? '' : `${known}, `}${of.outcome} ${count}`;
  }
  return found;
}

async function connect(
  from: 'client' | 'node',
  family: Family,
  n: number,
  count: number,
  protocol: 'TCP' | 'UDP' = 'TCP',
): Promise<Outcome['kind'][]> {
  const to = { address: clusterIp(n)[family], port: 80 };
  const timeoutMs = n === silent ? paced(500) : answerMs;
  const tally = await lab.actors[from].connect({ protocol, to, timeoutMs }, count);
  return tally.flatMap((one) => Array.from({ length: one.count }, () => one.outcome.kind));
}

const start = (mode: 'nftables' | 'iptables') => fairlead(mode).start(lab.node, settings, objects);

describe.each(FAMILIES)('%s', (family) => {
  test('answers, refusals and silence of endpoints are counted', async () => {
    const proxy = await start('nftables');
    expect(new Set(await connect('client', family, 10, 9))).toEqual(new Set(['answered']));
    expect(new Set(await connect('node', family, 10, 3))).toEqual(new Set(['answered']));
    expect(await connect('client', family, 11, 6)).not.toContain('answered');
    expect(await connect('node', family, 11, 2)).not.toContain('answered');
    expect(new Set(await connect('client', family, silent, 4))).toEqual(new Set(['timeout']));
    expect(new Set(await connect('client', family, 13, 2))).toEqual(new Set(['unreachable']));
    expect(new Set(await connect('client', family, 14, 5))).toEqual(new Set(['answered']));
    expect(new Set(await connect('node', family, 14, 4))).toEqual(new Set(['answered']));
    expect(new Set(await connect('client', family, 15, 7, 'UDP'))).toEqual(new Set(['answered']));
    expect(await connect('client', family, 16, 3, 'UDP')).not.toContain('answered');
    expect(await outcomes(proxy, family)).toEqual({
      open: 'tried 12, answered 12, reset 0',
      closed: 'tried 8, answered 0, reset 8',
      silent: 'tried 4, answered 0, reset 0',
      walled: 'tried 2, answered 0, reset 2',
      host: 'tried 9, answered 9, reset 0',
      datagrams: 'tried 7, answered 7, reset 0',
      deaf: 'tried 3, answered 0, reset 3',
    });
    await proxy.stop();
  });

  test('a connection in use counts once, however much it carries', async () => {
    const proxy = await start('nftables');
    const { client } = lab.actors;
    const to = { address: clusterIp(10)[family], port: 80 };
    const attempt = { protocol: 'TCP', to, timeoutMs: answerMs } as const;
    const opened = await client.open('one', attempt, { download: 'endless' });
    expect(opened.kind).toBe('answered');
    await sleep(300);
    expect((await client.resume('one', answerMs)).kind).toBe('answered');
    await client.close('one');
    expect(await outcomes(proxy, family)).toEqual({ open: 'tried 1, answered 1, reset 0' });
    await proxy.stop();
  });
});

test('a mode that sees no answers says nothing of them', async () => {
  const proxy = await start('iptables');
  await connect('client', 'IPv4', 10, 3);
  expect(await outcomes(proxy, 'IPv4')).toEqual({});
  await proxy.stop();
});
