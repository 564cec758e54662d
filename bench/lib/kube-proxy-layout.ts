/**
 * The Services of cluster.ts as kube-proxy 1.36 lays them out in nftables: a chain for each Service
 * with an anonymous map of its endpoints, reached from a verdict map (behaviour document 6).
 */
import { formatAddress } from '../../src/net/address.ts';
import type { Size } from './cluster.ts';

export function kubeProxyLayout({ services, endpoints }: Size): string {
  const chains: string[] = [];
  const elements: string[] = [];
  for (let i = 0; i < services; i += 1) {
    const name = `service-${i}/bench/tcp/http`;
    const pool = Array.from(
      { length: endpoints },
      (_, j) => `${j} : ${address(0x0b_00_00_01 + i * endpoints + j)} . 8080`,
    );
    chains.push(`chain ${name} {
  meta l4proto tcp dnat ip addr . port to numgen random mod ${endpoints} map { ${pool.join(', ')} }
}`);
    elements.push(`${address(0x0a_60_00_01 + i)} . tcp . 80 : goto ${name}`);
  }
  return `table ip kube-proxy {
set cluster-ips { type ipv4_addr; elements = { ${clusterIPs(services).join(', ')} } }
set hairpin-connections { type ipv4_addr . ipv4_addr . inet_proto . inet_service; }
map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; }
map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
map service-nodeports { type inet_proto . inet_service : verdict; }
${chains.join('\n')}
map service-ips { type ipv4_addr . inet_proto . inet_service : verdict
  elements = { ${elements.join(', ')} }
}
${fixedChains}
}
`;
}

function clusterIPs(services: number): string[] {
  return Array.from({ length: services }, (_, i) => address(0x0a_60_00_01 + i));
}

function address(value: number): string {
  return formatAddress(
    Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff),
  );
}

const fixedChains = `
chain masquerading {
  meta mark and 0x4000 != 0 meta mark set meta mark xor 0x4000 masquerade fully-random
  ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random
}
chain cluster-ips-check { ip daddr @cluster-ips reject; }
chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
chain services {
  ip daddr @cluster-ips ip saddr != 11.0.0.0/8 meta mark set meta mark or 0x4000
  ip daddr . meta l4proto . th dport vmap @service-ips
  fib daddr type local ip daddr != 127.0.0.0/8 meta l4proto . th dport vmap @service-nodeports
}
chain filter-prerouting-pre-dnat {
  type filter hook prerouting priority -110; ct state new jump firewall-check
}
chain filter-forward {
  type filter hook forward priority 0
  ct state new jump service-endpoints-check
  ct state new jump cluster-ips-check
}
chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
chain nat-postrouting { type nat hook postrouting priority 100; jump masquerading; }
`;
