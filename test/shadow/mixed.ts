/** A cluster in which Services have of everything some: each trait comes with each other one. */

export type Raw = Readonly<Record<string, unknown>>;

const traits = [
  ...['dual', 'ipv6', 'balancer', 'nodePort', 'internalLocal', 'externalLocal', 'external'],
  ...['sticky', 'udp', 'twoPorts', 'unnamed', 'ranges', 'nodeInRanges', 'proxied', 'empty'],
  ...['terminating', 'oneTerminating', 'oneUnready', 'elsewhere', 'hinted'],
] as const;
type Trait = (typeof traits)[number];

/** One in this number has the trait, in every combination with others, and always the same ones. */
function has(i: number, trait: Trait, oneIn: number): boolean {
  let hash = Math.imul(i + 1, 0x9e3779b1) ^ Math.imul(traits.indexOf(trait) + 1, 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return ((hash ^ (hash >>> 13)) >>> 0) % oneIn === 0;
}

const zone = 'zone-a';
export const nodeName = 'node-1';

/** What applies to all Services. */
export const surroundings: readonly Raw[] = [
  {
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: ['10.96.0.0/12', 'fd00:96::/108'] },
  },
  node(),
];

export const clusterCIDR = '10.244.0.0/16,fd00:244::/48';

function node(): Raw {
  return {
    kind: 'Node',
    metadata: { name: nodeName, labels: { 'topology.kubernetes.io/zone': zone } },
    spec: { podCIDRs: ['10.244.1.0/24', 'fd00:244:1::/64'] },
    status: {
      addresses: [
        { type: 'InternalIP', address: '192.0.2.1' },
        { type: 'InternalIP', address: 'fd00:1::1' },
      ],
    },
  };
}

/** Services that have each trait, and suit each kind of plant: `recorded` is of these. */
export const recordedServices: readonly number[] = [
  0, 1, 2, 3, 4, 6, 10, 11, 15, 16, 18, 22, 24, 32, 33, 36, 37,
];

/** These Services with their slices, which are the same at each call. */
export function* mixedObjects(services: Iterable<number>): Generator<Raw> {
  for (const i of services) {
    yield serviceOf(i);
    yield* slicesOf(i);
  }
}

export function slicesOf(i: number): Raw[] {
  return familiesOf(i).map((family) => sliceOf(i, family));
}

export function nameOf(i: number): { readonly namespace: string; readonly name: string } {
  return { namespace: `team-${i % 17}`, name: `svc-${i}` };
}

type Family = 'IPv4' | 'IPv6';

function familiesOf(i: number): readonly Family[] {
  if (has(i, 'dual', 7)) return ['IPv4', 'IPv6'];
  return has(i, 'ipv6', 13) ? ['IPv6'] : ['IPv4'];
}

const low = (i: number): string => `${(i >> 8) & 255}.${i & 255}`;
const hex = (i: number): string => i.toString(16);

export function serviceOf(i: number): Raw {
  const families = familiesOf(i);
  const addresses = { IPv4: `10.96.${low(i)}`, IPv6: `fd00:96::${hex(i + 1)}` };
  const externals = { IPv4: `198.18.${low(i)}`, IPv6: `2001:db8:18::${hex(i + 1)}` };
  const clusterIPs = families.map((family) => addresses[family]);
  const type = has(i, 'balancer', 3)
    ? 'LoadBalancer'
    : has(i, 'nodePort', 2)
      ? 'NodePort'
      : 'ClusterIP';
  return {
    kind: 'Service',
    metadata: { ...nameOf(i), uid: `uid-${i}`, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: {
      type,
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: families,
      ipFamilyPolicy: families.length === 2 ? 'RequireDualStack' : 'SingleStack',
      ports: portsOf(i, type !== 'ClusterIP'),
      internalTrafficPolicy: has(i, 'internalLocal', 11) ? 'Local' : 'Cluster',
      ...(type === 'ClusterIP'
        ? {}
        : { externalTrafficPolicy: has(i, 'externalLocal', 4) ? 'Local' : 'Cluster' }),
      ...(has(i, 'external', 19)
        ? { externalIPs: families.map((family) => externals[family]) }
        : {}),
      ...(has(i, 'sticky', 4)
        ? {
            sessionAffinity: 'ClientIP',
            sessionAffinityConfig: { clientIP: { timeoutSeconds: 600 + i } },
          }
        : { sessionAffinity: 'None' }),
      ...(type === 'LoadBalancer' ? balancerOf(i) : {}),
    },
    status: { loadBalancer: type === 'LoadBalancer' ? { ingress: ingressOf(i, families) } : {} },
  };
}

/** The API wants a name where there are several. */
function firstNameOf(i: number): string {
  return has(i, 'unnamed', 10) && !has(i, 'twoPorts', 8) ? '' : 'http';
}

function portsOf(i: number, hasNodePorts: boolean): Raw[] {
  const port = { protocol: has(i, 'udp', 6) ? 'UDP' : 'TCP', targetPort: 8080 };
  const first = { ...port, port: 80, ...(hasNodePorts ? { nodePort: 20_000 + 3 * i } : {}) };
  if (!has(i, 'twoPorts', 8)) return [{ ...first, name: firstNameOf(i) }];
  const second = { protocol: 'TCP', targetPort: 9090, port: 9090, name: 'metrics' };
  return [
    { ...first, name: firstNameOf(i) },
    { ...second, ...(hasNodePorts ? { nodePort: 20_001 + 3 * i } : {}) },
  ];
}

function balancerOf(i: number): Raw {
  const health = { healthCheckNodePort: has(i, 'externalLocal', 4) ? 20_002 + 3 * i : 0 };
  if (!has(i, 'ranges', 2)) return health;
  // The node's own address is in one of these now and then.
  const ranges = ['203.0.113.0/24', `198.51.${i & 255}.0/24`, 'fd00:51::/64'];
  return {
    ...health,
    loadBalancerSourceRanges: has(i, 'nodeInRanges', 4) ? [...ranges, '192.0.2.0/24'] : ranges,
  };
}

function ingressOf(i: number, families: readonly Family[]): Raw[] {
  const addresses = { IPv4: `100.65.${low(i)}`, IPv6: `2001:db8:65::${hex(i)}` };
  const ipMode = has(i, 'proxied', 23) ? 'Proxy' : 'VIP';
  return families.map((family) => ({ ip: addresses[family], ipMode }));
}

function sliceOf(i: number, family: Family): Raw {
  const count = has(i, 'empty', 9) ? 0 : (i % 5) + 1;
  return {
    kind: 'EndpointSlice',
    metadata: {
      namespace: nameOf(i).namespace,
      name: `svc-${i}-${family.toLowerCase()}`,
      labels: { 'kubernetes.io/service-name': `svc-${i}` },
    },
    addressType: family,
    endpoints: Array.from({ length: count }, (_, j) => endpointOf(i, j, family)),
    ports: [
      { name: firstNameOf(i), port: 8080, protocol: has(i, 'udp', 6) ? 'UDP' : 'TCP' },
      { name: 'metrics', port: 9090, protocol: 'TCP' },
    ],
  };
}

function endpointOf(i: number, j: number, family: Family): Raw {
  const address = family === 'IPv4' ? `10.24${j}.${low(i)}` : `fd00:244:${j}::${hex(i)}`;
  const isTerminating = has(i, 'terminating', 14) || (has(i, 'oneTerminating', 6) && j === 0);
  const isReady = !isTerminating && !(has(i, 'oneUnready', 12) && j === 1);
  return {
    addresses: [address],
    conditions: { ready: isReady, serving: isReady || isTerminating, terminating: isTerminating },
    nodeName: j === 1 && !has(i, 'elsewhere', 3) ? nodeName : `node-${2 + j}`,
    zone: j % 2 === 0 ? zone : 'zone-b',
    ...(has(i, 'hinted', 16)
      ? { hints: { forZones: [{ name: j % 2 === 0 ? zone : 'zone-b' }] } }
      : {}),
  };
}
