/** Arbitrary Forwardings for property tests: small enough to collide, large enough to go wrong. */
import fc from 'fast-check';
import type { Environment, ModeConfig } from '../../../../src/modes/mode.ts';
import { addressBytes, type Family, parseCIDR } from '../../../../src/net/address.ts';
import { type EndpointKey, EndpointList } from '../../../../src/net/endpoint-list.ts';
import type { Protocol } from '../../../../src/net/protocol.ts';
import { type Balance, balances, dealInSteps } from '../../../../src/state/deal.ts';
import { allPaths, pathsOf } from '../../../../src/state/paths.ts';
import { withOrderOf } from '../../../../src/state/pool.ts';
import { finish } from '../../../../src/state/steps.ts';
import { type Forwarding, type Frontend, forwardingKey } from '../../../../src/state/types.ts';
import { address, cidr } from '../../state/build.ts';

export type Forwardings = ReadonlyMap<string, Forwarding>;

/** What a test case says about one Service port; frontends are dealt out separately. */
interface ServiceSpec {
  readonly cluster: readonly number[];
  readonly local: readonly number[];
  readonly affinityTimeoutSeconds: number;
  readonly balance: Balance | undefined;
  /** By endpoint; undefined = all are equal. */
  readonly weights: readonly number[] | undefined;
  readonly sourceRanges: readonly string[];
  readonly nodeInSourceRanges: boolean;
  /**
   * Undefined: nothing is said about connections whose endpoint has gone. Otherwise the endpoints
   * that connections and flows stay with, in addition to those of the pools.
   */
  readonly staying: readonly number[] | undefined;
}

/** Who has a frontend, and what its Service does with traffic to it. */
interface FrontendSpec {
  readonly owner: number;
  readonly wants: 'endpoints' | 'local endpoints' | 'nothing';
  readonly without: 'reject' | 'drop';
}

export interface ClusterSpec {
  readonly services: readonly (ServiceSpec | undefined)[];
  readonly frontends: readonly (FrontendSpec | undefined)[];
  readonly environment: Environment;
}

/** One edit of a cluster. */
export type Edit =
  | { readonly kind: 'service'; readonly at: number; readonly to: ServiceSpec | undefined }
  | { readonly kind: 'frontend'; readonly at: number; readonly to: FrontendSpec | undefined }
  | { readonly kind: 'environment'; readonly to: EnvironmentSpec };

interface EnvironmentSpec {
  readonly serviceCIDRs: readonly number[];
  readonly nodePortAddresses: readonly number[] | 'all';
}

const serviceCount = 4;
const protocols = ['TCP', 'TCP', 'UDP', 'SCTP'] as const satisfies readonly Protocol[];

/** Two of the cluster IPs are the same address: two ports of one Service. */
const places = [
  { kind: 'clusterIP', host: 1, port: 80 },
  { kind: 'clusterIP', host: 1, port: 443 },
  { kind: 'clusterIP', host: 2, port: 80 },
  { kind: 'externalIP', host: 101, port: 80 },
  { kind: 'loadBalancerIP', host: 102, port: 80 },
  { kind: 'loadBalancerIP', host: 103, port: 8080 },
  { kind: 'clusterIP', host: 2, port: 5000, lastPort: 5999 },
  { kind: 'loadBalancerIP', host: 102, port: 5000, lastPort: 5009 },
  { kind: 'nodePort', host: 0, port: 30080 },
  { kind: 'nodePort', host: 0, port: 30443 },
] as const satisfies readonly (Pick<Frontend, 'kind' | 'port' | 'lastPort'> & { host: number })[];

const endpointIds = fc.uniqueArray(fc.nat(7), { maxLength: 6 });

const rangeTexts = { IPv4: '192.0.2.N/P', IPv6: '2001:db8::N/P' } as const;

/** As many blocks that do not touch. */
function manyRanges(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${16 + i * 2}/32`);
}

const serviceSpec: fc.Arbitrary<ServiceSpec> = fc.record({
  cluster: endpointIds,
  local: endpointIds,
  affinityTimeoutSeconds: fc.constantFrom(0, 0, 300, 10800),
  balance: fc.option(fc.constantFrom(...balances), { nil: undefined, freq: 1 }),
  weights: fc.option(fc.array(fc.nat(4), { minLength: 8, maxLength: 8 }), {
    nil: undefined,
    freq: 1,
  }),
  sourceRanges: fc.oneof(
    { weight: 2, arbitrary: fc.subarray(['0/31', '0/30', '8/32', '64/29'], { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.constantFrom(manyRanges(9), manyRanges(10)) },
  ),
  nodeInSourceRanges: fc.boolean(),
  staying: fc.option(endpointIds, { nil: undefined, freq: 1 }),
});

const frontendSpec: fc.Arbitrary<FrontendSpec> = fc.record({
  owner: fc.nat(serviceCount - 1),
  wants: fc.constantFrom('endpoints', 'endpoints', 'local endpoints', 'nothing'),
  without: fc.constantFrom('reject', 'drop'),
});

const environmentSpec: fc.Arbitrary<EnvironmentSpec> = fc.record({
  serviceCIDRs: fc.uniqueArray(fc.nat(5), { maxLength: 3 }),
  nodePortAddresses: fc.oneof(fc.constant('all' as const), fc.array(fc.nat(3), { maxLength: 3 })),
});

const orNone = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.option(arbitrary, { nil: undefined, freq: 5 });

export const edits: fc.Arbitrary<Edit> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('service' as const),
      at: fc.nat(serviceCount - 1),
      to: orNone(serviceSpec),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('frontend' as const),
      at: fc.nat(places.length - 1),
      to: orNone(frontendSpec),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('environment' as const), to: environmentSpec }),
  },
);

export const families = fc.constantFrom<Family>('IPv4', 'IPv6');

export function configs(family: Family): fc.Arbitrary<ModeConfig> {
  const pods = family === 'IPv4' ? '10.0.0.0/8' : 'fd00::/8';
  return fc.record({
    family: fc.constant(family),
    masqueradeAll: fc.boolean(),
    masqueradeMark: fc.constant(0x4000),
    localhostNodePorts: family === 'IPv4' ? fc.boolean() : fc.constant(false),
    asIptables: fc.boolean(),
    dropInvalid: fc.boolean(),
    ownTables: fc.constant(false),
    countsTraffic: fc.boolean(),
    localDetector: fc.constantFrom(
      { kind: 'none' as const },
      { kind: 'cidr' as const, cidr: cidr(pods) },
      { kind: 'bridge' as const, name: 'cni0' },
      { kind: 'interface-prefix' as const, prefix: 'veth' },
    ),
  });
}

/** A cluster to begin with. */
export const clusterParts = {
  services: fc.array(orNone(serviceSpec), { minLength: serviceCount, maxLength: serviceCount }),
  frontends: fc.array(orNone(frontendSpec), {
    minLength: places.length,
    maxLength: places.length,
  }),
};
export const clusters = fc.record(clusterParts);

export function environments(family: Family): fc.Arbitrary<Environment> {
  return environmentSpec.map((spec) => environmentOf(family, spec));
}

export function edited(family: Family, spec: ClusterSpec, edit: Edit): ClusterSpec {
  switch (edit.kind) {
    case 'service':
      return { ...spec, services: spec.services.with(edit.at, edit.to) };
    case 'frontend':
      return { ...spec, frontends: spec.frontends.with(edit.at, edit.to) };
    case 'environment':
      return { ...spec, environment: environmentOf(family, edit.to) };
  }
}

function environmentOf(family: Family, spec: EnvironmentSpec): Environment {
  const { serviceCIDRs, nodePortAddresses } = spec;
  const cidrText = (n: number): string =>
    family === 'IPv4' ? `10.${90 + n}.0.0/16` : `fd00:10:${90 + n}::/112`;
  return {
    serviceCIDRs: serviceCIDRs.map((n) => parseCIDR(cidrText(n))!),
    nodePortAddresses:
      nodePortAddresses === 'all'
        ? 'all'
        : nodePortAddresses.map((n) => address(hostText(family, 200 + n))),
  };
}

function hostText(family: Family, host: number): string {
  return family === 'IPv4' ? `10.96.0.${host}` : `fd00:96::${host}`;
}

function endpointsOf(family: Family, ids: readonly number[]): EndpointList {
  const endpoints = ids.map((id) => {
    const bytes = new Uint8Array(addressBytes[family]);
    bytes[0] = 10;
    bytes[bytes.length - 1] = id + 1;
    return { address: bytes, port: 8080 };
  });
  return EndpointList.of(family, endpoints);
}

/** The Forwardings of a cluster. */
export function forwardingsOf(family: Family, spec: ClusterSpec): Forwardings {
  const found = new Map<string, Forwarding>();
  for (const [index, service] of spec.services.entries()) {
    if (service === undefined) continue;
    const forwarding = forwardingOf(family, spec, index, service);
    found.set(forwardingKey(forwarding.servicePort), forwarding);
  }
  return found;
}

function endingsOf(protocol: Protocol, kept: EndpointList): Forwarding['endings'] {
  if (protocol === 'UDP') return { keepsFlows: true };
  return protocol === 'TCP' ? { endAfterMs: 1000, kept } : undefined;
}

function forwardingOf(
  family: Family,
  { frontends }: ClusterSpec,
  index: number,
  service: ServiceSpec,
): Forwarding {
  const cluster = endpointsOf(family, service.cluster);
  const local = endpointsOf(family, service.local);
  const pools = [...service.cluster, ...service.local];
  const kept = endpointsOf(family, [...new Set([...pools, ...(service.staying ?? [])])]);
  return {
    key: `ns/s${index}/${protocols[index]!}`,
    servicePort: { namespace: 'ns', name: `s${index}`, port: '', protocol: protocols[index]! },
    family,
    frontends: places.flatMap((place, i) => {
      const wanted = frontends[i];
      if (wanted === undefined || wanted.owner !== index) return [];
      // See `rangeRefusal`.
      if ('lastPort' in place && service.affinityTimeoutSeconds > 0) return [];
      return [frontendOf(family, place, wanted, service)];
    }),
    cluster,
    local,
    hairpin: local,
    serving: service.staying === undefined ? cluster : kept,
    endings: service.staying && endingsOf(protocols[index]!, kept),
    affinityTimeoutSeconds: service.affinityTimeoutSeconds,
    sourceRanges: service.sourceRanges.map((text) => {
      const [host, bits] = text.split('/') as [string, string];
      const prefix = family === 'IPv4' ? Number(bits) : Number(bits) + 96;
      return cidr(rangeTexts[family].replace('N', host).replace('P', String(prefix)));
    }),
    nodeInSourceRanges: service.nodeInSourceRanges,
    rulesOnly: false,
    healthCheckNodePort: service.local.length > 0 ? 31_000 + index : 0,
    deal: dealOfSpec(service, { cluster, local }),
  };
}

/** So few that a table is not much longer than a pool. */
const slotsMax = 20;

function dealOfSpec(
  { balance, weights }: ServiceSpec,
  pools: Pick<Forwarding, 'cluster' | 'local'>,
) {
  const byEndpoint = new Map<EndpointKey, number>();
  for (const list of Object.values(pools)) {
    for (let i = 0; weights !== undefined && i < list.length; i += 1) {
      byEndpoint.set(list.key(i), weights[list.address(i).at(-1)! - 1]!);
    }
  }
  const given = weights && byEndpoint;
  const input = { asked: balance, weights: given, slotsMax, here: undefined, canRemember: true };
  return finish(dealInSteps(input, pools));
}

function frontendOf(
  family: Family,
  { host, ...place }: (typeof places)[number],
  { wants, without }: FrontendSpec,
  { cluster, local }: ServiceSpec,
): Frontend {
  const { kind } = place;
  const at = kind === 'nodePort' ? undefined : address(hostText(family, host));
  const pool = wants === 'local endpoints' ? 'local' : 'cluster';
  const base = { ...place, address: at } as const;
  if (kind === 'clusterIP') {
    const has = wants !== 'nothing' && { cluster, local }[pool].length > 0;
    const inside = pool === 'local' ? 'insideLocal' : 'inside';
    return { ...base, paths: allPaths[has ? inside : without] };
  }
  const has = wants !== 'nothing' && cluster.length > 0;
  if (!has) return { ...base, paths: allPaths[without] };
  const policy = { internal: 'Cluster', external: pool === 'local' ? 'Local' : 'Cluster' } as const;
  return { ...base, paths: pathsOf(policy, has, local.length > 0).outside };
}

/** `next` with its pools in the order of `previous`, as the sync loop hands it to a planner. */
export function ordered(previous: Forwardings, next: Forwardings): Forwardings {
  return new Map(
    [...next].map(([key, forwarding]) => [key, withOrderOf(previous.get(key), forwarding)]),
  );
}
