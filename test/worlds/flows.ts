/** Connections that may be made in a world. */
import type { Raw } from '../fake/api-server-store.ts';
import type { Flow } from './mode-node.ts';
import { podAddress, serviceRange } from './worlds.ts';

const nodeHosts = {
  IPv4: ['192.0.2.1', '192.0.2.2'],
  IPv6: ['2001:db8::1', '2001:db8::2'],
} as const;

/** All clients: this node, its pods, those of another node, and others. */
const senders = (['IPv4', 'IPv6'] as const).flatMap((family) => [
  ...[0, 1, 2, 3].map(() => ({ saddr: nodeHosts[family][0], iif: undefined })),
  ...[1, 2, 3, 4, 5, 77].map((host) => ({ saddr: podAddress[family](1, host), iif: 'veth0' })),
  { saddr: podAddress[family](2, 77), iif: 'eth0' },
  { saddr: { IPv4: '192.0.2.9', IPv6: '2001:db8::9' }[family], iif: 'eth0' },
  { saddr: { IPv4: '198.51.100.77', IPv6: '2001:db8:5::1' }[family], iif: 'eth0' },
  { saddr: { IPv4: '203.0.113.77', IPv6: '2001:db8:6::1' }[family], iif: 'eth0' },
]);

const isV4 = (text: string): boolean => !text.includes(':');

/** All connections to what these objects name, and to a port and an address that they do not. */
export function flowsOf(objects: Iterable<Raw>): Flow[] {
  const targets = new Map<string, Pick<Flow, 'daddr' | 'dport' | 'protocol'>>();
  const add = (daddr: string, dport: number, protocol: unknown): void => {
    const to = { daddr, dport, protocol: (protocol ?? 'TCP') as Flow['protocol'] };
    targets.set(Object.values(to).join(), to);
  };
  for (const family of ['IPv4', 'IPv6'] as const) add(serviceRange[family]('none'), 80, 'TCP');
  for (const { kind, spec, status } of objects) {
    if (kind !== 'Service') continue;
    const { clusterIPs, externalIPs = [], ports } = spec as Record<string, never[]>;
    const { loadBalancer } = status as Record<string, { ingress?: { ip?: string }[] }>;
    const ingress = loadBalancer?.ingress?.flatMap(({ ip }) => ip ?? []) ?? [];
    const hosts = [...(clusterIPs ?? []), ...externalIPs, ...ingress].filter(isAddress);
    for (const { nodePort, port, protocol } of ports as Record<string, number>[]) {
      for (const host of hosts) {
        add(host, port!, protocol);
        add(host, 99, protocol);
      }
      if (nodePort === undefined) continue;
      for (const host of Object.values(nodeHosts).flat()) add(host, nodePort, protocol);
    }
  }
  return [...targets.values()].flatMap((to) =>
    senders
      .filter(({ saddr }) => isV4(saddr) === isV4(to.daddr))
      .map((from) => ({ ...from, ...to })),
  );
}

/** Whether packets to it may be sent by and to this node as any others. */
function isAddress(text: string): boolean {
  return /^[0-9a-f.:]+$/.test(text) && !/^(0\.|127\.|169\.|ff)/.test(text);
}

export function flowText({ daddr, dport, iif, protocol, saddr }: Flow): string {
  return `${protocol} from ${saddr} (${iif ?? 'node'}) to ${daddr} ${dport}`;
}
