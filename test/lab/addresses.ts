/**
 * The address plan of the lab (drawn in README.md). All addresses are inside namespaces that the
 * lab makes, so that none can collide with the machine's own.
 */

export const FAMILIES = ['IPv4', 'IPv6'] as const;
/** As EndpointSlice.addressType and Service.spec.ipFamilies spell it. */
export type Family = (typeof FAMILIES)[number];

/** An address in each family; a family may be missing. */
export type Addresses = Readonly<Partial<Record<Family, string>>>;
export type DualAddresses = Readonly<Record<Family, string>>;

/** Namespaces with an agent, which can connect and serve. */
export const ACTORS = ['node', 'pod-a', 'pod-b', 'node2', 'pod-c', 'client'] as const;
export type ActorName = (typeof ACTORS)[number];

/** All namespaces. The router only forwards. */
export const PLACES = [...ACTORS, 'router'] as const;
export type Place = (typeof PLACES)[number];

/** The Node object's name of the node under test, and of its neighbour. */
export const NODE_NAME = 'node';
export const SECOND_NODE_NAME = 'node2';

function dual(IPv4: string, IPv6: string): DualAddresses {
  return { IPv4, IPv6 };
}

/** Primary node IP of the node under test. */
export const NODE_IP = dual('192.168.10.1', 'fd00:10::1');
/** The node under test's address on its second network. */
export const NODE_SECOND_IP = dual('192.168.20.1', 'fd00:20::1');
/** The node under test's address on the pod bridge: what pods see after masquerading. */
export const NODE_BRIDGE_IP = dual('10.244.1.1', 'fd00:244:1::1');
export const NODE2_IP = dual('192.168.10.2', 'fd00:10::2');
export const NODE2_POD_GATEWAY = dual('10.244.2.1', 'fd00:244:2::1');
export const POD_A_IP = dual('10.244.1.2', 'fd00:244:1::2');
export const POD_B_IP = dual('10.244.1.3', 'fd00:244:1::3');
export const POD_C_IP = dual('10.244.2.2', 'fd00:244:2::2');
/** On the second node's pod network, where no host answers, and none ever refuses. */
export const ABYSS_IP = dual('10.244.2.77', 'fd00:244:2::77');
export const CLIENT_IP = dual('198.51.100.10', '2001:db8:51::10');
/** Further addresses of the client, outside 198.51.100.0/28 and 2001:db8:51::/123. */
export const CLIENT_OTHER_IP = dual('198.51.100.20', '2001:db8:51::20');
export const CLIENT_MORE_IPS = [30, 40, 50, 60].map((last) =>
  dual(`198.51.100.${last}`, `2001:db8:51::${last}`),
);
export const ROUTER_LAN_IP = dual('192.168.10.254', 'fd00:10::fe');
export const ROUTER_SECOND_LAN_IP = dual('192.168.20.254', 'fd00:20::fe');
export const ROUTER_CLIENT_IP = dual('198.51.100.1', '2001:db8:51::1');

export const NODE_POD_CIDR = dual('10.244.1.0/24', 'fd00:244:1::/64');
export const NODE2_POD_CIDR = dual('10.244.2.0/24', 'fd00:244:2::/64');
export const CLUSTER_CIDR = dual('10.244.0.0/16', 'fd00:244::/32');
export const SERVICE_CIDR = dual('10.96.0.0/16', 'fd00:96::/112');
export const LB_CIDR = dual('203.0.113.0/24', '2001:db8:1::/64');
/** These addresses belong to the router, which refuses every connection to them by a reset. */
export const NOWHERE_CIDR = dual('172.20.0.0/16', 'fd00:dead::/64');
export const EXTERNAL_CIDR = dual('192.0.2.0/24', '2001:db8:2::/64');

/** The bridge of the node under test, for the BridgeInterface detector. */
export const POD_BRIDGE = 'cni0';

/** ClusterIPs 10.96.0.n and fd00:96::n (n written in hexadecimal). */
export function clusterIp(n: number): DualAddresses {
  return dual(`10.96.0.${n}`, `fd00:96::${n.toString(16)}`);
}

/** Load-balancer ingress addresses, routed by the router to the node under test. */
export function lbVip(n: number): DualAddresses {
  return dual(`203.0.113.${n}`, `2001:db8:1::${n.toString(16)}`);
}

/** Addresses for spec.externalIPs, routed by the router to the node under test. */
export function externalIp(n: number): DualAddresses {
  return dual(`192.0.2.${n}`, `2001:db8:2::${n.toString(16)}`);
}

/** The addresses of NOWHERE_CIDR one by one; n is less than 65,536. */
export function nowhere(n: number): DualAddresses {
  return dual(`172.20.${n >> 8}.${n & 0xff}`, `fd00:dead::${n.toString(16)}`);
}

const OWNED: Readonly<Record<ActorName, readonly DualAddresses[]>> = {
  node: [NODE_IP, NODE_SECOND_IP, NODE_BRIDGE_IP],
  'pod-a': [POD_A_IP],
  'pod-b': [POD_B_IP],
  node2: [NODE2_IP, NODE2_POD_GATEWAY],
  'pod-c': [POD_C_IP],
  client: [CLIENT_IP, CLIENT_OTHER_IP, ...CLIENT_MORE_IPS],
};

/** The first address of an actor: what a Node's or a pod's status would say. */
export function addressOf(actor: ActorName): DualAddresses {
  return OWNED[actor][0]!;
}

/** Every address that the lab gives to an actor, of both families. */
export function addressesOf(actor: ActorName): readonly string[] {
  return OWNED[actor].flatMap((addresses) => [addresses.IPv4, addresses.IPv6]);
}

/**
 * The actor that has an address, written as in this file; undefined for VIPs and fake endpoints.
 */
export function actorAt(address: string): ActorName | undefined {
  return ACTORS.find((actor) => addressesOf(actor).includes(address));
}

export function familyOf(address: string): Family {
  return address.includes(':') ? 'IPv6' : 'IPv4';
}

/** `10.96.0.10:80` or `[fd00:96::a]:80`. */
export function hostPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}
