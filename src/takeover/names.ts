/**
 * What is provably kube-proxy's, by name (behaviour document 3.6, 6.2, 7.2, 8.7). Chains that
 * others share with it or own are not here: KUBE-FIREWALL and KUBE-KUBELET-CANARY are the kubelet's
 * too, KUBE-IPTABLES-HINT shows programs which iptables the node uses, KUBE-HOSTPORTS and KUBE-HP-*
 * are container runtimes'.
 */

/** The table of its nftables mode, in families ip and ip6. */
export const nftablesTable = 'kube-proxy';

export const iptablesTables = ['nat', 'filter', 'mangle'] as const;
export type IptablesTable = (typeof iptablesTables)[number];

/**
 * The one chain of our iptables mode that kube-proxy does not have. The others have kube-proxy's
 * names, as its users expect.
 */
export const ownChain = 'KUBE-HAIRPIN';

/** By this chain its iptables mode notices that others flush tables. */
export const canary = 'KUBE-PROXY-CANARY';

/** Chains of its iptables mode and of ours; some of them its ipvs mode has too. */
const chains: Readonly<Record<IptablesTable, readonly string[]>> = {
  nat: ['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ', canary, ownChain],
  filter: [
    'KUBE-SERVICES',
    'KUBE-EXTERNAL-SERVICES',
    'KUBE-NODEPORTS',
    'KUBE-FORWARD',
    'KUBE-PROXY-FIREWALL',
    canary,
  ],
  mangle: [canary],
};

/** Chains of its ipvs mode only. */
const ipvsChains: Readonly<Record<IptablesTable, readonly string[]>> = {
  nat: ['KUBE-NODE-PORT', 'KUBE-LOAD-BALANCER'],
  filter: [
    'KUBE-NODE-PORT',
    'KUBE-SOURCE-RANGES-FIREWALL',
    'KUBE-IPVS-FILTER',
    'KUBE-IPVS-OUT-FILTER',
  ],
  mangle: [],
};

/** A chain of a Service or an endpoint: the hash is 16 characters of base32 (section 7.3). */
const hashedChain = /^KUBE-(?:SVC|SVL|SEP|FW|EXT)-[A-Z2-7]{16}$/;

/** From the built-in chain to its own: the only places where kube-proxy ever put a jump. */
const jumps: Readonly<Record<IptablesTable, Readonly<Record<string, readonly string[]>>>> = {
  nat: {
    PREROUTING: ['KUBE-SERVICES'],
    OUTPUT: ['KUBE-SERVICES'],
    POSTROUTING: ['KUBE-POSTROUTING'],
  },
  filter: {
    INPUT: [
      'KUBE-SERVICES',
      'KUBE-EXTERNAL-SERVICES',
      'KUBE-NODEPORTS',
      'KUBE-NODE-PORT',
      'KUBE-PROXY-FIREWALL',
      'KUBE-IPVS-FILTER',
    ],
    FORWARD: ['KUBE-SERVICES', 'KUBE-EXTERNAL-SERVICES', 'KUBE-FORWARD', 'KUBE-PROXY-FIREWALL'],
    OUTPUT: ['KUBE-SERVICES', 'KUBE-PROXY-FIREWALL', 'KUBE-IPVS-OUT-FILTER'],
  },
  mangle: {},
};

/** Whether the chain is of its iptables mode or of ours, which have the same names. */
export function isIptablesChain(table: IptablesTable, chain: string): boolean {
  return chains[table].includes(chain) || (table === 'nat' && isServiceChain(chain));
}

export function isServiceChain(chain: string): boolean {
  return hashedChain.test(chain);
}

/** Whether only its ipvs mode has the chain. */
export function isIPVSChain(table: IptablesTable, chain: string): boolean {
  return ipvsChains[table].includes(chain);
}

/** Whether a rule of the built-in chain `from` that jumps to `to` can only be kube-proxy's. */
export function isKubeProxyJump(table: IptablesTable, from: string, to: string): boolean {
  return jumps[table][from]?.includes(to) === true;
}

/** The dummy interface of its ipvs mode. */
export const linkName = 'kube-ipvs0';

/** Sets of its ipvs mode (8.6); the names of IPv6's begin with KUBE-6- and are cut to 31 bytes. */
const ipsets = [
  'LOOP-BACK',
  'CLUSTER-IP',
  'EXTERNAL-IP',
  'EXTERNAL-IP-LOCAL',
  'LOAD-BALANCER',
  'LOAD-BALANCER-LOCAL',
  'LOAD-BALANCER-FW',
  'LOAD-BALANCER-SOURCE-IP',
  'LOAD-BALANCER-SOURCE-CIDR',
  'NODE-PORT-TCP',
  'NODE-PORT-UDP',
  'NODE-PORT-LOCAL-TCP',
  'NODE-PORT-LOCAL-UDP',
  'NODE-PORT-SCTP-HASH',
  'NODE-PORT-LOCAL-SCTP-HASH',
  'HEALTH-CHECK-NODE-PORT',
  'IPVS-IPS',
].flatMap(namesOfSet);

/** The sets that hold the node ports of a protocol. */
export const nodePortSets = {
  TCP: namesOfSet('NODE-PORT-TCP'),
  UDP: namesOfSet('NODE-PORT-UDP'),
  SCTP: namesOfSet('NODE-PORT-SCTP-HASH'),
} as const;

export function isIpset(name: string): boolean {
  return ipsets.includes(name);
}

function namesOfSet(name: string): readonly [string, string] {
  return [`KUBE-${name}`, `KUBE-6-${name}`.slice(0, 31)];
}
