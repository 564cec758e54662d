/** Random objects of a cluster, and a few that never change. */
import { joinHostPort } from '../../src/net/address.ts';
import type { Random } from '../chaos/random.ts';
import type { FakeStore, Raw } from '../fake/api-server-store.ts';
import { address } from '../unit/state/build.ts';
import { nodeAddresses, nodeName } from './machine.ts';

const serviceCount = 10;
/** From this number on, Services ask for a range of ports. */
const rangedFirst = 7;
const rangeName = 'fairlead.io/port-range';
/** Within the range, and no Service's own port. */
const withinRange = 8085;
const ageName = 'fairlead.io/max-connection-age';

/** A Service that never changes, whose endpoints are probed, but one. */
export const probedService = 3;
export const noPodAddress = '192.0.2.50';

/** The second proxy of some nodes, which gets two Services by a label: one never changes. */
export const neighbourName = 'blue';
const ofNeighbour: readonly string[] = ['steady-1', 's9'];

/** A way to a Service that never changes, and the endpoints that may answer. */
export interface SteadyFlow {
  readonly from: 'pod' | 'node' | 'outside';
  readonly to: string;
  readonly protocol: 'TCP' | 'UDP';
  readonly port: number;
  readonly endpoints: ReadonlySet<string>;
}

export interface Target {
  readonly address: string;
  readonly port: number;
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
}

/** An object that was written, by `namespace/name`, and its version then. */
interface Written {
  readonly key: string;
  readonly at: number;
}

const chance = (random: Random, oneIn: number): boolean => random.below(oneIn) === 0;

export class ObjectLife {
  readonly #store: FakeStore;
  readonly #random: Random;
  readonly #detects: boolean;
  readonly #slices = new Map<number, Set<string>>();
  /** The program has seen endpoints of the API servers since its start, so that all may go. */
  areServersKnown = false;
  /** Some Services are for the second proxy. */
  hasNeighbour = false;

  /** `detects`: some Services ask for what becomes of endpoints that do not answer. */
  constructor(store: FakeStore, random: Random, detects: boolean) {
    this.#store = store;
    this.#random = random;
    this.#detects = detects;
  }

  /** What is there at first. */
  begin(): void {
    this.#node('a');
    this.#store.apply(serviceCIDR('kubernetes', ['10.96.0.0/16', 'fd00:10:96::/112']));
    this.#store.apply(apiService);
    this.settle();
    for (let n = 0; n < 3; n += 1) {
      const annotations = this.#detects && n === 0 ? detection('eject') : {};
      this.#store.apply(this.#labelled(steadyService(n, annotations)));
      for (const family of ['IPv4', 'IPv6'] as const) this.#store.apply(steadySlice(n, family));
    }
    if (this.#detects) {
      const { endpoints, ...slice } = steadySlice(probedService, 'IPv4') as { endpoints: Raw[] };
      const noPod = { addresses: [noPodAddress] };
      this.#store.apply(steadyService(probedService, detection('eject')));
      this.#store.apply({ ...slice, endpoints: [...endpoints, noPod] });
    }
    for (let n = 0; n < serviceCount / 2; n += 1) this.#edit(n);
  }

  /** One thing that a user or a controller does. */
  step(): void {
    const random = this.#random;
    switch (random.below(24)) {
      case 0:
        this.#node(random.pick(['a', 'b']));
        break;
      case 1:
        if (this.#store.objects('servicecidrs').has('more'))
          this.#store.delete('servicecidrs', 'more');
        else this.#store.apply(serviceCIDR('more', ['10.97.0.0/16']));
        break;
      case 2:
      case 3:
        this.#store.apply(
          apiSlice(
            apiServers.filter((_, i) => chance(random, 2) || (i === 0 && !this.areServersKnown)),
          ),
        );
        break;
      default:
        this.#edit(random.below(serviceCount));
    }
  }

  /** All API servers are there. */
  settle(): void {
    this.#store.apply(apiSlice(apiServers));
  }

  /** The Node says that it shuts down. */
  get isLeaving(): boolean {
    return this.#store.objects('nodes').get(nodeName)!.json.includes(shutdownMessage);
  }

  /** From the second time on it says the opposite of what it said about shutting down. */
  #node(zone: string): void {
    const goes = this.#store.objects('nodes').has(nodeName) && !this.isLeaving;
    const conditions = [{ type: 'Ready', status: 'False', message: goes ? shutdownMessage : '' }];
    const podCIDRs = ['10.244.1.0/24', 'fd00:10:244:1::/64'];
    const addresses = nodeAddresses.map((one) => ({ type: 'InternalIP', address: one }));
    this.#store.apply({
      kind: 'Node',
      metadata: { name: nodeName, uid: 'node', labels: { 'topology.kubernetes.io/zone': zone } },
      spec: { podCIDR: podCIDRs[0], podCIDRs },
      status: { addresses, conditions },
    });
  }

  /** An address gets into a range of Services; undefined: it leaves that. */
  cover(one: string | undefined): void {
    if (one === undefined) this.#store.delete('servicecidrs', 'late');
    else this.#store.apply(serviceCIDR('late', [`${one}/32`]));
  }

  /** Events that say nothing new: of an object that was never listed, or that is as it was. */
  strange(random: Random): void {
    const store = this.#store;
    const resource = random.pick(['services', 'endpointslices'] as const);
    const key = random.pick([...store.objects(resource).keys()]);
    const known = store.objects(resource).get(key)!;
    if (chance(random, 2)) {
      store.edit(resource, key, (json) => json);
      return;
    }
    store.version += 1;
    const { version } = store;
    const json = known.json.replace(/"name":"[^"]*"/, '"name":"other"');
    const before = { ...known, key: 'shop/other', json };
    store.onEvent(resource, { version, before, after: undefined });
  }

  /** Services come that no run has had before. The result has them go. */
  pass(round: number, count: number): () => void {
    const names = Array.from({ length: count }, (_, n) => `passing-${round}-${n}`);
    for (const [n, name] of names.entries()) {
      const clusterIP = `10.96.${20 + 2 * round + (n >> 8)}.${n & 0xff}`;
      const port = { name: 'p', port: 80, protocol: 'UDP' };
      const spec = { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP], ports: [port] };
      const labels = { 'kubernetes.io/service-name': name };
      const address = `10.244.${40 + 2 * round + (n >> 8)}.${n & 0xff}`;
      this.#store.apply({ kind: 'Service', metadata: metadata(name), spec });
      this.#store.apply({
        ...{ kind: 'EndpointSlice', metadata: metadata(name, { labels }), addressType: 'IPv4' },
        endpoints: [{ addresses: [address], nodeName: 'node-2' }],
        ports: [{ ...port, port: 8080 }],
      });
    }
    return () => {
      for (const name of names) {
        for (const resource of ['services', 'endpointslices'] as const) {
          this.#store.delete(resource, `shop/${name}`);
        }
      }
    };
  }

  /** A Service with hundreds of endpoints comes, changes in all of them, or goes. */
  large(random: Random): void {
    const isThere = this.#store.objects('services').has('shop/large');
    if (isThere && chance(random, 3)) {
      this.#store.delete('services', 'shop/large');
      return;
    }
    const spec = { clusterIP: '10.96.1.200', clusterIPs: ['10.96.1.200'], sessionAffinity: 'None' };
    const ports = [80, 81].map((port) => ({ name: `p${port}`, port, protocol: 'TCP' }));
    const service = { metadata: metadata('large'), spec: { ...spec, type: 'ClusterIP', ports } };
    if (!isThere) this.#store.apply({ kind: 'Service', ...service });
    const shift = random.below(1000);
    for (let slice = 0; slice < 3; slice += 1) {
      const labels = { 'kubernetes.io/service-name': 'large' };
      const endpoints = Array.from({ length: 100 }, (_, i) => {
        const host = shift + 100 * slice + i;
        return { addresses: [`10.244.${16 + (host >> 8)}.${host & 0xff}`], nodeName: 'node-2' };
      });
      this.#store.apply({
        kind: 'EndpointSlice',
        metadata: metadata(`large-${slice}`, { labels }),
        addressType: 'IPv4',
        ports: ports.map(({ name, port, protocol }) => ({ name, protocol, port: port + 8000 })),
        endpoints,
      });
    }
  }

  #edit(n: number): void {
    const random = this.#random;
    const key = `shop/s${n}`;
    const isThere = this.#store.objects('services').has(key);
    const what = isThere ? random.below(10) : 0;
    if (what === 9) {
      this.#store.delete('services', key);
      // Slices may go before, later, or never.
      if (chance(random, 2)) this.#deleteSlices(n);
      return;
    }
    if (what <= 1) this.#store.apply(this.#service(n));
    else if (what <= 3) this.#alter('services', key, this.#service(n));
    const count = isThere ? 1 : 1 + random.below(3);
    for (let i = 0; i < count; i += 1) this.#editSlice(n);
  }

  #service(n: number): Raw {
    const random = this.#random;
    const mode = this.#detects && random.pick(['eject', 'observe', undefined] as const);
    return this.#labelled(randomService(n, random, mode ? detection(mode) : {}));
  }

  #labelled({ metadata, ...service }: Raw): Raw {
    const own = metadata as { readonly name: string };
    const isOther = this.hasNeighbour && ofNeighbour.includes(own.name);
    const labels = isOther ? { 'service.kubernetes.io/service-proxy-name': neighbourName } : {};
    return { ...service, metadata: { ...own, labels } };
  }

  #editSlice(n: number): void {
    const random = this.#random;
    const family = chance(random, 3) ? 'IPv6' : 'IPv4';
    const name = `s${n}-${family.toLowerCase()}-${random.below(3)}`;
    const names = this.#slices.get(n) ?? new Set<string>();
    this.#slices.set(n, names);
    if (names.has(name) && chance(random, 6)) {
      names.delete(name);
      this.#store.delete('endpointslices', `shop/${name}`);
      return;
    }
    const slice = randomSlice(n, name, family, random);
    if (names.has(name) && chance(random, 2)) this.#alter('endpointslices', `shop/${name}`, slice);
    else this.#store.apply(slice);
    names.add(name);
  }

  /** Takes one field from another object of its kind, and leaves all others. */
  #alter(resource: 'services' | 'endpointslices', key: string, other: Raw): void {
    const random = this.#random;
    const object = JSON.parse(this.#store.objects(resource).get(key)!.json);
    const [from, to, fields] =
      resource === 'services'
        ? [other.spec as Raw, object.spec, fieldsOfService]
        : [
            random.pick([...(other.endpoints as Raw[]), {}]),
            object.endpoints[random.below(object.endpoints.length)] ?? {},
            fieldsOfEndpoint,
          ];
    const field = random.pick(fields);
    to[field] = from[field];
    if (field === 'sessionAffinity') to.sessionAffinityConfig = from.sessionAffinityConfig;
    // What annotations ask for comes and goes alone, too.
    if (field === 'loadBalancerSourceRanges') object.metadata = other.metadata;
    this.#store.apply(object);
  }

  #deleteSlices(n: number): void {
    for (const name of this.#slices.get(n) ?? []) {
      this.#store.delete('endpointslices', `shop/${name}`);
    }
    this.#slices.delete(n);
  }

  /**
   * Where connections to a ClusterIP that may change may go, `10.244.1.2:8080`; undefined: it is
   * none.
   */
  endpointsOf({ address, port, protocol }: Target): ReadonlySet<string> | undefined {
    const service = this.#serviceAt(address);
    const isAsked = (one: Port) => one.port === port && one.protocol === protocol;
    const asked = service && portsOf(service).find(isAsked);
    if (service === undefined || asked === undefined) return undefined;
    if (!service.spec.clusterIPs.includes(address)) return undefined;
    const found = new Set<string>();
    for (const { json, labels } of this.#store.objects('endpointslices').values()) {
      if (labels['kubernetes.io/service-name'] !== service.metadata.name) continue;
      const slice = JSON.parse(json) as RawSlice;
      const family = address.includes(':') ? 'IPv6' : 'IPv4';
      const to = slice.ports.find((one) => one.name === asked.name);
      if (slice.addressType !== family || to === undefined) continue;
      for (const { addresses, conditions } of slice.endpoints) {
        const { ready = true, serving = ready } = conditions ?? {};
        if (!ready && !serving && service.spec.publishNotReadyAddresses !== true) continue;
        // A range keeps the port.
        const kept = port === withinRange ? port : to.port;
        for (const one of addresses) found.add(joinHostPort(one, kept));
      }
    }
    return found;
  }

  /** Whether TCP connections to the ClusterIP end when they are old. */
  endsOld(address: string): boolean {
    return this.#serviceAt(address)?.metadata.annotations[ageName] !== undefined;
  }

  #serviceAt(address: string): RawService | undefined {
    const n = clusterIPsOfAll.findIndex((ips) => ips.includes(address));
    const object = this.#store.objects('services').get(`shop/s${n}`);
    return object && JSON.parse(object.json);
  }

  /** Where a client of a Service that changes connects to; where there is none, a random target. */
  someTarget(): Target {
    const random = this.#random;
    const targets = this.#targetsOf(random.below(serviceCount));
    return targets.length === 0 ? randomTarget(random) : random.pick(targets);
  }

  /** All ClusterIPs that may change, with each of their ports. */
  targets(): Target[] {
    return clusterIPsOfAll.flatMap((_, n) => this.#targetsOf(n));
  }

  #targetsOf(n: number): Target[] {
    const object = this.#store.objects('services').get(`shop/s${n}`);
    if (object === undefined) return [];
    const service = JSON.parse(object.json) as RawService;
    return service.spec.clusterIPs.flatMap((address) => {
      return portsOf(service).map(({ port, protocol }) => {
        return { address, port, protocol: protocol as Target['protocol'] };
      });
    });
  }

  /** What was written after this version, oldest first. */
  writtenSince(version: number): Written[] {
    const kinds = ['services', 'endpointslices'] as const;
    return kinds
      .flatMap((resource) => this.#store.latest(resource, Number.POSITIVE_INFINITY))
      .filter((event) => event.version > version)
      .flatMap(({ after, version: at }) => (after === undefined ? [] : [{ key: after.key, at }]))
      .sort((a, b) => a.at - b.at);
  }

  /** Writes another content of the object, with the version that it had. */
  rewrite({ at, key }: Written): void {
    const [, n, family, rest] = /^shop\/s(\d+)(?:-(ipv4|ipv6)-(\d))?$/.exec(key) ?? [];
    if (n === undefined) return;
    const number = Number(n);
    if (family === undefined) {
      this.#store.apply(this.#service(number), at);
      return;
    }
    const name = `s${n}-${family}-${rest}`;
    const which = family === 'ipv4' ? 'IPv4' : 'IPv6';
    this.#slices.set(number, (this.#slices.get(number) ?? new Set()).add(name));
    this.#store.apply(randomSlice(number, name, which, this.#random), at);
  }

  /** After the store has gone back to an earlier state. */
  recount(): void {
    this.#slices.clear();
    for (const key of this.#store.objects('endpointslices').keys()) {
      const [, n] = /^shop\/s(\d+)-/.exec(key) ?? [];
      if (n === undefined) continue;
      const names = this.#slices.get(Number(n)) ?? new Set<string>();
      names.add(key.slice('shop/'.length));
      this.#slices.set(Number(n), names);
    }
  }
}

const fieldsOfService = [
  ...['sessionAffinity', 'internalTrafficPolicy', 'externalIPs', 'trafficDistribution'],
  ...['publishNotReadyAddresses', 'loadBalancerSourceRanges'],
];
const fieldsOfEndpoint = ['conditions', 'hints', 'zone', 'nodeName'];

interface Port {
  readonly name: string;
  readonly port: number;
  readonly protocol: string;
}

interface RawService {
  readonly metadata: { name: string; annotations: Readonly<Record<string, string>> };
  readonly spec: {
    readonly clusterIPs: readonly string[];
    readonly publishNotReadyAddresses?: boolean;
    readonly sessionAffinity: string;
    readonly ports: readonly Port[];
  };
}

/** With one that only its range has, unless it asks for what a range cannot have. */
function portsOf({ metadata, spec: { ports, sessionAffinity } }: RawService): readonly Port[] {
  const names = Object.keys(metadata.annotations);
  const isRefused = sessionAffinity === 'ClientIP' || names.some((one) => /connection/.test(one));
  if (!names.includes(rangeName) || isRefused) return ports;
  return [...ports, { ...ports[0]!, port: withinRange }];
}

interface RawSlice {
  readonly addressType: string;
  readonly ports: readonly { name: string; port: number }[];
  readonly endpoints: readonly {
    readonly addresses: readonly string[];
    readonly conditions?: { readonly ready: boolean; readonly serving: boolean };
  }[];
}

const clusterIPs = (n: number): string[] => [`10.96.1.${n + 1}`, `fd00:10:96::1:${n + 1}`];

export const clusterIPsOfAll = Array.from({ length: serviceCount }, (_, n) => clusterIPs(n));

/** ClusterIPs of all Services that there may be. */
export const clusterAddresses = [
  ...['10.96.0.1', '10.96.1.200'],
  ...[0, 1, 2].flatMap(steadyIPs),
  ...clusterIPsOfAll.flat(),
].map(address);

/** Where a client of a Service that changes connects to; there may be no such port. */
function randomTarget(random: Random): Target {
  return {
    address: random.pick(random.pick(clusterIPsOfAll)),
    port: 80 + random.below(3),
    protocol: random.pick(['TCP', 'UDP', 'UDP', 'SCTP']),
  };
}

const shutdownMessage = 'node is shutting down';

/** Endpoints of default/kubernetes, which the node must reach, and which come and go. */
const apiServers = ['192.0.2.11', '192.0.2.12', '192.0.2.13'];

const apiService: Raw = {
  kind: 'Service',
  metadata: { name: 'kubernetes', namespace: 'default', uid: 'api' },
  spec: {
    type: 'ClusterIP',
    clusterIP: '10.96.0.1',
    clusterIPs: ['10.96.0.1'],
    sessionAffinity: 'None',
    ports: [{ name: 'https', protocol: 'TCP', port: 443, targetPort: 6443 }],
  },
};

function apiSlice(addresses: readonly string[]): Raw {
  const labels = { 'kubernetes.io/service-name': 'kubernetes' };
  return {
    kind: 'EndpointSlice',
    metadata: { name: 'kubernetes', namespace: 'default', uid: 'api-slice', labels },
    addressType: 'IPv4',
    ports: [{ name: 'https', protocol: 'TCP', port: 6443 }],
    endpoints: addresses.map((one) => ({ addresses: [one], conditions: { ready: true } })),
  };
}

function serviceCIDR(name: string, cidrs: readonly string[]): Raw {
  return { kind: 'ServiceCIDR', metadata: { name, uid: name }, spec: { cidrs } };
}

function metadata(name: string, rest: Raw = {}): Raw {
  const creationTimestamp = '2026-01-01T00:00:00Z';
  return { name, namespace: 'shop', uid: `uid-${name}`, creationTimestamp, ...rest };
}

function steadyService(n: number, annotations: Raw): Raw {
  const ips = steadyIPs(n);
  const isExternal = n === 1;
  const spec = {
    type: isExternal ? 'LoadBalancer' : 'ClusterIP',
    clusterIP: ips[0],
    clusterIPs: ips,
    sessionAffinity: 'None',
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: isExternal ? 'Cluster' : undefined,
    ports: [
      {
        name: 'web',
        protocol: n === 2 ? 'UDP' : 'TCP',
        port: 80,
        targetPort: 8080,
        ...(isExternal && { nodePort: 31_000 }),
      },
    ],
  };
  const ingress = isExternal ? [{ ip: '203.0.113.9' }, { ip: '2001:db8:9::9' }] : [];
  const status = { loadBalancer: { ingress } };
  return { kind: 'Service', metadata: metadata(`steady-${n}`, { annotations }), spec, status };
}

export function steadyIPs(n: number): string[] {
  return [`10.96.9.${n + 1}`, `fd00:10:96::9:${n + 1}`];
}

export function steadyAddresses(n: number, family: 'IPv4' | 'IPv6'): string[] {
  const prefix = family === 'IPv4' ? `10.244.2.` : 'fd00:10:244:2::';
  return [1, 2, 3].map((i) => `${prefix}${200 + 10 * n + i}`);
}

function steadySlice(n: number, family: 'IPv4' | 'IPv6'): Raw {
  const labels = { 'kubernetes.io/service-name': `steady-${n}` };
  return {
    kind: 'EndpointSlice',
    metadata: metadata(`steady-${n}-${family.toLowerCase()}`, { labels }),
    addressType: family,
    ports: [{ name: 'web', protocol: n === 2 ? 'UDP' : 'TCP', port: 8080 }],
    endpoints: steadyAddresses(n, family).map((one, i) => ({
      addresses: [one],
      // One of the last Service is on this node, which may shut down.
      nodeName: n === 2 && i === 0 ? nodeName : 'node-2',
      conditions: { ready: true, serving: true, terminating: false },
    })),
  };
}

/** All ways to the Services that never change, and to the API servers. */
export const steadyFlows: readonly SteadyFlow[] = [
  ...(['pod', 'node'] as const).map((from) => ({
    from,
    to: '10.96.0.1',
    protocol: 'TCP' as const,
    port: 443,
    endpoints: new Set(apiServers.map((one) => `${one}:6443`)),
  })),
  ...[0, 1, 2].flatMap(steadyFlowsOf),
];

function steadyFlowsOf(n: number): SteadyFlow[] {
  return (['IPv4', 'IPv6'] as const).flatMap((family) => {
    const v4 = family === 'IPv4';
    const endpoints = new Set(
      steadyAddresses(n, family).map((one) => (v4 ? `${one}:8080` : `[${one}]:8080`)),
    );
    const protocol = n === 2 ? ('UDP' as const) : ('TCP' as const);
    const own = v4 ? `10.96.9.${n + 1}` : `fd00:10:96::9:${n + 1}`;
    const flow = { protocol, port: 80, endpoints };
    const inside: SteadyFlow[] = [
      { ...flow, from: 'pod', to: own },
      { ...flow, from: 'node', to: own },
    ];
    if (n !== 1) return inside;
    const balancer = v4 ? '203.0.113.9' : '2001:db8:9::9';
    return [
      ...inside,
      { ...flow, from: 'outside', to: balancer },
      { ...flow, from: 'outside', to: v4 ? nodeAddresses[0]! : nodeAddresses[1]!, port: 31_000 },
    ];
  });
}

function detection(mode: 'eject' | 'observe'): Raw {
  return { 'fairlead.io/failure-detection': mode, 'fairlead.io/probe': 'tcp' };
}

/** Limits that no client reaches: what is beyond them, tests with real packets show. */
function manyConnections(n: number): Raw {
  const [total, perClient] = [
    'fairlead.io/max-connections',
    'fairlead.io/max-connections-per-client',
  ];
  const rate = 'fairlead.io/new-connections-per-second';
  return n % 2 === 0
    ? { [total]: '10000', [`${rate}-per-client`]: '1000000' }
    : { [perClient]: '500', [rate]: '1000000' };
}

function randomService(n: number, random: Random, detected: Raw): Raw {
  const type = random.pick(['ClusterIP', 'ClusterIP', 'NodePort', 'LoadBalancer']);
  const families = random.pick([['IPv4'], ['IPv4', 'IPv6'], ['IPv6']]);
  const ips = clusterIPs(n).filter((_, i) => families.includes(i === 0 ? 'IPv4' : 'IPv6'));
  const isExternal = type !== 'ClusterIP';
  const external = isExternal && chance(random, 2) ? 'Local' : 'Cluster';
  const count = 1 + random.below(3);
  const ports = Array.from({ length: count }, (_, i) => ({
    name: `p${i}`,
    protocol: random.pick(['TCP', 'TCP', 'UDP', 'SCTP']),
    // A range keeps ports.
    port: (n >= rangedFirst ? 8080 : 80) + i,
    targetPort: 8080 + i,
    ...(isExternal && { nodePort: 30_000 + 10 * n + i }),
  }));
  const annotations: Raw = {
    ...detected,
    // They come and go without a draw, so that seeds keep their worlds.
    ...((n + count) % 2 === 0 && { 'fairlead.io/source-ranges': 'all' }),
    ...(n % 3 === 0 && count > 1 && manyConnections(n)),
    ...((n + count) % 4 === 1 && { [ageName]: '1m' }),
    ...(n % 5 === 2 && { 'fairlead.io/balance': 'least-connections' }),
    ...(n >= rangedFirst && { [rangeName]: '8080-8089' }),
    ...(chance(random, 5) && {
      'fairlead.io/balance': random.pick(['maglev', 'round-robin', 'random', 'poem']),
    }),
  };
  const affinity = chance(random, 4)
    ? {
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: random.pick([60, 10_800]) } },
      }
    : { sessionAffinity: 'None' };
  const ranges = ['10.0.0.0/8', '198.51.100.0/24', '2001:db8::/32'];
  const spec = {
    type,
    clusterIP: ips[0],
    clusterIPs: ips,
    ipFamilies: families,
    ...affinity,
    internalTrafficPolicy: chance(random, 4) ? 'Local' : 'Cluster',
    ...(isExternal && { externalTrafficPolicy: external }),
    ...(type === 'LoadBalancer' && external === 'Local' && { healthCheckNodePort: 32_000 + n }),
    ...(type === 'LoadBalancer' && chance(random, 3) && { loadBalancerSourceRanges: ranges }),
    // Others may claim the same address.
    ...(chance(random, 4) && { externalIPs: [`198.51.100.${1 + random.below(3)}`] }),
    ...(chance(random, 5) && { trafficDistribution: 'PreferSameZone' }),
    ...(chance(random, 5) && { publishNotReadyAddresses: true }),
    ports,
  };
  const ingress = [
    { ip: `203.0.113.${1 + random.below(4)}`, ipMode: random.pick(['VIP', 'VIP', 'Proxy']) },
  ];
  const status = { loadBalancer: type === 'LoadBalancer' && !chance(random, 5) ? { ingress } : {} };
  return { kind: 'Service', metadata: metadata(`s${n}`, { annotations }), spec, status };
}

/** Of a Service that changes. */
export function someEndpointAddress(family: 'IPv4' | 'IPv6', random: Random): string {
  const node = 1 + random.below(2);
  const host = 1 + random.below(12);
  return family === 'IPv4' ? `10.244.${node}.${host}` : `fd00:10:244:${node}::${host}`;
}

function randomSlice(n: number, name: string, family: 'IPv4' | 'IPv6', random: Random): Raw {
  const endpoints = Array.from({ length: random.below(6) }, () => {
    const address = someEndpointAddress(family, random);
    const ready = !chance(random, 4);
    const terminating = !ready && chance(random, 2);
    const isHere = address.startsWith(family === 'IPv4' ? '10.244.1.' : 'fd00:10:244:1::');
    const zone = random.pick(['a', 'b']);
    return {
      addresses: [address],
      ...(!chance(random, 8) && { nodeName: isHere ? nodeName : 'node-2' }),
      zone,
      conditions: { ready, serving: ready || chance(random, 2), terminating },
      ...(chance(random, 4) && { hints: { forZones: [{ name: zone }] } }),
    };
  });
  // Some name another Service for a while, or have no address that a proxy can use.
  const service = chance(random, 16) ? random.below(serviceCount) : n;
  return {
    kind: 'EndpointSlice',
    metadata: metadata(name, { labels: { 'kubernetes.io/service-name': `s${service}` } }),
    addressType: chance(random, 24) ? 'FQDN' : family,
    ports: [0, 1, 2].map((i) => ({
      name: `p${i}`,
      protocol: random.pick(['TCP', 'UDP', 'SCTP', 'TCP']),
      port: 8080 + i,
    })),
    endpoints,
  };
}
