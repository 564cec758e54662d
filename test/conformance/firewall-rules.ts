/** Typical rules of host firewalls, of both families, as they are after a start. */
import type { Family } from '../lab/addresses.ts';

export type Firewall = 'none' | 'ufw' | 'firewalld' | 'Docker';

/** What a firewall's program is given on standard input to set its rules. */
export function firewallRules(
  firewall: Firewall,
  family: Family,
): { readonly program: string; readonly text: string } | undefined {
  const restore = { IPv4: 'iptables-nft-restore', IPv6: 'ip6tables-nft-restore' }[family];
  switch (firewall) {
    case 'none':
      return undefined;
    case 'ufw':
      return { program: `${restore} --noflush`, text: ufw(family) };
    case 'Docker':
      return { program: `${restore} --noflush`, text: docker };
    case 'firewalld':
      return family === 'IPv4' ? { program: 'nft -f -', text: firewalld } : undefined;
  }
}

/** `ufw enable`, with ssh allowed; its chains for logging are left out. */
function ufw(family: Family): string {
  const icmp = family === 'IPv4' ? 'icmp' : 'ipv6-icmp';
  return `*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-input - [0:0]
:ufw-before-forward - [0:0]
:ufw-user-input - [0:0]
-A INPUT -j ufw-before-input
-A FORWARD -j ufw-before-forward
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p ${icmp} -j ACCEPT
-A ufw-before-input -j ufw-user-input
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p ${icmp} -j ACCEPT
COMMIT
`;
}

/** Of dockerd 27, without containers. */
const docker = `*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-USER - [0:0]
-I FORWARD -o docker0 -j DOCKER
-I FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-I FORWARD -i docker0 ! -o docker0 -j ACCEPT
-I FORWARD -j DOCKER-ISOLATION-STAGE-1
-I FORWARD -j DOCKER-USER
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
`;

/** With its backend nftables and zone public for all interfaces. */
const firewalld = `table inet firewalld {
  chain filter_INPUT {
    type filter hook input priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    meta l4proto { icmp, ipv6-icmp } accept
    tcp dport 22 accept
    reject with icmpx type admin-prohibited
  }
  chain filter_FORWARD {
    type filter hook forward priority 10; policy accept;
    ct state { established, related } accept
    ct status dnat accept
    iifname "lo" accept
    ct state invalid drop
    meta l4proto { icmp, ipv6-icmp } accept
    reject with icmpx type admin-prohibited
  }
}
`;
