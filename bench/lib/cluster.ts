/** A synthetic cluster as records, so that only Fairlead's own work is measured. */
import { Address } from '../../src/net/address.ts';
import type { Change } from '../../src/state/change.ts';
import {
  Condition,
  type EndpointSlice,
  objectKey,
  type Service,
  type ServicePort,
  type SlicePort,
} from '../../src/state/types.ts';

export interface Size {
  readonly services: number;
  readonly endpoints: number;
  /** Services have as many endpoints in IPv6. Only the fake API server makes such clusters. */
  readonly dualStack?: boolean;
  /** See `ClusterSize.rich`. Only the fake API server makes such clusters. */
  readonly rich?: boolean;
  /** Services have session affinity. Those of the fake API server have it only if `rich`. */
  readonly sticky?: boolean;
  /** Services have an external IP, a load-balancer address and a node port, too. */
  readonly outside?: boolean;
}

/** From a small cluster to the largest that is measured. */
export const sizes: readonly Size[] = [
  { services: 1000, endpoints: 10 },
  { services: 8000, endpoints: 30 },
  { services: 44_000, endpoints: 1 },
  { services: 100_000, endpoints: 3 },
];

export function sizeName({ outside, sticky, ...size }: Size): string {
  const { services, endpoints, dualStack, rich } = size;
  const kinds = [rich && ', rich', outside && ', 4 frontends', sticky && ', affinity'];
  const extras = [dualStack && ' × 2', ...kinds];
  return [services.toLocaleString('en'), ' × ', endpoints, ...extras.filter(Boolean)].join('');
}

const namespace = 'bench';

function serviceKey(index: number): string {
  return objectKey(namespace, `service-${index}`);
}

/** The ClusterIP of the first Service, 10.96.0.1: each of the others has the next one. */
const clusterIPs = 0x0a_60_00_01;

function ipv4(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

/** Lists that are the same for all, as the decoder shares equal ones. */
const none: readonly never[] = [];
const httpPorts: readonly ServicePort[] = [
  { name: 'http', protocol: 'TCP', port: 80, nodePort: 0 },
];
const slicePorts: readonly SlicePort[] = [{ name: 'http', protocol: 'TCP', port: 8080 }];

/** 2026-01-01: a number that needs 64 bits, as every time in milliseconds does. */
const createdMs = Date.UTC(2026, 0);

function uid(index: number): string {
  return ['4b1e8c02-6f5d-4a37-9c1b', String(index).padStart(12, '0')].join('-');
}

function service(index: number, { outside = false, sticky = false }: Size): Service {
  // 192.0.0.0 and up, 198.0.0.0 and up.
  const others = outside ? [0xc0_00_00_01, 0xc6_00_00_01] : [];
  const [external = none, balancer = none] = others.map((first) => [Address.ofIPv4(first + index)]);
  return {
    key: serviceKey(index),
    namespace,
    name: `service-${index}`,
    uid: uid(index),
    createdMs,
    type: outside ? 'LoadBalancer' : 'ClusterIP',
    clusterIPs: [Address.ofIPv4(clusterIPs + index)],
    externalIPs: external,
    loadBalancerIPs: balancer,
    loadBalancerSourceRanges: none,
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    affinityTimeoutSeconds: sticky ? 10_800 : 0,
    rulesOnly: false,
    awaitedLoadBalancer: undefined,
    ports: outside ? [{ ...httpPorts[0]!, nodePort: 20_000 + index }] : httpPorts,
  };
}

/**
 * The slice of Service `index`. Each endpoint has an address of its own. The first one has another
 * address for each value of `replaced`.
 */
export function slice(index: number, endpoints: number, replaced = 0): EndpointSlice {
  const addresses = Buffer.alloc(endpoints * 4);
  for (let i = 0; i < endpoints; i += 1) {
    addresses.set(ipv4(0x0b_00_00_01 + index * endpoints + i), i * 4);
  }
  if (replaced > 0) addresses.set(ipv4(0x64_00_00_00 + (replaced % 0x40_00_00)), 0);
  return {
    key: objectKey(namespace, `service-${index}-abcde`),
    service: serviceKey(index),
    family: 'IPv4',
    ports: slicePorts,
    length: endpoints,
    addresses: addresses.toString('latin1'),
    conditions: String.fromCharCode(Condition.ready | Condition.serving).repeat(endpoints),
    zoneHints: undefined,
    places: undefined,
    triggerTimeMs: undefined,
  };
}

export function* objects(size: Size): Generator<Change> {
  const { services, endpoints } = size;
  for (let i = 0; i < services; i += 1) {
    yield { kind: 'service', service: service(i, size) };
    yield { kind: 'slice', slice: slice(i, endpoints) };
  }
}
