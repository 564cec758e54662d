import {
  ABYSS_IP,
  type ActorName,
  CLIENT_IP,
  CLIENT_MORE_IPS,
  CLIENT_OTHER_IP,
  type DualAddresses,
  EXTERNAL_CIDR,
  LB_CIDR,
  NODE_BRIDGE_IP,
  NODE_IP,
  NODE_POD_CIDR,
  NODE_SECOND_IP,
  NODE2_IP,
  NODE2_POD_CIDR,
  NODE2_POD_GATEWAY,
  NOWHERE_CIDR,
  PLACES,
  type Place,
  POD_A_IP,
  POD_B_IP,
  POD_BRIDGE,
  POD_C_IP,
  ROUTER_CLIENT_IP,
  ROUTER_LAN_IP,
  ROUTER_SECOND_LAN_IP,
  SERVICE_CIDR,
} from './addresses.ts';

/** Names of the namespaces of one lab. */
export type NamespaceOf = (place: Place) => string;

/** Sysctls, set in every namespace before it has links: new links copy the `default` values. */
const SYSCTLS: readonly (readonly [string, string])[] = [
  // Addresses, link-local ones too, are usable immediately instead of after 1–2 s of detection.
  ['ipv6/conf/default/accept_dad', '0'],
  ['ipv6/conf/all/accept_dad', '0'],
  ['ipv6/conf/default/accept_ra', '0'],
  // Two pods are behind one gateway. The node must not redirect them around its NAT.
  ['ipv6/conf/default/accept_redirects', '0'],
  ['ipv4/conf/all/accept_redirects', '0'],
  ['ipv4/conf/default/accept_redirects', '0'],
  ['ipv4/conf/all/send_redirects', '0'],
  ['ipv4/conf/default/send_redirects', '0'],
  // Requests to the second node IP come in on one link, and answers leave by another.
  ['ipv4/conf/all/rp_filter', '0'],
  ['ipv4/conf/default/rp_filter', '0'],
  // By default the kernel sends no seventh refusal in a row to one peer (xrlim_allow), and there is
  // a limit for all peers, too (icmp_global_allow). Only types in these masks are limited. The mask
  // of ICMPv6 can't be empty, so it keeps packet too big.
  ['ipv4/icmp_ratemask', '0'],
  ['ipv6/icmp/ratemask', '2'],
];

const FORWARDING: readonly (readonly [string, string])[] = [
  ['ipv4/ip_forward', '1'],
  ['ipv6/conf/all/forwarding', '1'],
  ['ipv6/conf/default/forwarding', '1'],
];

const FORWARDERS: readonly Place[] = ['node', 'node2', 'router'];

/**
 * The whole set-up as one script for `sh -e`. It needs ip(8) and the right to make network
 * namespaces. The output names a line that fails (`Command failed -:12`).
 */
export function setupScript(ns: NamespaceOf): string {
  return [
    batch('', [...PLACES.map((place) => `netns add ${ns(place)}`)]),
    ...PLACES.map((place) => sysctlScript(ns(place), place)),
    batch('', linkLines(ns)),
    ...PLACES.map((place) => batch(`-n ${ns(place)}`, placeLines(place))),
  ].join('\n');
}

function batch(option: string, lines: readonly string[]): string {
  return `ip ${option} -batch - <<'.'\n${lines.join('\n')}\n.`;
}

function sysctlScript(namespace: string, place: Place): string {
  const settings = FORWARDERS.includes(place) ? [...SYSCTLS, ...FORWARDING] : SYSCTLS;
  // A bridge must not run the IP hooks, because that would depend on br_netfilter being loaded. The
  // pods have host routes to their gateway, so that all their traffic is routed anyway.
  const bridge = '[ ! -d bridge ] || for f in bridge/bridge-nf-call-*; do echo 0 >$f; done';
  const writes = settings.map(([key, value]) => `echo ${value} >${key}`);
  return `ip netns exec ${namespace} sh -ec 'cd /proc/sys/net; ${[...writes, bridge].join('; ')}'`;
}

function linkLines(ns: NamespaceOf): string[] {
  // The two ends need different indexes: by them the kernel distinguishes a veth from a real link,
  // whose carrier it lets come on up to a second late (linkwatch_urgent_event).
  let index = 100;
  const veth = (a: Place, nameA: string, b: Place, nameB: string): string => {
    index += 2;
    const peer = `peer name ${nameB} index ${index + 1} netns ${ns(b)}`;
    return `link add ${nameA} index ${index} netns ${ns(a)} type veth ${peer}`;
  };
  return [
    `link add lan netns ${ns('router')} type bridge`,
    `link add ${POD_BRIDGE} netns ${ns('node')} type bridge`,
    veth('node', 'eth0', 'router', 'lan-node'),
    veth('node', 'eth1', 'router', 'lan2'),
    veth('node2', 'eth0', 'router', 'lan-node2'),
    veth('client', 'eth0', 'router', 'outside'),
    veth('pod-a', 'eth0', 'node', 'veth-a'),
    veth('pod-b', 'eth0', 'node', 'veth-b'),
    veth('pod-c', 'eth0', 'node2', POD_BRIDGE),
  ];
}

/** Address, link, default route; /24 and /64 unless the address is a pod's. */
function address(device: string, addresses: DualAddresses): string[] {
  return [
    `addr add ${addresses.IPv4}/24 dev ${device}`,
    `addr add ${addresses.IPv6}/64 dev ${device} nodad`,
  ];
}

function up(...devices: string[]): string[] {
  return ['lo', ...devices].map((device) => `link set ${device} up`);
}

function route(cidr: DualAddresses, via: DualAddresses): string[] {
  return [`route add ${cidr.IPv4} via ${via.IPv4}`, `route add ${cidr.IPv6} via ${via.IPv6}`];
}

const DEFAULT_ROUTE: DualAddresses = { IPv4: 'default', IPv6: 'default' };

/** A pod has a host address and reaches everything, its neighbour too, through its gateway. */
function podLines(addresses: DualAddresses, gateway: DualAddresses): string[] {
  return [
    ...up('eth0'),
    `addr add ${addresses.IPv4}/32 dev eth0`,
    `addr add ${addresses.IPv6}/128 dev eth0 nodad`,
    `route add ${gateway.IPv4} dev eth0`,
    `route add ${gateway.IPv6} dev eth0`,
    ...route(DEFAULT_ROUTE, gateway),
  ];
}

function placeLines(place: Place): string[] {
  return place === 'router' ? routerLines() : actorLines(place);
}

function actorLines(actor: ActorName): string[] {
  switch (actor) {
    case 'node':
      return [
        'link set veth-a master cni0',
        'link set veth-b master cni0',
        ...up('eth0', 'eth1', POD_BRIDGE, 'veth-a', 'veth-b'),
        ...address('eth0', NODE_IP),
        ...address('eth1', NODE_SECOND_IP),
        ...address(POD_BRIDGE, NODE_BRIDGE_IP),
        ...route(NODE2_POD_CIDR, NODE2_IP),
        ...route(DEFAULT_ROUTE, ROUTER_LAN_IP),
      ];
    case 'node2':
      return [
        ...up('eth0', POD_BRIDGE),
        ...address('eth0', NODE2_IP),
        ...address(POD_BRIDGE, NODE2_POD_GATEWAY),
        ...Object.values(ABYSS_IP).map((address) => `route add blackhole ${address}`),
        ...route(NODE_POD_CIDR, NODE_IP),
        ...route(DEFAULT_ROUTE, ROUTER_LAN_IP),
      ];
    case 'client':
      return [
        ...up('eth0'),
        ...address('eth0', CLIENT_IP),
        ...[CLIENT_OTHER_IP, ...CLIENT_MORE_IPS].flatMap((each) => [
          ...address('eth0', each),
          // Without this, IPv6 would prefer the newest address as a source.
          `addr change ${each.IPv6}/64 dev eth0 nodad preferred_lft 0`,
        ]),
        ...route(DEFAULT_ROUTE, ROUTER_CLIENT_IP),
      ];
    case 'pod-a':
      return podLines(POD_A_IP, NODE_BRIDGE_IP);
    case 'pod-b':
      return podLines(POD_B_IP, NODE_BRIDGE_IP);
    case 'pod-c':
      return podLines(POD_C_IP, NODE2_POD_GATEWAY);
  }
}

function routerLines(): string[] {
  return [
    'link set lan-node master lan',
    'link set lan-node2 master lan',
    ...up('lan', 'lan-node', 'lan-node2', 'lan2', 'outside'),
    ...address('lan', ROUTER_LAN_IP),
    ...address('lan2', ROUTER_SECOND_LAN_IP),
    ...address('outside', ROUTER_CLIENT_IP),
    ...[SERVICE_CIDR, LB_CIDR, EXTERNAL_CIDR, NODE_POD_CIDR].flatMap((c) => route(c, NODE_IP)),
    ...route(NODE2_POD_CIDR, NODE2_IP),
    `route add local ${NOWHERE_CIDR.IPv4} dev lo`,
    `route add local ${NOWHERE_CIDR.IPv6} dev lo`,
  ];
}
