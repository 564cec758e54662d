/** Random clusters as one node sees them: few objects, of which each field may have any value. */
import type { Random } from '../chaos/random.ts';
import type { Raw } from '../fake/api-server-store.ts';

/** A step of a world. Objects are named as `Service shop/s1`. */
export type Edit =
  | { readonly put: Raw }
  | { readonly gone: string }
  | { readonly restart: true }
  /** The addresses of the node's interfaces. */
  | { readonly interfaces: readonly string[] };

/** A cluster and what becomes of it. After each round, packets are compared. */
export interface World {
  readonly flags: readonly string[];
  readonly rounds: readonly (readonly Edit[])[];
}

type IP = 'IPv4' | 'IPv6';

export const ownNode = 'node-1';
/** The second one is not the Node's. */
export const interfaces = ['192.0.2.1', '2001:db8::1', '192.0.2.2', '2001:db8::2'];
export const podCIDRs = ['10.244.0.0/16', 'fd00:10:244::/56'];
/** `none` of these is any Service's. */
export const serviceRange: Readonly<Record<IP, (n: number | 'none') => string>> = {
  IPv4: (n) => (n === 'none' ? '10.96.9.9' : `10.96.0.${n + 1}`),
  IPv6: (n) => (n === 'none' ? 'fd00:10:96::9:9' : `fd00:10:96::${n + 1}`),
};
export const podAddress: Readonly<Record<IP, (node: number, host: number) => string>> = {
  IPv4: (node, host) => `10.244.${node}.${host}`,
  IPv6: (node, host) => `fd00:10:244:${node}::${host}`,
};

const serviceCount = 4;
const slicesMax = 3;
const externals = {
  IPv4: ['198.51.100.1', '198.51.100.2', '203.0.113.1', '192.0.2.1', '192.0.2.2', '192.0.2.9'],
  IPv6: ['2001:db8:c::1', '2001:db8:c::2', '2001:db8::1', '2001:db8::2', '2001:db8::9'],
} as const;
const notAddresses = ['0.0.0.0', '127.0.0.1', '169.254.1.1', 'ff02::1', 'host.example'];
const ranges = [
  '10.244.0.0/16',
  '192.0.2.0/30',
  '198.51.100.0/24',
  'fd00::/8',
  '2001:db8::/64',
  '0.0.0.0/0',
  'x',
];
/** Served by a Service whose endpoints have the port at which it begins. */
const portRange = '80-443';
const ranged = 1;

export class WorldMaker {
  readonly #random: Random;
  readonly #isServed: boolean;

  /**
   * `isServed`: worlds as an API server has them, with its defaults and without what it refuses. No
   * endpoint is named twice, and no frontend by two Services.
   */
  constructor(random: Random, isServed = false) {
    this.#random = random;
    this.#isServed = isServed;
  }

  world(rounds: number): World {
    const first = [
      this.#node(),
      ...(this.#chance(4) ? [] : [this.#serviceCIDR()]),
      ...Array.from({ length: 1 + this.#random.below(serviceCount) }, (_, n) => n).flatMap((n) => [
        this.#service(n),
        ...Array.from({ length: this.#random.below(4) }, () => this.#slice(n)),
      ]),
    ];
    const later = Array.from({ length: rounds - 1 }, () =>
      Array.from({ length: 1 + this.#random.below(4) }, () => this.#edit()),
    );
    return { flags: this.#flags(), rounds: [first.map((put) => ({ put })), ...later] };
  }

  #chance(oneIn: number): boolean {
    return this.#random.below(oneIn) === 0;
  }

  /** Some of these, in their order. */
  #some<T>(from: readonly T[], oneIn = 2): T[] {
    return from.filter(() => this.#chance(oneIn));
  }

  /** A field that may be absent. */
  #maybe(oneIn: number, field: string, make: () => unknown): Raw {
    return this.#chance(oneIn) ? { [field]: make() } : {};
  }

  #flags(): string[] {
    const { pick } = { pick: <T>(from: readonly T[]) => this.#random.pick(from) };
    const detector = pick([
      [],
      ['--detect-local-mode=NodeCIDR'],
      ['--detect-local-mode=BridgeInterface', '--pod-bridge-interface=veth0'],
      ['--detect-local-mode=InterfaceNamePrefix', '--pod-interface-name-prefix=veth'],
    ]);
    const nodePorts = pick([
      'primary',
      '192.0.2.0/24,2001:db8::/64',
      '192.0.2.2/32',
      '0.0.0.0/0,::/0',
      this.#isServed ? 'primary' : 'primary,localhost',
    ]);
    const cidr = pick([
      `--cluster-cidr=${podCIDRs}`,
      `--cluster-cidr=${podCIDRs}`,
      `--cluster-cidr=${podCIDRs[0]}`,
      '',
    ]);
    return [
      ...detector,
      ...(cidr === '' ? [] : [cidr]),
      ...(this.#chance(4) ? [] : [`--nodeport-addresses=${nodePorts}`]),
      ...(this.#chance(6) ? ['--masquerade-all'] : []),
      ...(this.#chance(6) && !this.#isServed
        ? ['--external-ip-cidrs=192.0.2.0/24,198.51.100.0/24,::/0']
        : []),
    ];
  }

  #edit(): Edit {
    const random = this.#random;
    const n = random.below(serviceCount);
    switch (random.below(16)) {
      case 0:
        return { gone: `Service ${nameOf(n)}` };
      case 1:
        return { gone: `EndpointSlice ${nameOf(n)}-${random.below(slicesMax)}` };
      case 2:
        return { put: this.#node() };
      case 3:
        return this.#chance(2) ? { gone: 'ServiceCIDR kubernetes' } : { put: this.#serviceCIDR() };
      case 4:
        return { restart: true };
      case 5:
        return { interfaces: interfaces.slice(0, this.#random.pick([2, 3, 4])) };
      default:
        return { put: this.#chance(2) ? this.#service(n) : this.#slice(n) };
    }
  }

  #node(): Raw {
    const labels = { 'topology.kubernetes.io/zone': this.#random.pick(['a', 'a', 'b']) };
    const addresses = [interfaces[0], interfaces[1]].map((address) => ({
      type: 'InternalIP',
      address,
    }));
    const cidrs = ['10.244.1.0/24', 'fd00:10:244:1::/64'];
    return {
      kind: 'Node',
      metadata: { name: ownNode, uid: 'node', ...(this.#chance(6) ? {} : { labels }) },
      // kube-proxy waits for them.
      spec: this.#chance(6) && !this.#isServed ? {} : { podCIDR: cidrs[0], podCIDRs: cidrs },
      status: { addresses: this.#chance(6) ? addresses.toReversed() : addresses },
    };
  }

  #serviceCIDR(): Raw {
    const cidrs = this.#random.pick([['10.96.0.0/16', 'fd00:10:96::/112'], ['10.96.0.0/16']]);
    return { kind: 'ServiceCIDR', metadata: { name: 'kubernetes', uid: 'cidr' }, spec: { cidrs } };
  }

  #service(n: number): Raw {
    const random = this.#random;
    const type = random.pick(['ClusterIP', 'NodePort', 'LoadBalancer', 'LoadBalancer']);
    const ipFamilies = random.pick<readonly IP[]>([
      ['IPv4'],
      ['IPv4', 'IPv6'],
      ['IPv6', 'IPv4'],
      ['IPv6'],
    ]);
    // The API server gives each address once; manifests may not.
    const owner = this.#chance(12) && !this.#isServed ? random.below(serviceCount) : n;
    const clusterIPs = ipFamilies.map((family) => serviceRange[family](owner));
    const policies = ['Cluster', 'Local'];
    const { metadata } = named('Service', n);
    const spec = {
      type,
      clusterIP: clusterIPs[0],
      clusterIPs,
      ...this.#maybe(this.#isServed ? 1 : 1.2, 'ipFamilies', () => ipFamilies),
      ...this.#maybe(2, 'internalTrafficPolicy', () => random.pick(policies)),
      ...(type !== 'ClusterIP' || this.#chance(8)
        ? { externalTrafficPolicy: random.pick(policies) }
        : {}),
      ...this.#maybe(3, 'externalIPs', () => this.#addresses()),
      ...this.#maybe(3, 'loadBalancerSourceRanges', () =>
        this.#some(this.#isServed ? ranges.slice(0, -1) : ranges, 4),
      ),
      ...this.#maybe(4, 'sessionAffinity', () => random.pick(['ClientIP', 'None'])),
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
      ...this.#maybe(4, 'trafficDistribution', () =>
        random.pick(['PreferClose', 'PreferSameNode']),
      ),
      ...this.#maybe(8, 'publishNotReadyAddresses', () => true),
      ...this.#maybe(4, 'healthCheckNodePort', () => 32_000 + n),
      ports: this.#ports(type, n),
    };
    const ingress = this.#addresses().map((ip) => ({
      ...(ip.includes('example') ? { hostname: ip } : { ip }),
      ...this.#maybe(3, 'ipMode', () => random.pick(['VIP', 'Proxy'])),
    }));
    const loadBalancer = type === 'LoadBalancer' && !this.#chance(6) ? { ingress } : {};
    const labels = random.pick([
      { 'service.kubernetes.io/headless': '' },
      { 'service.kubernetes.io/service-proxy-name': 'other' },
    ]);
    return {
      kind: 'Service',
      metadata: {
        ...metadata,
        ...(this.#chance(25) ? { labels } : {}),
        // Without a draw, so that seeds keep their worlds.
        ...(this.#isServed ? {} : { annotations: annotationsOf(n) }),
      },
      spec: this.#chance(25) ? { ...spec, clusterIP: 'None', clusterIPs: ['None'] } : spec,
      status: { loadBalancer },
    };
  }

  #ports(type: string, n: number): Raw[] {
    const random = this.#random;
    const count = 1 + random.below(2);
    return Array.from({ length: count }, (_, i) => ({
      ...(count === 1 && this.#chance(2) ? {} : { name: `p${i}` }),
      ...(this.#isServed && { protocol: 'TCP' }),
      ...this.#maybe(1.2, 'protocol', () => random.pick(['TCP', 'TCP', 'UDP', 'SCTP'])),
      port: this.#isServed ? 80 + 2 * n + i : random.pick([80, 81, 443, 30_001]),
      targetPort: 8080,
      ...(type === 'ClusterIP' ? {} : this.#maybe(1.2, 'nodePort', () => this.#nodePort(n, i))),
    }));
  }

  #nodePort(n: number, i: number): number {
    return 30_000 + (this.#isServed ? 2 * n + i : this.#random.below(3));
  }

  /** Of outside, of the node, of another machine, of another Service, or none at all. */
  #addresses(): string[] {
    const random = this.#random;
    return Array.from({ length: 1 + random.below(2) }, () => {
      const family = random.pick<IP>(['IPv4', 'IPv4', 'IPv6']);
      if (this.#chance(12) && !this.#isServed) return random.pick(notAddresses);
      if (this.#chance(8)) return serviceRange[family](random.below(serviceCount));
      return random.pick(externals[family]);
    });
  }

  #slice(n: number): Raw {
    const random = this.#random;
    const addressType = random.pick<IP>(['IPv4', 'IPv4', 'IPv6']);
    const part = random.below(slicesMax);
    const { metadata } = named('EndpointSlice', n, `-${part}`);
    const labels = { 'kubernetes.io/service-name': `s${n}` };
    return {
      kind: 'EndpointSlice',
      metadata: { ...metadata, labels },
      addressType,
      ports: ['p0', 'p1', ''].flatMap((name) =>
        this.#protocols().map((protocol) => ({
          ...(name === '' && !this.#isServed ? {} : { name }),
          protocol,
          port: this.#isServed ? 8080 + part : this.#targetPort(n),
        })),
      ),
      endpoints: Array.from({ length: random.below(4) }, (_, i) =>
        this.#endpoint(addressType, n, i),
      ),
    };
  }

  #targetPort(n: number): number {
    const port = this.#random.pick([8080, 8080, 8081]);
    return n === ranged ? port - 8000 : port;
  }

  /** Of a port of a slice: a name may stand there once. */
  #protocols(): string[] {
    const some = this.#some(['TCP', 'UDP', 'SCTP'], 1.3);
    return this.#isServed ? some.slice(0, 1) : some;
  }

  #endpoint(family: IP, n: number, i: number): Raw {
    const random = this.#random;
    const node = 1 + random.below(2);
    const hosts = { 1: externals[family].at(-3)!, 2: externals[family].at(-1)! };
    const isHost = this.#chance(namespaceOf(n) === 'shop' ? 8 : 2) && !(this.#isServed && i > 0);
    const address = isHost
      ? hosts[node as 1 | 2]
      : podAddress[family](node, this.#isServed ? 1 + i : 1 + random.below(5));
    const isReady = this.#chance(1.4);
    const zone = random.pick(['a', 'b']);
    const hints = {
      ...this.#maybe(1.2, 'forZones', () => this.#some(['a', 'b'], 1.5).map((name) => ({ name }))),
      ...this.#maybe(3, 'forNodes', () => [{ name: `node-${1 + random.below(2)}` }]),
    };
    return {
      addresses: [address, ...(this.#chance(12) ? [podAddress[family](2, 9)] : [])],
      ...this.#maybe(1.15, 'nodeName', () => `node-${node}`),
      ...this.#maybe(1.2, 'zone', () => zone),
      conditions: {
        ...this.#maybe(1.1, 'ready', () => isReady),
        ...this.#maybe(2, 'serving', () => isReady || this.#chance(2)),
        ...this.#maybe(2, 'terminating', () => !isReady && this.#chance(2)),
      },
      ...this.#maybe(2, 'hints', () => hints),
    };
  }
}

function annotationsOf(n: number): Raw {
  if (n === ranged) return { 'fairlead.io/port-range': portRange };
  return n % 2 === 0 ? { 'fairlead.io/source-ranges': 'all' } : {};
}

/** The slices of kube-system may show which addresses are other machines. */
function namespaceOf(n: number): string {
  return n === 3 ? 'kube-system' : 'shop';
}

function nameOf(n: number): string {
  return `${namespaceOf(n)}/s${n}`;
}

function named(kind: string, n: number, suffix = '') {
  const name = `s${n}${suffix}`;
  const creationTimestamp = `2026-01-01T00:00:0${n}Z`;
  return {
    metadata: { name, namespace: namespaceOf(n), uid: `${kind}-${name}`, creationTimestamp },
  };
}
