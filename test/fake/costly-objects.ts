/**
 * Services with EndpointSlices that ask for much in few bytes, as an API server would store them
 * without managedFields. What a test or a benchmark finds of their cost is a row of docs/limits.md.
 */
import { type Family, families } from '../../src/net/address.ts';
import type { Raw } from './api-server-store.ts';
import { encodeObject } from './protobuf.ts';

/** Numbers are of one Service; addresses and endpoints are as many in each family. */
export interface Shape {
  readonly families: readonly Family[];
  readonly ports: number;
  /** In addition to the ClusterIP. */
  readonly externalIPs: number;
  readonly loadBalancerIPs: number;
  readonly hasNodePorts: boolean;
  readonly endpoints: number;
  /** The policy for external traffic is Local, and all endpoints are on this node. */
  readonly isLocal: boolean;
  readonly sourceRanges: number;
  /** Half of the endpoints have the weight 1, the others 65,535. */
  readonly hasWeights: boolean;
  readonly hasAffinity: boolean;
  /** The first port has a range. */
  readonly hasRange: boolean;
  /** Of `fairlead.io/balance`; empty: none. */
  readonly balance: string;
  readonly nameLength: number;
}

export const least: Shape = {
  families: ['IPv4'],
  ports: 1,
  externalIPs: 0,
  loadBalancerIPs: 0,
  hasNodePorts: false,
  endpoints: 1,
  isLocal: false,
  sourceRanges: 0,
  hasWeights: false,
  hasAffinity: false,
  hasRange: false,
  balance: '',
  nameLength: 1,
};

const dual = { families };

/** For each row of the table of docs/limits.md the objects that were found to cost most. */
export const costliest: Readonly<Record<string, Partial<Shape>>> = {
  'many ports': { ...dual, ports: 10, hasNodePorts: true, isLocal: true },
  'many ports and addresses': {
    ...{ ...dual, ports: 40, externalIPs: 90, loadBalancerIPs: 40, hasNodePorts: true },
    isLocal: true,
  },
  'many ports and endpoints': {
    ...{ ...dual, ports: 134, hasNodePorts: true, endpoints: 190, isLocal: true },
  },
  'many ports, addresses and endpoints': {
    ...{ ...dual, ports: 21, externalIPs: 39, hasNodePorts: true, endpoints: 31, isLocal: true },
  },
  'weights or `least-connections` of two endpoints': {
    ...{ ...dual, ports: 2, externalIPs: 7, hasNodePorts: true, endpoints: 2, isLocal: true },
    balance: 'least-connections',
  },
  '`maglev` of two endpoints': { ...dual, hasNodePorts: true, endpoints: 2, balance: 'maglev' },
  '`round-robin` at many addresses': {
    ...{ ...dual, ports: 50, externalIPs: 60, loadBalancerIPs: 40, hasNodePorts: true },
    ...{ endpoints: 3, isLocal: true, hasRange: true, balance: 'round-robin', nameLength: 60 },
  },
  'session affinity of many ports': {
    ...{ ...dual, ports: 127, hasNodePorts: true, isLocal: true, hasAffinity: true },
  },
  '100 source ranges or more': {
    ...{ ...dual, ports: 3, loadBalancerIPs: 3, hasNodePorts: true, endpoints: 3 },
    ...{ isLocal: true, hasRange: true, sourceRanges: 100 },
  },
};

export const nodeName = 'n';

export interface CostlyObjects {
  readonly service: Raw;
  readonly slices: readonly Raw[];
  /** Of all of them, in protobuf. */
  readonly bytes: number;
}

/** `number` distinguishes the namespace and the ClusterIP of several. */
export function costlyObjects(shape: Shape, number = 0): CostlyObjects {
  const { families, hasNodePorts, isLocal } = shape;
  const name = 'x'.repeat(shape.nameLength);
  const metadata = {
    ...{ name, namespace: `n${number || ''}`, uid: '01234567-0123-0123-0123-0123456789ab' },
    creationTimestamp: '2026-01-01T00:00:00Z',
  };
  const addresses = (block: number, count: number, from = 1): string[] =>
    families.flatMap((family) => upTo(count).map((i) => addressOf(family, block, from + i)));
  const ports = upTo(shape.ports).map((i) => ({ name: `p${i.toString(36)}`, port: i + 1 }));
  const clusterIPs = addresses(10, 1, number);
  const hasLoadBalancer = shape.loadBalancerIPs > 0;
  const service = {
    metadata: {
      ...metadata,
      annotations: {
        ...(shape.balance === '' ? {} : { 'fairlead.io/balance': shape.balance }),
        ...(shape.hasRange ? { 'fairlead.io/port-range': '1-65535' } : {}),
      },
    },
    spec: {
      type: hasLoadBalancer ? 'LoadBalancer' : hasNodePorts ? 'NodePort' : 'ClusterIP',
      ...{ clusterIP: clusterIPs[0], clusterIPs },
      externalIPs: addresses(20, shape.externalIPs, shape.externalIPs * number + 1),
      externalTrafficPolicy: isLocal ? 'Local' : undefined,
      sessionAffinity: shape.hasAffinity ? 'ClientIP' : undefined,
      loadBalancerSourceRanges: upTo(shape.sourceRanges).map(
        (i) => `${addressOf('IPv4', 30, 2 * i)}/32`,
      ),
      ports: ports.map((one) => ({
        ...{ ...one, protocol: 'TCP', targetPort: one.port },
        nodePort: hasNodePorts ? shape.ports * number + one.port : undefined,
      })),
    },
    status: {
      loadBalancer: {
        ingress: addresses(40, shape.loadBalancerIPs, shape.loadBalancerIPs * number + 1).map(
          (ip) => ({ ip }),
        ),
      },
    },
  };
  const weights = shape.hasWeights ? [1, 65_535] : [undefined];
  const slices = families.flatMap((family) =>
    weights.map((weight, k) => ({
      metadata: {
        ...{ ...metadata, name: `${name}${family.at(-1)}${k}` },
        labels: { 'kubernetes.io/service-name': name },
        annotations: weight === undefined ? {} : { 'fairlead.io/weight': `${weight}` },
      },
      addressType: family,
      endpoints: upTo(Math.ceil(shape.endpoints / weights.length)).map((i) => ({
        addresses: [addressOf(family, 50 + k, i + 1)],
        ...(isLocal ? { nodeName } : {}),
      })),
      ports: ports.map((one) => ({ ...one, protocol: 'TCP' })),
    })),
  );
  const bytes = slices.map((slice) => encodeObject('EndpointSlice', slice).length);
  const all = bytes.reduce((a, b) => a + b, encodeObject('Service', service).length);
  return { service, slices, bytes: all };
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, i) => i);
}

function addressOf(family: Family, block: number, n: number): string {
  if (family === 'IPv6')
    return `fd${block}::${(n >> 16).toString(16)}:${(n & 0xffff).toString(16)}`;
  return [block, (n >> 16) & 0xff, (n >> 8) & 0xff, n & 0xff].join('.');
}
