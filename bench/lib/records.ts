/** The largest objects of each kind that a tenant may write, for what their records take. */
import type { Raw } from '../../test/fake/api-server-store.ts';

export interface LargeObject {
  readonly name: string;
  readonly resource: 'services' | 'endpointslices';
  readonly count: number;
  make(n: number): Raw;
}

/** A name that no other port has, of five letters. */
function nameOf(number: number): string {
  return number
    .toString(26)
    .padStart(5, '0')
    .replace(/\d/g, (digit) => 'qrstuvwxyz'[+digit]!);
}

function list<T>(length: number, of: (i: number) => T): T[] {
  return Array.from({ length }, (_, i) => of(i));
}

function service(n: number, spec: Raw): Raw {
  const clusterIP = `10.96.${n >> 8}.${n & 255}`;
  const usual = { type: 'ClusterIP', clusterIP, clusterIPs: [clusterIP] };
  return {
    metadata: { name: `s${n}`, namespace: 'tenant', uid: `uid-${n}` },
    spec: { ...usual, ports: [{ name: 'a', port: 80, protocol: 'TCP' }], ...spec },
  };
}

function slice(n: number, fields: Raw): Raw {
  const labels = { 'kubernetes.io/service-name': `s${n}` };
  return {
    metadata: { name: `e${n}`, namespace: 'tenant', labels },
    addressType: 'IPv4',
    ports: [{ name: 'a', port: 80, protocol: 'TCP' }],
    ...fields,
  };
}

const port = (n: number, i: number) => ({
  name: nameOf(i + 7 * n),
  port: (i % 65_535) + 1,
  protocol: 'TCP',
});

export const largeObjects: readonly LargeObject[] = [
  {
    ...{ name: 'Service of 55,000 ports', resource: 'services', count: 20 },
    make: (n) => service(n, { ports: list(55_000, (i) => port(n, i)) }),
  },
  {
    ...{ name: 'Service of 10,000 external IPs', resource: 'services', count: 50 },
    make: (n) => service(n, { externalIPs: list(10_000, (i) => `198.${n}.${i >> 8}.${i & 255}`) }),
  },
  {
    ...{ name: 'Service of 20,000 source ranges', resource: 'services', count: 50 },
    make: (n) =>
      service(n, {
        loadBalancerSourceRanges: list(20_000, (i) => `${n + 1}.${i >> 8}.${i & 255}.0/24`),
      }),
  },
  {
    ...{ name: 'EndpointSlice of 20,000 ports', resource: 'endpointslices', count: 50 },
    make: (n) =>
      slice(n, {
        ports: list(20_000, (i) => port(n, i)),
        endpoints: [{ addresses: ['10.0.0.1'] }],
      }),
  },
  {
    ...{ name: 'EndpointSlice of 1,000 endpoints', resource: 'endpointslices', count: 200 },
    make: (n) =>
      slice(n, { endpoints: list(1000, (i) => ({ addresses: [`10.${n}.${i >> 8}.${i & 255}`] })) }),
  },
  {
    ...{ name: 'the same, each with a node and zone of its own', count: 200 },
    resource: 'endpointslices',
    make: (n) =>
      slice(n, {
        endpoints: list(1000, (i) => ({
          addresses: [`10.${n}.${i >> 8}.${i & 255}`],
          nodeName: `node-${n}-${i}`,
          zone: `zone-${n}-${i}`,
        })),
      }),
  },
  {
    ...{ name: 'the same, each with 8 zone hints of its own', count: 200 },
    resource: 'endpointslices',
    make: (n) =>
      slice(n, {
        endpoints: list(1000, (i) => ({
          addresses: [`10.${n}.${i >> 8}.${i & 255}`],
          hints: { forZones: list(8, (zone) => ({ name: `${n}-${i}-${zone}` })) },
        })),
      }),
  },
];
