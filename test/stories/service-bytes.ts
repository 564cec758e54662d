/** Bytes of Services and zones, as real connections have them, and those of a network interface. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { openConntrack } from '../../src/kernel/conntrack.ts';
import { clusterIp, lbVip, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, node, service, serviceCidr, slices } from '../lab/objects.ts';
import { answerMs, hangsMs } from '../lab/pace.ts';
import { until } from '../process/program.ts';
import { fairleadInside, type KillableProxy } from './fairlead-inside.ts';
import { cleanup, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  const { 'pod-b': server } = lab.actors;
  for (const address of Object.values(POD_B_IP)) await server.listen('TCP', address, 8080);
  const asked = ['acct', 'timestamp', 'tcp_timeout_time_wait', 'tcp_timeout_close'];
  await lab.node.run([
    'sysctl',
    '-qw',
    ...asked.map((one) => `net.netfilter.nf_conntrack_${one}=1`),
  ]);
});
afterEach(() => cleanup(lab.node));
afterAll(() => lab.close());

const objects = [
  ...[node({ labels: { 'topology.kubernetes.io/zone': 'here' } }), serviceCidr()],
  ...[service('web', { vips: [lbVip(1)] }), ...slices('web', [{ at: 'pod-b', zone: 'there' }])],
  ...[service('shut', { clusterIp: clusterIp(11) })],
  ...slices('shut', ['pod-b'], { ports: [{ port: 9 }] }),
];
const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;

/** Sockets of group NFNLGRP_CONNTRACK_DESTROY alone. */
async function listeners(): Promise<number> {
  const text = await lab.node.run(['cat', '/proc/net/netlink']);
  return text.split('\n').filter((line) => /^\S+ +12 +\d+ +00000004 /.test(line)).length;
}

/** The kernel reports only connections that begin while a socket listens. */
async function start(
  mode: ModeName,
  serviceBytes = true,
  log: (line: LogLine) => void = () => {},
): Promise<KillableProxy> {
  const flowLog = serviceBytes ? 'all' : 'off';
  const asked = { ...settings, serviceBytes, flowLog } as const;
  const proxy = await fairleadInside(mode, { log }).start(lab.node, asked, objects);
  await until(async () => (await listeners()) === (serviceBytes ? 1 : 0), 'a socket listens');
  return proxy;
}

/** Bytes of a family by direction, and of pairs of zones. */
async function counted(proxy: KillableProxy): Promise<Record<string, number>> {
  const line =
    /^fairlead_(?:service|zone)_bytes_total\{(?:ip_family|from)="(.*?)".*(?:direction|to)="(.*)"\} (\d+)$/gm;
  const found = [...(await proxy.metrics()).matchAll(line)];
  return Object.fromEntries(found.map(([, a, b, bytes]) => [`${a} ${b}`, Number(bytes)]));
}

const ofServices = (found: Record<string, number>): number =>
  Object.entries(found).reduce((sum, [of, bytes]) => (/^IPv/.test(of) ? sum + bytes : sum), 0);

/** Bytes in packets of IP that pod-a has sent and got, without the headers of Ethernet. */
async function atInterface(): Promise<number> {
  const text = await lab.node.run(['ip', '-s', '-j', 'link', 'show', 'veth-a']);
  const [{ stats64 }] = JSON.parse(text) as [{ stats64: Record<string, Record<string, number>> }];
  const each = Object.values(stats64).map(({ bytes = 0, packets = 0 }) => bytes - 14 * packets);
  return each.reduce((sum, one) => sum + one);
}

/** A download of pod-a is counted by the process that runs at its end, with what it had counted. */
async function download(address: string, running: () => Promise<KillableProxy>) {
  const { node: here, 'pod-a': client } = lab.actors;
  const before = await atInterface();
  const attempt = { protocol: 'TCP', to: { address, port: 80 }, timeoutMs: answerMs } as const;
  expect((await client.open('flow', attempt, { download: 'endless' })).kind).toBe('answered');
  const proxy = await running();
  const had = ofServices(await counted(proxy));
  await until(async () => (await atInterface()) - before >= 4e6, 'a download');
  await client.resume('flow', answerMs);
  await client.close('flow');
  await here.flushConntrack();
  await until(async () => ofServices(await counted(proxy)) > had, 'bytes are counted');
  const found = await counted(proxy);
  expect((ofServices(found) - had) / ((await atInterface()) - before)).toBeCloseTo(1, 2);
  return { proxy, found };
}

export function bytesIn(...modes: ModeName[]): void {
  test.each(modes)(
    'mode %s: bytes are those of the interface to a hundredth, also if a connection outlives kill -9',
    { timeout: 2 * hangsMs },
    async (mode) => {
      await (await start(mode, false)).stop();
      const first = await start(mode);
      const { found } = await download(clusterIp(10).IPv4, async () => first);
      const { 'IPv4 in': sent, 'IPv4 out': got, ...zones } = found;
      expect(zones).toEqual({ 'here there': sent, 'there here': got });
      expect(got).toBeGreaterThan(10 * sent!);
      const { proxy } = await download(clusterIp(10).IPv6, () =>
        first.kill().then(() => start(mode)),
      );
      const last = await download(lbVip(1).IPv4, async () => proxy);
      const { 'IPv4 in': asked, 'IPv4 out': sentBack } = last.found;
      // The client of a load balancer is in no zone that is known.
      expect(last.found).toMatchObject({ ' there': asked, 'there ': sentBack });
      await proxy.stop();
      expect(await listeners()).toBe(0);
    },
  );
  test.each(modes)(
    'mode %s: a connection is timed from its first packet to its last, and gets a line',
    { timeout: 2 * hangsMs },
    async (mode) => {
      const lines: LogLine[] = [];
      const proxy = await start(mode, true, (line) => lines.push(line));
      const { 'pod-a': client } = lab.actors;
      const to = (n: number) => ({ address: clusterIp(n).IPv4, port: 80 });
      const attempt = { protocol: 'TCP', timeoutMs: answerMs } as const;
      const beganMs = performance.now();
      await client.open('flow', { ...attempt, to: to(10) });
      const openMs = performance.now();
      await until(async () => performance.now() - openMs > 100, 'some time');
      await client.resume('flow', answerMs);
      const heldMs = performance.now() - openMs;
      await client.close('flow');
      const tookMs = performance.now() - beganMs;
      await client.connect({ ...attempt, to: to(11) }, 1);
      const conntrack = openConntrack({ netns: lab.node.namespacePath });
      const tcp = { family: 'IPv4', protocol: 'TCP', state: 'any', zone: 0 } as const;
      const flows = async () => {
        // Whoever reads connection tracking ends what has expired.
        await conntrack.dump(tcp);
        return lines.filter(({ msg }) => msg === 'Connection ended');
      };
      await until(async () => (await flows()).length >= 2, 'lines about both');
      const [refused, answered, ...others] = await flows();
      expect(others).toEqual([]);
      expect(refused).toMatchObject({ outcome: 'reset', frontend: `${to(11).address}:80` });
      expect(answered).toMatchObject({ outcome: 'answered', endpoint: `${POD_B_IP.IPv4}:8080` });
      // The kernel's timer, of 1 s, has steps of up to 10 ms. The server may end after the client.
      expect(answered?.durationMs).toBeGreaterThan(heldMs - 20);
      expect(answered?.durationMs).toBeLessThan(tookMs + 500);
      const counted = /^fairlead_service_connection_duration_seconds_count\{.*"web".*\} (\d+)$/m;
      expect(counted.exec(await proxy.metrics())?.[1]).toBe('1');
      conntrack.close();
      await proxy.stop();
    },
  );
}
