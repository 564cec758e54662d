/**
 * What Services and operators ask of Fairlead alone, in use while it takes over from kube-proxy,
 * starts again, and kube-proxy returns: connections stay, and nothing is left.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { mixedRules, nftablesRules, restoreText } from '../conformance/kube-proxy-rules.ts';
import { addressOf, CLIENT_OTHER_IP, clusterIp, externalIp, lbVip } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  type KubernetesObject,
  node as nodeObject,
  type ServiceOptions,
  service,
  serviceCidr,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import type { Outcome } from '../lab/outcome.ts';
import { answerMs, hangsMs, paced } from '../lab/pace.ts';
import { serverOf, whoAnswers } from '../lab/who-answers.ts';
import { until } from '../process/program.ts';
import { annotated, longestMs } from './balancing-rig.ts';
import { kubeProxyAddresses } from './downloads.ts';
import { cleanup, fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

const pods = ['pod-a', 'pod-b', 'pod-c'] as const;
let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  for (const pod of pods) await lab.actors[pod].listen('TCP', addressOf(pod).IPv4, 8080);
  await lab.actors['pod-a'].listen('TCP', addressOf('pod-a').IPv4, 8089);
  await lab.node.run(['sysctl', '-qw', 'net.netfilter.nf_conntrack_acct=1']);
});
afterAll(() => lab.close());

interface Feature {
  readonly annotations?: Record<string, string>;
  readonly options?: ServiceOptions;
  readonly endpoints?: readonly (typeof pods)[number][];
  /** Shows it in force where `begun` connections of the Service have begun by Fairlead's rules. */
  readonly shown: (proxy: MeasuredProxy, begun: number) => Promise<void>;
}

const dayMs = 86_400_000;
const most = { service: 5, client: 60, leastLoaded: 30 } as const;
const settings = {
  ...{ ...standard, healthzNodeShutdown: true, serviceBytes: true },
  connectionLimits: {
    clientConnections: most.client,
    exemptClients: [`${addressOf('client').IPv4}/32`],
  },
} as const;
const other = CLIENT_OTHER_IP.IPv4;

/** By the name of the Service. */
const features: Readonly<Record<string, Feature>> = {
  'limit-of-clients': {
    shown: () => untilRoom(most.client, 'limit-of-clients', other),
  },
  limit: {
    annotations: { 'fairlead.io/max-connections': `${most.service}` },
    shown: (_, begun) => untilRoom(most.service - begun, 'limit'),
  },
  range: {
    annotations: { 'fairlead.io/port-range': '8080-8089' },
    shown: async () => {
      expect(await once(vipOf('range'), { port: 8089 })).toMatchObject({ by: 'pod-a', port: 8089 });
    },
  },
  'source-ranges': {
    annotations: { 'fairlead.io/source-ranges': 'all' },
    options: {
      ...{ vips: [lbVip(1)], externalIps: [externalIp(1)] },
      spec: { loadBalancerSourceRanges: [`${other}/32`] },
    },
    shown: async () => {
      const to = externalIp(1).IPv4;
      // Its last 60 connections may have begun within this second.
      const ask = () => once(to, { from: other });
      await expect.poll(ask, { timeout: hangsMs }).toMatchObject({ by: 'pod-a' });
      expect(await once(to, { timeoutMs: paced(300) })).toEqual({ kind: 'timeout' });
    },
  },
  bytes: {
    shown: async (proxy) => {
      const line = /^fairlead_service_bytes_total\{.*service="bytes".*direction="in"\} (\d+)$/m;
      const counted = async () => Number(line.exec(await proxy.metrics())?.[1] ?? 0);
      const [before, vip] = [await counted(), vipOf('bytes')];
      await until(async () => {
        await once(vip, { from: other });
        await lab.node.run(['conntrack', '-D', '--orig-src', other, '--orig-dst', vip]);
        return (await counted()) > before;
      }, 'bytes are counted');
    },
  },
  'least-connections': {
    annotations: { 'fairlead.io/balance': 'least-connections' },
    endpoints: ['pod-a', 'pod-b'],
    // All others of its connections are pod-a's.
    shown: () => untilAnswered('least-connections', 'pod-b'),
  },
  shutdown: {
    endpoints: ['pod-a', 'pod-c'],
    shown: async (proxy) => {
      await proxy.apply(objects('node is shutting down'));
      await untilAnswered('shutdown', 'pod-c');
      await proxy.apply(objects());
      await untilAnswered('shutdown', 'pod-a', 'pod-c');
    },
  },
  // Connections that were there before may be as old at any time: they are the last to be shown.
  age: { annotations: { 'fairlead.io/max-connection-age': '24h' }, shown: async () => {} },
};
const all = Object.entries(features);

/** Of the second proxy of the node, which has a Service of its own. */
const neighbour = { name: 'blue', address: clusterIp(19) } as const;

function vipOf(name: string): string {
  return clusterIp(20 + all.findIndex(([each]) => each === name)).IPv4;
}

/** `message`: why the Node is not ready, if it is not. */
function objects(message?: string): KubernetesObject[] {
  const { status, ...rest } = nodeObject();
  const ready = { type: 'Ready', status: message === undefined ? 'True' : 'False', message };
  const here = { ...rest, status: { ...(status as object), conditions: [ready] } };
  const services = all.flatMap(([name, { annotations = {}, endpoints = [pods[0]], options }]) => {
    const at = { clusterIp: { IPv4: vipOf(name) }, ports: [{ port: 8080 }] };
    return [
      annotated(service(name, { ...options, ...at }), annotations),
      ...slices(name, endpoints),
    ];
  });
  return [here, serviceCidr(), ...services];
}

interface How {
  readonly from?: string | undefined;
  readonly port?: number;
  readonly timeoutMs?: number;
}

function attempt(address: string, { from, port = 8080, timeoutMs = answerMs }: How = {}) {
  const source = from === undefined ? {} : { from: { address: from } };
  return { protocol: 'TCP', to: { address, port }, timeoutMs, ...source } as const;
}

async function once(address: string, how?: How): Promise<Outcome> {
  const [tally] = await lab.actors.client.connect(attempt(address, how), 1);
  return tally!.outcome;
}

/**
 * Until a client may open as many connections more. The kernel forgets those that have ended a
 * moment later, and lets as many begin in a second.
 */
async function untilRoom(expected: number, name: string, from?: string): Promise<void> {
  const { client } = lab.actors;
  const open = (n: number) => client.open(`more ${n}`, attempt(vipOf(name), { from }));
  const room = async () => {
    let count = 0;
    while (count <= expected && (await open(count)).kind === 'answered') count += 1;
    for (let n = 0; n < count; n += 1) await client.close(`more ${n}`);
    return count;
  };
  await expect.poll(room, { timeout: hangsMs, interval: paced(2000) }).toBe(expected);
}

/** Until 20 connections are answered by these, and no others. */
function untilAnswered(name: string, ...by: readonly string[]): Promise<void> {
  const to = { address: vipOf(name), port: 8080 };
  const ask = () => whoAnswers(lab.actors.client, to, { connections: 20 });
  return until(async () => String(await ask()) === String(by), `${by} answer`);
}

/** Its rules lead to pod-a. */
async function startKubeProxy(mode: 'nftables' | 'iptables'): Promise<void> {
  const target = () => `${addressOf('pod-a').IPv4}:8080`;
  const addresses = { ...kubeProxyAddresses('IPv4'), target };
  const vips = all.map(([name]) => vipOf(name));
  if (mode === 'nftables') {
    const elements = vips.map((vip) => `${vip} . tcp . 8080 : $1`).join(', ');
    const rules = nftablesRules('ip', addresses).replace(/\S+ \. tcp \. 80 : (goto \S+)/, elements);
    await lab.node.run(['nft', '-f', '-'], rules);
    return;
  }
  const rules = restoreText(mixedRules(addresses, 'ACCEPT'), ['kube-proxy', 'others']);
  const more = vips.map((vip) => {
    return `-A KUBE-SERVICES -d ${vip} -p tcp --dport 8080 -j KUBE-SVC-XPGD46QRK7WJZT7O\n`;
  });
  const last = '-A KUBE-SERVICES -m comment';
  await lab.node.run(['iptables-nft-restore'], rules.replace(last, `${more.join('')}${last}`));
}

test.each(['nftables', 'iptables'] as const)(
  'mode %s: connections stay with all features in use, and nothing is left when kube-proxy returns',
  async (mode) => {
    const { client } = lab.actors;
    const servers = new Map<string, string>();
    const open = async (flow: string, address: string) => {
      servers.set(flow, serverOf(await client.open(flow, attempt(address))));
    };
    const openAll = async (when: string) => {
      for (const [name] of all) await open(`${name} ${when}`, vipOf(name));
    };
    const rules = () => lab.node.run(['nft', 'list', 'ruleset']);

    await startKubeProxy(mode);
    await openAll('by kube-proxy');
    for (let n = 0; n < most.leastLoaded; n += 1) await open(`${n}`, vipOf('least-connections'));
    const labels = { 'service.kubernetes.io/service-proxy-name': neighbour.name };
    const of = { clusterIp: neighbour.address, labels, ports: [{ port: 8080 }] };
    const second = await fairlead('nftables').start(
      lab.node,
      { ...standard, serviceProxyName: neighbour.name },
      [nodeObject(), serviceCidr(), service('second', of), ...slices('second', ['pod-a'])],
    );
    await open('second', neighbour.address.IPv4);

    for (const [i, when] of ['after the takeover', 'after a restart'].entries()) {
      const proxy = await fairlead(mode).start(lab.node, settings, objects());
      const isAlone = async () => !/service-ULMVA6XW|XPGD46QRK7WJZT7O/.test(await rules());
      await until(isAlone, 'rules of kube-proxy are gone');
      await openAll(when);
      for (const [, { shown }] of all) await shown(proxy, i + 1);
      if (i === 1) {
        for (const flow of [...servers.keys()].filter((one) => one.startsWith('age '))) {
          // A connection ages from when it is first seen.
          const kind = async () => {
            await proxy.skip(dayMs);
            return (await client.resume(flow, answerMs)).kind;
          };
          await expect.poll(kind, { timeout: hangsMs }).toBe('reset');
          servers.delete(flow);
        }
        await open('young', vipOf('age'));
      }
      await proxy.stop();
    }
    await cleanup(lab.node);
    expect(await rules()).not.toMatch(/table .* fairlead(?!\.blue)|KUBE-S|10\.96\.0\.2/);
    await startKubeProxy(mode);
    for (const [flow, server] of servers) {
      expect(pods, flow).toContain(server);
      expect(serverOf(await client.resume(flow, answerMs)), flow).toBe(server);
    }
    await second.stop();
    await cleanup(lab.node, neighbour.name);
    expect(await rules()).not.toContain('fairlead');
    expect(await client.resume('second', answerMs)).toMatchObject({ by: 'pod-a' });
    await client.reset();
    await lab.node.run(['nft', 'flush', 'ruleset']);
    await lab.actors.node.flushConntrack();
  },
  longestMs,
);
