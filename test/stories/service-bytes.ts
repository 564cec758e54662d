/** Bytes of Services and zones, as real connections have them, and those of a network interface. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { clusterIp, lbVip, POD_B_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { DEFAULT_CLUSTER_CIDR, node, service, serviceCidr, slices } from '../lab/objects.ts';
import { answerMs, hangsMs } from '../lab/pace.ts';
import { until } from '../process/program.ts';
import { fairleadInside, type KillableProxy } from './fairlead-inside.ts';
import { cleanup } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  const { 'pod-b': server } = lab.actors;
  for (const address of Object.values(POD_B_IP)) await server.listen('TCP', address, 8080);
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_acct=1']);
});
afterEach(() => cleanup(lab.node));
afterAll(() => lab.close());

const objects = [
  ...[node({ labels: { 'topology.kubernetes.io/zone': 'here' } }), serviceCidr()],
  ...[service('web', { vips: [lbVip(1)] }), ...slices('web', [{ at: 'pod-b', zone: 'there' }])],
];
const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;

/** Sockets of group NFNLGRP_CONNTRACK_DESTROY alone. */
async function listeners(): Promise<number> {
  const text = await lab.node.run(['cat', '/proc/net/netlink']);
  return text.split('\n').filter((line) => /^\S+ +12 +\d+ +00000004 /.test(line)).length;
}

/** The kernel reports only connections that begin while a socket listens. */
async function start(mode: ModeName, serviceBytes = true): Promise<KillableProxy> {
  const proxy = await fairleadInside(mode).start(lab.node, { ...settings, serviceBytes }, objects);
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
}
