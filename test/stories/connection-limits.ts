/** Services that limit their connections, as packets show it, in any mode. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { limitAnnotations } from '../../src/state/limits.ts';
import { CLIENT_IP, CLIENT_OTHER_IP, clusterIp, NODE_IP, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  type KubernetesObject,
  service,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import type { Outcome } from '../lab/outcome.ts';
import { answerMs, hangsMs } from '../lab/pace.ts';
import type { Mode } from '../lab/proxy.ts';
import { annotated } from './balancing-rig.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

let lab: Lab;

/** Makes and ends what all stories of a file share. */
export function shareLab(): void {
  beforeAll(async () => {
    lab = await createLab();
    for (const protocol of ['TCP', 'UDP'] as const) {
      await lab.actors['pod-a'].listen(protocol, POD_A_IP.IPv4, 8080);
      await lab.actors['pod-a'].listen(protocol, POD_A_IP.IPv6, 8080);
    }
  });
  afterEach(() => cleanup(lab.node));
  afterAll(() => lab.close());
}

const long = { timeout: hangsMs };
const settings = { ...standard, serviceMetrics: true } as const;

const web = { address: clusterIp(10).IPv4, port: 80 };
const nodePort = { address: NODE_IP.IPv4, port: 30_080 };
const free = { address: clusterIp(11).IPv4, port: 80 };

type Asked = Partial<Record<keyof typeof limitAnnotations, number>>;

/** A Service with these limits, and one without any. */
function objects(limits: Asked, protocol: 'TCP' | 'UDP' = 'TCP'): KubernetesObject[] {
  const ports = [{ port: 80, nodePort: 30_080, protocol }];
  const texts = Object.entries(limits).map(([reason, most]) => {
    return [limitAnnotations[reason as keyof Asked], `${most}`];
  });
  return [
    ...BASELINE,
    annotated(service('web', { clusterIp: clusterIp(10), ports }), Object.fromEntries(texts)),
    service('free', { clusterIp: clusterIp(11) }),
    ...slices('web', ['pod-a'], { ports: [{ port: 8080, protocol }] }),
    ...slices('free', ['pod-a']),
  ];
}

/** Opens a connection that stays open. */
async function open(flow: string, to = web, from: string = CLIENT_IP.IPv4, protocol = 'TCP') {
  const attempt = { protocol: protocol as 'TCP', from: { address: from }, to, timeoutMs: answerMs };
  return (await lab.actors.client.open(flow, attempt)).kind;
}

async function connect(count: number, to = web): Promise<Outcome['kind'][]> {
  const attempt = { protocol: 'TCP', from: { address: CLIENT_IP.IPv4 }, to, timeoutMs: answerMs };
  const tally = await lab.actors.client.connect(attempt as never, count);
  return tally.flatMap((one) => Array.from({ length: one.count }, () => one.outcome.kind));
}

const close = (...flows: string[]) => Promise.all(flows.map((one) => lab.actors.client.close(one)));

/** What the metric has for each reason. */
async function refusalsOf(proxy: MeasuredProxy): Promise<Record<string, number>> {
  await proxy.skip(2100);
  const lines = (await proxy.metrics()).matchAll(
    /^fairlead_service_refusals_total\{.*service="web".*reason="(\w+)".*\} (\d+)$/gm,
  );
  return Object.fromEntries([...lines].map(([, reason, count]) => [reason, Number(count)]));
}

export function limitsIn(mode: Mode): void {
  // Its sockets are to be in the namespace.
  const proxy = mode === 'userspace' ? fairleadInside(mode) : fairlead(mode);
  const start = (own: KubernetesObject[]) => proxy.start(lab.node, settings, own);

  test('a Service has no more connections than it allows, by all its frontends', long, async () => {
    const own = objects({ max_connections: 3 });
    let running = await start(own);
    expect([await open('a'), await open('b'), await open('c', nodePort)]).toEqual(
      Array(3).fill('answered'),
    );
    expect([await open('d'), await open('e', nodePort)]).toEqual(['reset', 'reset']);
    expect(await connect(5, free)).toEqual(Array(5).fill('answered'));
    expect(await refusalsOf(running)).toEqual({ max_connections: 2 });
    expect(await running.metrics()).toMatch(/reason="connection_limits"\} 1$/m);
    // In mode userspace the process carries connections: they end with it.
    if (mode !== 'userspace') {
      await running.stop();
      expect(await open('f')).toBe('reset');
      // As if no process had renewed the lease for nearly ten minutes.
      const lease = 'element inet fairlead-limits lease { tcp';
      await lab.node.run(['nft', `delete ${lease} }; add ${lease} timeout 1s }`]);
      await expect.poll(() => open('f'), long).toBe('answered');
      await close('f');
      running = await start(own);
    }
    expect(await open('f')).toBe('reset');
    await close('a');
    await expect.poll(() => open('g'), long).toBe('answered');
    expect(await open('h')).toBe('reset');
    await close('b', 'c', 'g');
    await running.apply(objects({}));
    for (const flow of ['i', 'j', 'k', 'l']) expect(await open(flow)).toBe('answered');
    await close('i', 'j', 'k', 'l');
    expect(await lab.node.run(['nft', 'list', 'tables'])).not.toContain('fairlead-limits');
    await running.stop();
  });

  test('each client has limits of its own', long, async () => {
    const running = await start(objects({ max_connections_per_client: 2 }));
    expect([await open('a'), await open('b'), await open('c')]).toEqual([
      ...['answered', 'answered', 'reset'],
    ]);
    expect(await open('d', web, CLIENT_OTHER_IP.IPv4)).toBe('answered');
    expect(await refusalsOf(running)).toEqual({ max_connections_per_client: 1 });
    await close('a', 'b', 'd');
    await running.stop();
  });

  test('settings limit each client and each namespace', long, async () => {
    const own = objects({});
    const start = (connectionLimits: object) =>
      proxy.start(lab.node, { ...settings, connectionLimits }, own);
    let running = await start({ clientConnections: 2 });
    const openings = async (...flows: readonly (readonly [string, typeof web, string?])[]) => {
      const kinds: string[] = [];
      for (const [flow, to, from] of flows) kinds.push(await open(flow, to, from));
      return kinds;
    };
    const other = CLIENT_OTHER_IP.IPv4;
    expect(await openings(['a', web], ['b', free], ['c', nodePort], ['d', web, other])).toEqual([
      'answered',
      'answered',
      'reset',
      'answered',
    ]);
    expect(await refusalsOf(running)).toEqual({ client_limit: 1 });
    await close('a', 'b', 'd');
    await expect.poll(() => open('e'), long).toBe('answered');
    await close('e');
    await running.stop();
    running = await start({ namespaceConnections: 2 });
    expect(await openings(['f', web], ['g', free, other], ['h', nodePort])).toEqual([
      ...['answered', 'answered', 'reset'],
    ]);
    expect(await refusalsOf(running)).toEqual({ namespace_limit: 1 });
    await close('f', 'g');
    await running.stop();
  });

  if (mode === 'nftables' || mode === 'iptables') {
    test('settings limit connections to all ports of a range together', long, async () => {
      const ports = [{ port: 8080 }];
      const media = service('web', { clusterIp: clusterIp(10), ports });
      const ranged = annotated(media, { 'fairlead.io/port-range': '8080-8089' });
      const own = [...BASELINE, ranged, ...slices('web', ['pod-a'], { ports })];
      const connectionLimits = { clientConnections: 2 };
      const running = await proxy.start(lab.node, { ...settings, connectionLimits }, own);
      await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8089);
      const [first, last] = [8080, 8089].map((port) => ({ ...web, port }));
      const kinds = [await open('a', first), await open('b', last), await open('c', last)];
      expect(kinds).toEqual(['answered', 'answered', 'reset']);
      expect(await refusalsOf(running)).toEqual({ client_limit: 1 });
      await close('a', 'b');
      await running.stop();
    });
  }

  test.each(['new_connections_per_second', 'new_connections_per_second_per_client'] as const)(
    'connections beyond %s are refused',
    long,
    async (reason) => {
      const running = await start(objects({ [reason]: 2 }));
      const beganMs = performance.now();
      const kinds = await connect(40);
      const seconds = (performance.now() - beganMs) / 1000;
      const answered = kinds.filter((kind) => kind === 'answered').length;
      expect(answered).toBeGreaterThanOrEqual(2);
      expect(answered).toBeLessThanOrEqual(2 + Math.ceil(2 * seconds));
      const refused = kinds.filter((kind) => kind === 'reset').length;
      expect(answered + refused).toBe(40);
      expect(await refusalsOf(running)).toEqual(refused === 0 ? {} : { [reason]: refused });
      await running.stop();
    },
  );
}

export function limitsOfUDP(): void {
  test('flows of UDP are connections, and refused by ICMP', long, async () => {
    const proxy = await fairlead('nftables').start(
      lab.node,
      settings,
      objects({ max_connections: 1 }, 'UDP'),
    );
    expect(await open('a', web, CLIENT_IP.IPv4, 'UDP')).toBe('answered');
    expect(await open('b', web, CLIENT_IP.IPv4, 'UDP')).toBe('unreachable');
    await close('a');
    await proxy.stop();
  });
}
