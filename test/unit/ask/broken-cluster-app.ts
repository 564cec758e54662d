import { parseAllDocuments } from 'yaml';
import type { Explanation } from '../../../src/ask/explanation.ts';
import { NodePrograms } from '../../../src/host/node-programs.ts';
import type { Route } from '../../../src/host/reach.ts';
import { readDeadHops } from '../../../src/host/routing.ts';
import { parseAddress } from '../../../src/net/address.ts';
import { decodeChange, decodeContext } from '../../../src/source/decode.ts';
import { type Change, resources } from '../../../src/state/change.ts';
import type { Packet } from '../../fake/nft-packet.ts';
import { configOf, Running } from '../agent/running.ts';
import { filesOf } from '../host/machine.ts';
import { boundSockets } from '../host/sockets.ts';
import { quiet } from '../sync/double.ts';
import type { BrokenCluster } from './broken-clusters.ts';

const resourceOf: Readonly<Record<string, (typeof resources)[number]>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
  ServiceCIDR: 'servicecidrs',
};

export function changesOf(manifests: string): Change[] {
  const context = decodeContext('node-a');
  return parseAllDocuments(manifests).flatMap((document) => {
    const raw = document.toJS();
    if (raw === null) return [];
    const { change, problems } = decodeChange(resourceOf[raw.kind]!, raw, context);
    if (problems.length > 0 && change === undefined) throw new Error(JSON.stringify(problems));
    return change === undefined ? [] : [change];
  });
}

/** /proc/net/route: to pods, by 192.168.7.8 to all, unless an address has none, and these. */
export function routesText(routes: Readonly<Record<string, Route>>): string {
  const ways = Object.entries(routes);
  const line = (device: string, destination: string, mask = 'FFFFFFFF', hop = '00000000') =>
    [device, destination, hop, '0001', 0, 0, 0, mask, 0, 0, 0].join('\t');
  const hex = (address: string) =>
    Buffer.from(parseAddress(address)!.bytes).reverse().toString('hex').toUpperCase();
  return [
    'Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT',
    ...(ways.some(([, way]) => way === 'no_route')
      ? []
      : [line('eth0', '00000000', '00000000', hex('192.168.7.8'))]),
    line('cni0', hex('10.244.0.0'), '00FFFFFF'),
    ...ways.flatMap(([to, way]) => (way === 'no_route' ? [] : [line('*', hex(to))])),
  ].join('\n');
}

/** /proc/net/ipv6_route: by fe80::1 to all. */
const zero = '0'.repeat(32);
const ipv6Routes = `${zero} 00 ${zero} 00 fe80${zero.slice(5)}1 00000400 1 0 00000003     eth0`;

/** The whole proxy on doubles, in the cluster of a cluster. */
export async function startedWith({
  conntrack,
  families = ['IPv4', 'IPv6'],
  flags = [],
  host = {},
  kernel,
  later,
  manifests,
  programs = [],
  routes = {},
  tracked = [],
}: BrokenCluster): Promise<Running> {
  const config = await configOf('--manifests=/anywhere', '--proxy-mode=nftables', ...flags);
  const app = new Running(config);
  await app.start({
    families: () => families,
    programs: new NodePrograms({
      ...{ clock: app.clock, host: { read: () => undefined } },
      ...{ own: () => new Set<number>(), failed: () => {} },
      read: () => boundSockets(...programs),
    }),
    host: { ...filesOf(host), write: () => {} },
    routing: {
      find: async (addresses) => addresses.map((address) => routes[address] ?? 'found'),
      read: async (family) => (family === 'IPv4' ? routesText(routes) : ipv6Routes),
      deadHops: () => readDeadHops(app.kernel),
    },
  });
  await kernel?.(app.kernel);
  app.source.say(...changesOf(manifests));
  app.source.listed(...resources);
  await quiet();
  later?.(app.kernel);
  app.conntrack.add(...tracked, ...(conntrack === undefined ? [] : [conntrack]));
  return app;
}

const clients = { pod: '10.244.0.9', node: '192.168.7.7', outside: '198.18.0.1' } as const;

/** The packet that an explanation is about. */
export function packetOf({ from, to }: Explanation): Packet {
  return {
    saddr: from.address ?? clients[from.kind],
    daddr: to.address,
    protocol: to.protocol,
    dport: to.port,
    iif: from.kind === 'node' ? undefined : 'cni0',
    nodeAddresses: ['192.168.7.7'],
    random: 0,
  };
}
