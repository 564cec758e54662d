/**
 * How much can one tenant's worst Service delay others? A victim's endpoint changes all the time
 * while a tenant, in another namespace, updates objects that an API server accepts from role
 * `edit`. It runs the product and the fake API server as api-start.ts does.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { FakeApi } from '../test/fake/api-server-process.ts';
import { buildProduct, withCluster, withProduct } from './lib/api-rig.ts';
import type { Size } from './lib/cluster.ts';
import { Crowd, crowdBalances } from './lib/crowd.ts';
import type { Extent } from './lib/extent.ts';
import { KubeProxy } from './lib/kube-proxy.ts';
import type { ProbeReport } from './lib/probe.ts';
import type { Product } from './lib/product.ts';
import { number, ratio, table } from './lib/stats.ts';

const size: Size = { services: 1000, endpoints: 10, dualStack: true };
const secondsEach = 20;
const victimsPerSecond = 20;

type Raw = Readonly<Record<string, unknown>>;

interface Deed {
  readonly name: string;
  readonly perSecond: number;
  /** The objects that are there at first. */
  readonly before: readonly Raw[];
  /** What the API server is asked to do for the n-th change. */
  readonly change: (n: number) => { readonly do: string; readonly object?: Raw };
}

function portsOf(count: number, first: number): Raw[] {
  return Array.from({ length: count }, (_, i) => ({
    name: `p${i}`,
    port: first + i,
    protocol: 'TCP',
    targetPort: 8080,
  }));
}

/** The tenant's only Service, in its next version. */
function service(spec: Raw, status: Raw = { loadBalancer: {} }, annotations: Raw = {}) {
  const metadata = { name: 'large', namespace: 'tenant', uid: 'tenant', annotations };
  const clusterIP = '10.96.200.1';
  const object = {
    kind: 'Service',
    metadata: { ...metadata, creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP], ...spec },
    status,
  };
  return { do: 'apply', object };
}

/** Its endpoints, for ports `p0` and up. They never change. */
function slice(ports: number, endpoints: number): Raw {
  return {
    kind: 'EndpointSlice',
    metadata: {
      name: 'large-abcde',
      namespace: 'tenant',
      labels: { 'kubernetes.io/service-name': 'large' },
    },
    addressType: 'IPv4',
    endpoints: Array.from({ length: endpoints }, (_, i) => ({
      addresses: [`10.200.${i >> 8}.${i & 255}`],
      conditions: { ready: true, serving: true, terminating: false },
    })),
    ports: Array.from({ length: ports }, (_, i) => ({
      name: `p${i}`,
      port: 8080,
      protocol: 'TCP',
    })),
  };
}

function sourceRanges(count: number, n: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const address = 0x0b_00_00_00 + ((i * 7919 + n) % 0x10_00_00) * 512;
    return `${[24, 16, 8, 0].map((bits) => (address >>> bits) & 255).join('.')}/24`;
  });
}

const ofOneTenant: readonly Deed[] = [
  {
    name: 'renumbers 4,000 ports',
    perSecond: 2,
    before: [slice(4000, 12)],
    change: (n) => service({ ports: portsOf(4000, 1000 + (n % 2) * 100) }),
  },
  {
    name: 'changes 20,000 ports',
    perSecond: 1,
    before: [slice(20_000, 1)],
    change: (n) => service({ ports: portsOf(20_000, 1000 + (n % 2) * 100) }),
  },
  {
    name: 'moves 2,000 ports × 1,500 external IPs',
    perSecond: 2,
    before: [slice(2000, 1)],
    change: (n) => {
      const externalIPs = Array.from({ length: 1500 }, (_, i) => {
        return `198.${18 + (n % 2)}.${i >> 8}.${i & 255}`;
      });
      return service({ ports: portsOf(2000, 1000), externalIPs });
    },
  },
  {
    name: 'switches session affinity of 1,000 ports',
    perSecond: 2,
    before: [slice(1000, 12)],
    change: (n) => {
      const sessionAffinity = n % 2 === 0 ? 'None' : 'ClientIP';
      return service({ ports: portsOf(1000, 1000), sessionAffinity });
    },
  },
  {
    name: 'changes the timeout of session affinity of 1,000 ports',
    perSecond: 2,
    before: [slice(1000, 12)],
    change: (n) => {
      const sessionAffinityConfig = { clientIP: { timeoutSeconds: 100 + (n % 2) } };
      const affinity = { sessionAffinity: 'ClientIP', sessionAffinityConfig };
      return service({ ports: portsOf(1000, 1000), ...affinity });
    },
  },
  {
    name: 'switches round-robin of 1,000 ports',
    perSecond: 2,
    before: [slice(1000, 12)],
    change: (n) => {
      const balance = n % 2 === 0 ? 'random' : 'round-robin';
      const annotations = { 'fairlead.io/balance': balance };
      return service({ ports: portsOf(1000, 1000) }, undefined, annotations);
    },
  },
  {
    name: 'switches maglev of 1,000 endpoints',
    perSecond: 2,
    before: [slice(1, 1000)],
    change: (n) => {
      const annotations = { 'fairlead.io/balance': n % 2 === 0 ? 'random' : 'maglev' };
      return service({ ports: portsOf(1, 80) }, undefined, annotations);
    },
  },
  {
    name: 'replaces 5,000 source ranges',
    perSecond: 1,
    before: [slice(1, 3)],
    change: (n) => {
      const loadBalancerSourceRanges = sourceRanges(5000, n);
      const type = 'LoadBalancer';
      const ingress = [{ ip: '203.0.113.7', ipMode: 'VIP' }];
      const spec = { type, ports: portsOf(1, 80), loadBalancerSourceRanges };
      return service(spec, { loadBalancer: { ingress } });
    },
  },
];

/** Services with a table of slots for each port, of which one changes after the other. */
function crowdsOf(extent: Extent): Deed[] {
  const count = extent === 'whole' ? 400 : 40;
  return crowdBalances.map((balance) => {
    const crowd = new Crowd(count, balance);
    return {
      name: `changes ${count} Services (${balance})`,
      perSecond: 200,
      before: crowd.objects,
      change: (n) => crowd.change(n),
    };
  });
}

/**
 * Services that lose an endpoint and get it back in the next second. Where the rule of a draw knows
 * the number of endpoints, each change is a new verdict.
 */
function scaling(count: number, balance: string): Deed {
  const name = (i: number) => `scaled-${i}`;
  const address = (i: number, host: number) => `10.${220 + (i >> 8)}.${i & 255}.${host}`;
  const before = Array.from({ length: count }, (_, i) => {
    const { object } = service({ ports: portsOf(1, 80) }, undefined, {
      'fairlead.io/balance': balance,
    });
    const clusterIP = `10.98.${i >> 8}.${i & 255}`;
    const made = slice(1, 0);
    const metadata = { ...(made.metadata as Raw), name: `${name(i)}-abcde` };
    return [
      {
        ...object,
        metadata: { ...object.metadata, name: name(i), uid: name(i) },
        spec: { ...object.spec, clusterIP, clusterIPs: [clusterIP] },
      },
      {
        ...made,
        metadata: { ...metadata, labels: { 'kubernetes.io/service-name': name(i) } },
        endpoints: Array.from({ length: 3 + (i % 60) }, (_, host) => ({
          addresses: [address(i, 100 + host)],
          conditions: { ready: true, serving: true, terminating: false },
        })),
      },
    ];
  });
  return {
    name: `scales ${count} Services (${balance})`,
    perSecond: count,
    before: before.flat(),
    // An address that is there twice is one endpoint.
    change: (n) => {
      const i = n % count;
      const hosts = [address(i, 100), address(i, 101)] as const;
      const [from, to] = Math.floor(n / count) % 2 === 0 ? hosts : [hosts[1], hosts[0]];
      const key = `tenant/${name(i)}-abcde`;
      return { do: 'edit', resource: 'endpointslices', key, from, to };
    },
  };
}

/** Deletes all that the deed has made. */
async function undo(api: FakeApi, { before, change }: Deed): Promise<void> {
  const kinds = { Service: 'services', EndpointSlice: 'endpointslices' } as const;
  const made = [...before, change(0).object ?? []].flat().map(({ kind, metadata }) => {
    const { name, namespace } = metadata as { name: string; namespace: string };
    return [`${namespace}/${name}`, kinds[kind as keyof typeof kinds]] as const;
  });
  for (const [key, resource] of new Map(made)) await api.ask({ do: 'delete', resource, key });
}

/** Its endpoints in one family, then in the other. */
function victim(n: number): Raw {
  const isIPv6 = n % 2 === 1;
  const prefix = isIPv6 ? 'fd00:201::' : '10.201.';
  const separator = isIPv6 ? ':' : '.';
  const at = new Date().toISOString();
  return {
    kind: 'EndpointSlice',
    metadata: {
      name: `svc-7-${isIPv6 ? 'vwxyz' : 'abcde'}`,
      namespace: 'ns-7',
      labels: { 'kubernetes.io/service-name': 'svc-7' },
      annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': at },
    },
    addressType: isIPv6 ? 'IPv6' : 'IPv4',
    endpoints: [1, 2, 3].map((i) => ({
      addresses: [`${prefix}${(i === 1 ? [(n >> 8) & 255, n & 255] : [255, i]).join(separator)}`],
      conditions: { ready: true, serving: true, terminating: false },
    })),
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
  };
}

/** Changes the victim for a while, and the tenant's Service in the same time. */
async function both(api: FakeApi, deed: Deed | undefined): Promise<void> {
  const startMs = performance.now();
  let [victims, versions] = [0, 0];
  for (;;) {
    const elapsed = (performance.now() - startMs) / 1000;
    if (elapsed >= secondsEach) return;
    if (victims < elapsed * victimsPerSecond) {
      victims += 1;
      await api.ask({ do: 'apply', object: victim(victims) });
    } else if (deed !== undefined && versions < elapsed * deed.perSecond) {
      versions += 1;
      await api.ask(deed.change(versions));
    } else await sleep(2);
  }
}

function nameOf(deed: Deed | undefined): string {
  return deed === undefined ? 'nothing' : `${deed.name}, ${deed.perSecond}/s`;
}

async function rowOf(
  api: FakeApi,
  product: Product,
  deed: Deed | undefined,
  base: number,
): Promise<string[]> {
  for (const object of deed?.before ?? []) await api.ask({ do: 'apply', object });
  if (deed !== undefined) await api.ask(deed.change(0));
  await product.settled();
  const before = await product.collected();
  await product.reset('split');
  await both(api, deed);
  const during = await product.settled();
  if (deed !== undefined) {
    await undo(api, deed);
    await product.settled();
  }
  const after = await backTo(product, before.rssMB);
  const { p50, p99, max } = during.triggerToAck;
  return [
    nameOf(deed),
    number(p50),
    number(p99),
    number(max),
    base > 0 ? ratio(p99, base) : '1×',
    number(during.server.p99),
    number(during.waited.p99),
    number(during.own.p99),
    number(during.longestTurn),
    number(during.eventLoop.max),
    memory(before),
    memory(during),
    memory(after),
  ];
}

/** Waits until memory is down to `rssMB`. V8 gives it back after a while of few allocations. */
async function backTo(product: Product, rssMB: number): Promise<ProbeReport> {
  let report = await product.report();
  for (let i = 0; i < 12 && report.rssMB > rssMB; i += 1) {
    await sleep(5000);
    report = await product.report();
  }
  return report;
}

function memory({ rssMB, heapMB, externalMB }: ProbeReport): string {
  return `${number(rssMB)} / ${number(heapMB + externalMB)}`;
}

/** The pause for kube-proxy. With a large Service it may not have finished after it. */
const peerPauseMs = 20_000;

async function peerRow(api: FakeApi, peer: KubeProxy, deed: Deed | undefined): Promise<string[]> {
  for (const object of deed?.before ?? []) await api.ask({ do: 'apply', object });
  if (deed !== undefined) await api.ask(deed.change(0));
  await sleep(peerPauseMs);
  peer.reset();
  await both(api, deed);
  await sleep(peerPauseMs);
  const { count, quantileMs } = peer.programming();
  if (deed !== undefined) {
    await undo(api, deed);
  }
  const [p50, p99, max] = [0.5, 0.99, 1].map((q) => `≤ ${number(quantileMs(q))}`);
  return [nameOf(deed), p50!, p99!, max!, number(secondsEach * victimsPerSecond - count)];
}

/** The same for kube-proxy, if `KUBE_PROXY` names its binary. */
async function besideKubeProxy(deeds: readonly Deed[]): Promise<string> {
  const binary = process.env.KUBE_PROXY;
  if (binary === undefined) return '';
  const rows = await withCluster(size, async (api, namespace) => {
    const peer = new KubeProxy(binary, namespace, api.kubeconfig);
    try {
      await peer.programmed(size.services);
      const found: string[][] = [];
      for (const deed of [undefined, ...deeds]) found.push(await peerRow(api, peer, deed));
      return found;
    } finally {
      await peer.stop();
    }
  });
  const head = ['a tenant', 'p50', 'p99', 'max', 'not programmed in time'];
  return `\n\nkube-proxy, by its own metric, whose buckets are a second wide\n\n${table(head, rows)}`;
}

export async function tenant(extent: Extent): Promise<string> {
  buildProduct();
  const scaled = ['random', 'source-hash', 'round-robin'].map((one) => scaling(400, one));
  const deeds = [...ofOneTenant, ...scaled, ...crowdsOf(extent)];
  const rows = await withCluster(size, (api, namespace) =>
    withProduct(api, namespace, async (product) => {
      const quiet = await rowOf(api, product, undefined, 0);
      const found = [quiet];
      for (const deed of deeds) found.push(await rowOf(api, product, deed, Number(quiet[2])));
      return found;
    }),
  );
  const parts = ['server', 'waited', 'own'];
  const head = ['a tenant', 'p50', 'p99', 'max', 'of quiet', ...parts, 'turn', 'late'];
  // Garbage is collected before. The second number includes memory outside of the heap.
  const memories = ['RSS / heap MB before', 'during', 'deleted'];
  const what = `${victimsPerSecond} changes a second of another Service, from the API server to the kernel's acknowledgement`;
  return `${what}; p99 of the server's part, of waiting for a processor, of the rest; ms\n\n${table([...head, ...memories], rows)}${await besideKubeProxy(deeds)}`;
}
