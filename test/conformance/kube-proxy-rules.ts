/**
 * Rules of kube-proxy and of other programs, as lines for iptables-restore. Each line has an
 * owner, so that the same rules can be loaded with and without kube-proxy's.
 */

type Owner = 'kube-proxy' | 'others';

export interface Line {
  readonly owner: Owner;
  readonly text: string;
}

const kubeProxy = (...texts: readonly string[]): Line[] =>
  texts.map((text) => ({ owner: 'kube-proxy', text }));
const others = (...texts: readonly string[]): Line[] =>
  texts.map((text) => ({ owner: 'others', text }));

/** For `iptables-restore --counters`. */
export function restoreText(lines: readonly Line[], owners: readonly Owner[]): string {
  return `${lines
    .filter(({ owner }) => owners.includes(owner))
    .map(({ text }) => text)
    .join('\n')}\n`;
}

/** Addresses of a family. */
export interface Addresses {
  readonly vip: string;
  readonly loadBalancer: string;
  readonly endpoints: readonly [string, string];
  readonly pods: string;
  readonly loopback: string;
  /** `[fd00::1]:80` in IPv6. */
  readonly target: (address: string) => string;
}

export const addresses: Readonly<Record<'IPv4' | 'IPv6', Addresses>> = {
  IPv4: {
    vip: '10.96.0.10',
    loadBalancer: '192.0.2.10',
    endpoints: ['10.244.1.2', '10.244.1.3'],
    pods: '10.244.0.0/16',
    loopback: '127.0.0.0/8',
    target: (address) => `${address}:8080`,
  },
  IPv6: {
    vip: 'fd00:96::10',
    loadBalancer: '2001:db8:2::10',
    endpoints: ['fd00:244:1::2', 'fd00:244:1::3'],
    pods: 'fd00:244::/48',
    loopback: '::1',
    target: (address) => `[${address}]:8080`,
  },
};

const svc = 'KUBE-SVC-XPGD46QRK7WJZT7O';
const svl = 'KUBE-SVL-XPGD46QRK7WJZT7O';
const ext = 'KUBE-EXT-XPGD46QRK7WJZT7O';
const fw = 'KUBE-FW-XPGD46QRK7WJZT7O';
const seps = ['KUBE-SEP-SXIVWICOYRO3J4NJ', 'KUBE-SEP-T5UNFIPVCZXM3U7X'] as const;
const port = '-p tcp -m comment --comment "shop/web:http"';

/** kube-proxy's iptables mode with one Service, between Docker, Calico, the kubelet and a user. */
export function mixedRules(of: Addresses, forwardPolicy: 'ACCEPT' | 'DROP'): Line[] {
  return [...mangle(), ...filter(of, forwardPolicy), ...nat(of)];
}

function mangle(): Line[] {
  return [
    ...others('*mangle', ':PREROUTING ACCEPT [7:420]', ':OUTPUT ACCEPT [0:0]'),
    ...others(':KUBE-IPTABLES-HINT - [0:0]', ':KUBE-KUBELET-CANARY - [0:0]'),
    ...kubeProxy(':KUBE-PROXY-CANARY - [0:0]'),
    ...others(':cali-PREROUTING - [0:0]'),
    ...others(
      '[3:180] -A PREROUTING -m comment --comment "cali:6gwbT8clXdHdC1b1" -j cali-PREROUTING',
    ),
    ...others('[1:60] -A cali-PREROUTING -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT'),
    ...others('COMMIT'),
  ];
}

function filter({ vip, pods }: Addresses, forwardPolicy: string): Line[] {
  return [
    ...others('*filter', ':INPUT ACCEPT [100:6000]', `:FORWARD ${forwardPolicy} [5:300]`),
    ...others(':OUTPUT ACCEPT [90:5400]', ':DOCKER - [0:0]', ':DOCKER-USER - [0:0]'),
    ...kubeProxy(':KUBE-EXTERNAL-SERVICES - [0:0]'),
    ...others(':KUBE-FIREWALL - [0:0]'),
    ...kubeProxy(':KUBE-FORWARD - [0:0]', ':KUBE-NODEPORTS - [0:0]'),
    ...kubeProxy(':KUBE-PROXY-CANARY - [0:0]', ':KUBE-PROXY-FIREWALL - [0:0]'),
    ...kubeProxy(':KUBE-SERVICES - [0:0]'),
    ...others(':cali-FORWARD - [0:0]', ':cali-INPUT - [0:0]', ':user-input - [0:0]'),
    ...others('[9:540] -A INPUT -m comment --comment "cali:Cz_u1IQiXIMmKD4c" -j cali-INPUT'),
    ...kubeProxy(
      '[8:480] -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
      '[8:480] -A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS',
      '[8:480] -A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
    ),
    ...others('[8:480] -A INPUT -j KUBE-FIREWALL', '[2:120] -A INPUT -j user-input'),
    ...others('[4:240] -A FORWARD -m comment --comment "cali:wUHhoiAYhphO9Mso" -j cali-FORWARD'),
    ...kubeProxy(
      '[4:240] -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
      '[4:240] -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
      '[4:240] -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
      '[4:240] -A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES',
    ),
    ...others('[4:240] -A FORWARD -j DOCKER-USER', '[0:0] -A FORWARD -o docker0 -j DOCKER'),
    ...kubeProxy(
      '[7:420] -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL',
      '[7:420] -A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    ),
    ...others('[7:420] -A OUTPUT -j KUBE-FIREWALL', '[4:240] -A DOCKER-USER -j RETURN'),
    ...others(`[1:60] -A KUBE-FIREWALL -m mark --mark 0x8000/0x8000 -j DROP`),
    ...kubeProxy(
      '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
      '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT',
      '-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
      `-A KUBE-SERVICES -d ${vip} -p tcp -m comment --comment "shop/idle has no endpoints" -m tcp --dport 81 -j REJECT`,
    ),
    ...others(`[2:120] -A cali-FORWARD -s ${pods} -j ACCEPT`),
    ...others(`[2:120] -A user-input -p tcp -m tcp --dport 22 -j ACCEPT`),
    ...others('COMMIT'),
  ];
}

function nat({ vip, loadBalancer, endpoints, pods, loopback, target }: Addresses): Line[] {
  return [
    ...others('*nat', ':PREROUTING ACCEPT [11:660]', ':INPUT ACCEPT [0:0]'),
    ...others(':OUTPUT ACCEPT [12:720]', ':POSTROUTING ACCEPT [13:780]', ':DOCKER - [0:0]'),
    ...kubeProxy(':KUBE-MARK-MASQ - [0:0]', ':KUBE-NODEPORTS - [0:0]'),
    ...kubeProxy(':KUBE-POSTROUTING - [0:0]', ':KUBE-PROXY-CANARY - [0:0]'),
    ...others(':KUBE-KUBELET-CANARY - [0:0]'),
    ...kubeProxy(':KUBE-SERVICES - [0:0]'),
    ...kubeProxy(...[svc, svl, ext, fw, ...seps].map((chain) => `:${chain} - [0:0]`)),
    ...others(':cali-POSTROUTING - [0:0]'),
    ...kubeProxy(
      '[11:660] -A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    ),
    ...others('[2:120] -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER'),
    ...kubeProxy(
      '[12:720] -A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    ),
    ...others(`[0:0] -A OUTPUT ! -d ${loopback} -m addrtype --dst-type LOCAL -j DOCKER`),
    ...others(
      '[13:780] -A POSTROUTING -m comment --comment "cali:O3lYWMrLQYEMJtB5" -j cali-POSTROUTING',
    ),
    ...kubeProxy(
      '[13:780] -A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    ),
    ...others(`[3:180] -A POSTROUTING -s ${pods} ! -o docker0 -j MASQUERADE`),
    ...others('[0:0] -A DOCKER -i docker0 -j RETURN'),
    ...kubeProxy(
      '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
      `-A KUBE-NODEPORTS ${port} -m tcp --dport 30080 -j ${ext}`,
      '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
      '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
      '-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
      `-A KUBE-SERVICES -d ${vip} ${port} -m tcp --dport 80 -j ${svc}`,
      `-A KUBE-SERVICES -d ${loadBalancer} ${port} -m tcp --dport 80 -j ${fw}`,
      '-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
      `-A ${fw} -m comment --comment "shop/web:http loadbalancer IP" -j ${ext}`,
      `-A ${ext} -s ${pods} -j ${svc}`,
      `-A ${ext} -j ${svl}`,
      `-A ${svl} -j ${seps[0]}`,
      `-A ${svc} ! -s ${pods} -d ${vip} ${port} -m tcp --dport 80 -j KUBE-MARK-MASQ`,
      `-A ${svc} -m comment --comment "shop/web:http" -m statistic --mode random --probability 0.5 -j ${seps[0]}`,
      `-A ${svc} -m comment --comment "shop/web:http" -j ${seps[1]}`,
      ...seps.flatMap((sep, i) => [
        `-A ${sep} -s ${endpoints[i as 0 | 1]} -j KUBE-MARK-MASQ`,
        `-A ${sep} -p tcp -m tcp -j DNAT --to-destination ${target(endpoints[i as 0 | 1])}`,
      ]),
    ),
    ...others(`[1:60] -A cali-POSTROUTING -s ${pods} ! -d ${pods} -j RETURN`),
    ...others('COMMIT'),
  ];
}

/** The rules that kube-proxy's ipvs mode adds in iptables, with a user's rules. */
export const ipvsRules: readonly Line[] = [
  ...others('*filter', ':INPUT ACCEPT [0:0]', ':FORWARD ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]'),
  ...kubeProxy(':KUBE-FORWARD - [0:0]', ':KUBE-NODE-PORT - [0:0]', ':KUBE-IPVS-FILTER - [0:0]'),
  ...kubeProxy(':KUBE-IPVS-OUT-FILTER - [0:0]', ':KUBE-PROXY-FIREWALL - [0:0]'),
  ...kubeProxy(':KUBE-SOURCE-RANGES-FIREWALL - [0:0]'),
  ...kubeProxy(
    '-A INPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-FILTER',
    '-A INPUT -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL',
    '-A INPUT -m comment --comment "kubernetes health check rules" -j KUBE-NODE-PORT',
  ),
  ...others('[6:360] -A INPUT -p icmp -j ACCEPT'),
  ...kubeProxy(
    '-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD',
    '-A FORWARD -m comment --comment "kube-proxy firewall rules" -j KUBE-PROXY-FIREWALL',
    '-A OUTPUT -m comment --comment "kubernetes ipvs access filter" -j KUBE-IPVS-OUT-FILTER',
    '-A KUBE-SOURCE-RANGES-FIREWALL -j DROP',
  ),
  ...others('COMMIT'),
  ...others('*nat', ':PREROUTING ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]'),
  ...others(':POSTROUTING ACCEPT [0:0]'),
  ...kubeProxy(':KUBE-SERVICES - [0:0]', ':KUBE-POSTROUTING - [0:0]', ':KUBE-NODE-PORT - [0:0]'),
  ...kubeProxy(':KUBE-LOAD-BALANCER - [0:0]', ':KUBE-MARK-MASQ - [0:0]'),
  ...kubeProxy(
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT',
    '-A KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ',
    '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
  ),
  ...others('COMMIT'),
];

/** A container runtime's host ports, which use kube-proxy's mark. */
export const hostPortRules: readonly Line[] = [
  ...others('*nat', ':PREROUTING ACCEPT [0:0]', ':OUTPUT ACCEPT [0:0]'),
  ...others(':POSTROUTING ACCEPT [0:0]', ':KUBE-HOSTPORTS - [0:0]', ':KUBE-HP-ABCDEF - [0:0]'),
  // This chain stays, because others jump to it.
  ...others(':KUBE-MARK-MASQ - [0:0]'),
  ...kubeProxy(':KUBE-SERVICES - [0:0]', `:${svc} - [0:0]`),
  ...kubeProxy(
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
  ),
  ...others('[5:300] -A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS'),
  ...others('-A KUBE-HOSTPORTS -p tcp -m tcp --dport 8443 -j KUBE-HP-ABCDEF'),
  ...others('-A KUBE-HP-ABCDEF -s 10.244.1.9/32 -j KUBE-MARK-MASQ'),
  ...others('-A KUBE-HP-ABCDEF -p tcp -m tcp -j DNAT --to-destination 10.244.1.9:443'),
  ...others('-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000'),
  ...kubeProxy(
    `-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j ${svc}`,
    `-A ${svc} ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ`,
  ),
  ...others('COMMIT'),
];

/** kube-proxy's nftables mode with one Service, for `nft -f -`. */
export function nftablesRules(family: 'ip' | 'ip6', of: Addresses): string {
  const { vip, endpoints } = of;
  const type = family === 'ip' ? 'ipv4_addr' : 'ipv6_addr';
  const service = 'service-ULMVA6XW-shop/web/tcp/http';
  const ends = endpoints.map((address) => {
    const hash = address === endpoints[0] ? 'GTK6MW7G' : '6KJ5P52A';
    const name = `endpoint-${hash}-shop/web/tcp/http__${address.replaceAll(':', '.')}/8080`;
    return { name, address };
  });
  const to = (address: string): string => of.target(address);
  return `table ${family} kube-proxy {
  comment "rules for kube-proxy"
  set cluster-ips {
    type ${type}
    elements = { ${vip} }
  }
  map service-ips {
    type ${type} . inet_proto . inet_service : verdict
    elements = { ${vip} . tcp . 80 : goto ${service} }
  }
  chain mark-for-masquerade {
    meta mark set meta mark or 0x4000
  }
  chain masquerading {
    meta mark and 0x4000 == 0 return
    meta mark set meta mark xor 0x4000
    masquerade fully-random
  }
  chain ${ends[0]!.name} {
    ${family} saddr ${ends[0]!.address} jump mark-for-masquerade
    meta l4proto tcp dnat to ${to(ends[0]!.address)}
  }
  chain ${ends[1]!.name} {
    ${family} saddr ${ends[1]!.address} jump mark-for-masquerade
    meta l4proto tcp dnat to ${to(ends[1]!.address)}
  }
  chain ${service} {
    numgen random mod 2 vmap { 0 : goto ${ends[0]!.name}, 1 : goto ${ends[1]!.name} }
  }
  chain services {
    ${family} daddr . meta l4proto . th dport vmap @service-ips
  }
  chain nat-prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    jump services
  }
  chain nat-output {
    type nat hook output priority -100; policy accept;
    jump services
  }
  chain nat-postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    jump masquerading
  }
}
`;
}

/** A user's own firewall in nftables. */
export const userTable = `table inet mine {
  counter seen {
    packets 7 bytes 420
  }
  set blocked {
    type ipv4_addr
    flags interval
    elements = { 198.51.100.0/24 }
  }
  chain input {
    type filter hook input priority filter; policy accept;
    ip saddr @blocked counter packets 3 bytes 180 drop
    tcp dport 22 counter name seen accept
  }
}
table ip kube-proxy-mine {
  chain KUBE-SERVICES {
    counter packets 1 bytes 60
  }
}
`;

/** A KUBE-SERVICES that leads to ten thousand chains of Services. */
export function tenThousandChains(): string {
  const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  const name = (i: number): string => {
    const digits = [i % 32, (i >> 5) % 32, (i >> 10) % 32, (i >> 15) % 32];
    return `KUBE-SVC-${digits.map((digit) => letters[digit]).join('')}AAAAAAAAAAAA`;
  };
  const chains = Array.from({ length: 10_000 }, (_, i) => name(i));
  return [
    '*nat',
    ':PREROUTING ACCEPT [0:0]',
    ':KUBE-SERVICES - [0:0]',
    ...chains.map((chain) => `:${chain} - [0:0]`),
    '-A PREROUTING -j KUBE-SERVICES',
    ...chains.map((chain, i) => `-A KUBE-SERVICES -p tcp --dport ${i + 1} -j ${chain}`),
    'COMMIT',
    '',
  ].join('\n');
}
