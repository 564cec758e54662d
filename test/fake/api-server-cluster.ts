import type { FakeStore, Raw } from './api-server-store.ts';

/** Fields that controllers of a real cluster write into each object. They make sizes real. */
const uid = '3e0b6a5c-9d5f-4c1e-8a57-000000000000';

const families = ['IPv4', 'IPv6'] as const;
type Family = (typeof families)[number];

/** The cluster that `populate` makes. */
export interface ClusterSize {
  readonly services: number;
  /** The endpoints of each Service in each family. */
  readonly endpoints: number;
  /** Services have an address and a slice of each family. Default: of IPv4 only. */
  readonly dualStack?: boolean;
  /**
   * Services are load balancers of IPv4 with two ports, node ports, an external address, source
   * ranges, session affinity, and traffic policy Local with a health-check node port. There are
   * ports for at most 10,000 of them.
   */
  readonly rich?: boolean;
}

/**
 * Fills a store with Services, `svc-<i>` in 50 namespaces, each with one EndpointSlice a family,
 * and a ServiceCIDR. Addresses are unique up to a million Services of 254 endpoints.
 */
export function populate(
  store: FakeStore,
  { services, endpoints, dualStack = false, rich = false }: ClusterSize,
): void {
  const used = dualStack ? families : (['IPv4'] as const);
  const cidrs = { IPv4: '10.96.0.0/12', IPv6: 'fd00:96::/108' };
  store.apply({
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: used.map((family) => cidrs[family]) },
  });
  for (let i = 0; i < services; i += 1) {
    store.apply(rich ? enriched(service(i, used), i) : service(i, used));
    for (const family of used) {
      const addresses = Array.from({ length: endpoints }, (_, j) => endpointAddress(family, i, j));
      store.apply(slice(i, family, addresses, rich ? [...plainPorts, extraPort] : plainPorts));
    }
  }
}

/**
 * Replaces the address of one endpoint in each of `count` slices, one after the other. `keys`: those
 * of all slices. Each slice gets the time of the change as its trigger time. Only strings are
 * replaced: to parse and print slices of thirty endpoints takes longer than all work of a proxy.
 */
export function replaceEndpoints(
  store: FakeStore,
  count: number,
  keys = [...store.objects('endpointslices').keys()],
): void {
  const start = store.version;
  for (let n = 0; n < count && keys.length > 0; n += 1) {
    const at = (start + n) % keys.length;
    store.replaceStrings('endpointslices', keys[at]!, (json) => [
      { from: addressAt(json, at % 32), to: replacement(store.version) },
      { from: triggerPattern.exec(json)?.[1] ?? '', to: new Date().toISOString() },
    ]);
  }
}

const triggerPattern = /"endpoints.kubernetes.io\/last-change-trigger-time":"([^"]*)"/;

/** The address of the endpoint at `index`, modulo their number; empty when there is none. */
function addressAt(json: string, index: number): string {
  const key = '"addresses":["';
  const first = json.indexOf(key);
  if (first < 0) return '';
  let at = first;
  for (let i = 0; i < index; i += 1) {
    const next = json.indexOf(key, at + 1);
    at = next < 0 ? first : next;
  }
  const from = at + key.length;
  return json.slice(from, json.indexOf('"', from));
}

/** An address of 15 characters; there are 3.8 million. */
function replacement(number: number): string {
  const parts = [number / 156 ** 2, number / 156, number].map((n) => 100 + (Math.floor(n) % 156));
  return `100.${parts.join('.')}`;
}

/** The address of endpoint `j` of Service `i`. */
export function endpointAddress(family: Family, i: number, j: number): string {
  if (family === 'IPv6') return `fd00:11::${hextets(i)}:${(j + 1).toString(16)}`;
  return `${11 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}.${j + 1}`;
}

/** The address of Service `i`. */
export function serviceAddress(family: Family, i: number): string {
  if (family === 'IPv6') return `fd00:96::${hextets(i)}`;
  return `10.${96 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
}

/** A number of 32 bits as the two groups of an IPv6 address. */
function hextets(value: number): string {
  return `${(value >>> 16).toString(16)}:${(value & 0xffff).toString(16)}`;
}

function trigger(): Raw {
  const at = new Date().toISOString();
  return { annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': at } };
}

function service(i: number, used: readonly Family[]): Raw {
  const clusterIPs = used.map((family) => serviceAddress(family, i));
  return {
    kind: 'Service',
    metadata: {
      name: `svc-${i}`,
      namespace: `ns-${i % 50}`,
      uid,
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      clusterIP: clusterIPs[0],
      clusterIPs,
      internalTrafficPolicy: 'Cluster',
      ipFamilies: used,
      ipFamilyPolicy: used.length === 1 ? 'SingleStack' : 'RequireDualStack',
      ports: [{ name: 'http', port: 80, protocol: 'TCP', targetPort: 8080 }],
      selector: { app: `svc-${i}` },
      sessionAffinity: 'None',
      type: 'ClusterIP',
    },
    status: { loadBalancer: {} },
  };
}

/** See `ClusterSize.rich`. */
function enriched(plain: Raw, i: number): Raw {
  const low = `${(i >> 8) & 255}.${i & 255}`;
  const firstPort = 2000 + 3 * i;
  const port = { protocol: 'TCP', targetPort: 8080 };
  return {
    ...plain,
    spec: {
      ...(plain.spec as Raw),
      type: 'LoadBalancer',
      ports: [
        { ...port, name: 'http', port: 80, nodePort: firstPort },
        { ...port, name: 'metrics', port: 9090, nodePort: firstPort + 1 },
      ],
      externalIPs: [`100.64.${low}`],
      externalTrafficPolicy: 'Local',
      healthCheckNodePort: firstPort + 2,
      loadBalancerSourceRanges: ['192.0.2.0/24', `198.51.${i & 255}.0/24`],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
    },
    status: { loadBalancer: { ingress: [{ ip: `100.65.${low}`, ipMode: 'VIP' }] } },
  };
}

const plainPorts = [{ name: 'http', port: 8080, protocol: 'TCP' }];
const extraPort = { name: 'metrics', port: 9090, protocol: 'TCP' };

function slice(
  i: number,
  family: Family,
  addresses: readonly string[],
  ports: readonly Raw[],
): Raw {
  return {
    kind: 'EndpointSlice',
    metadata: {
      name: `svc-${i}-${family === 'IPv4' ? 'abcde' : 'vwxyz'}`,
      namespace: `ns-${i % 50}`,
      uid,
      creationTimestamp: '2026-01-01T00:00:00Z',
      generateName: `svc-${i}-`,
      labels: {
        'kubernetes.io/service-name': `svc-${i}`,
        'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io',
      },
      ...trigger(),
    },
    addressType: family,
    endpoints: addresses.map((text, j) => {
      const node = (i + j) % 1000;
      return {
        addresses: [text],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: `node-${node}`,
        targetRef: { kind: 'Pod', name: `svc-${i}-${j}`, namespace: `ns-${i % 50}`, uid },
        zone: `zone-${node % 3}`,
      };
    }),
    ports,
  };
}
