/** A synthetic cluster as records, so that nothing but Fairlead's own work is measured. */
import type { Change } from '../../src/source/source.ts';
import { Condition, type EndpointSlice, type Service } from '../../src/state/types.ts';

export interface Size {
  readonly services: number;
  readonly endpoints: number;
  /** As many endpoints in each family; only the fake API server makes such clusters. */
  readonly dualStack?: boolean;
  /** Load balancers that have of everything some; only the fake API server makes such clusters. */
  readonly rich?: boolean;
  /** Services have session affinity; of the fake API server's only the rich ones do. */
  readonly sticky?: boolean;
}

export function sizeName({ services, endpoints, dualStack, rich, sticky }: Size): string {
  const extras = [dualStack && ' × 2', rich && ', rich', sticky && ', affinity'];
  return [services.toLocaleString('en'), ' × ', endpoints, ...extras.filter(Boolean)].join('');
}

/** 10.96.0.0/12 and up, one address a Service. */
function clusterIP(index: number): Uint8Array {
  return ipv4(0x0a_60_00_01 + index);
}

function ipv4(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff);
}

function service(index: number, sticky: boolean): Service {
  return {
    key: `bench/service-${index}`,
    namespace: 'bench',
    name: `service-${index}`,
    uid: String(index),
    createdMs: 0,
    type: 'ClusterIP',
    clusterIPs: [{ family: 'IPv4', bytes: clusterIP(index) }],
    externalIPs: [],
    loadBalancerIPs: [],
    loadBalancerSourceRanges: [],
    internalTrafficPolicy: 'Cluster',
    externalTrafficPolicy: 'Cluster',
    healthCheckNodePort: 0,
    affinityTimeoutSeconds: sticky ? 10_800 : 0,
    ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
  };
}

/**
 * The slice of Service `index`. Endpoint i has an address of its own; `replaced` gives the first
 * one another address, a different one for each number.
 */
export function slice(index: number, endpoints: number, replaced = 0): EndpointSlice {
  const addresses = Buffer.alloc(endpoints * 4);
  for (let i = 0; i < endpoints; i += 1) {
    addresses.set(ipv4(0x0b_00_00_01 + index * endpoints + i), i * 4);
  }
  if (replaced > 0) addresses.set(ipv4(0x64_00_00_00 + (replaced % 0x40_00_00)), 0);
  return {
    key: `bench/service-${index}-abcde`,
    service: `bench/service-${index}`,
    family: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    length: endpoints,
    addresses: addresses.toString('latin1'),
    conditions: String.fromCharCode(Condition.ready | Condition.serving).repeat(endpoints),
    zoneHints: undefined,
    triggerTimeMs: undefined,
  };
}

export function* objects({ services, endpoints, sticky = false }: Size): Generator<Change> {
  for (let i = 0; i < services; i += 1) {
    yield { kind: 'service', service: service(i, sticky) };
    yield { kind: 'slice', slice: slice(i, endpoints) };
  }
}
