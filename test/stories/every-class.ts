/** Services of every class that the layout of a mode may distinguish, in any number. */
import type { DualAddresses } from '../lab/addresses.ts';
import {
  clientIpAffinity,
  type EndpointOptions,
  type KubernetesObject,
  type ServiceOptions,
  service,
  slices,
} from '../lab/objects.ts';
import { externalLocal, internalLocal } from './common.ts';

/** What sets one class apart, for the n-th Service. */
interface Kind {
  readonly options: (n: number) => ServiceOptions;
  /** Where its endpoints are. */
  readonly endpoints: readonly ('here' | 'elsewhere')[];
}

function address(first: number, prefix: string, n: number): DualAddresses {
  const high = first + (n >> 16);
  const [third, fourth] = [(n >> 8) & 0xff, n & 0xff];
  return {
    IPv4: `${prefix.split(' ')[0]}.${high}.${third}.${fourth}`,
    IPv6: `${prefix.split(' ')[1]}:${(n >> 16).toString(16)}:${(n & 0xffff).toString(16)}`,
  };
}

const endpointAddress = (n: number): DualAddresses => address(200, '10 fd00:200:', n);
const outsideAddress = (n: number): DualAddresses => address(64, '100 fd00:64:', n);

const port = { name: 'main', port: 80 };
const withNodePort = (n: number) => ({ ports: [{ ...port, nodePort: 20_000 + n }] });
const withVip = (n: number) => ({ ports: [port], vips: [outsideAddress(n)] });
const ranges = ['198.51.100.0/28', '203.0.113.64/26', '2001:db8:51::/123'];

const both = ['here', 'elsewhere'] as const;

const kinds: readonly Kind[] = [
  { options: () => ({ ports: [port] }), endpoints: both },
  { options: withNodePort, endpoints: both },
  {
    options: (n) => ({ ...withVip(n), spec: { loadBalancerSourceRanges: ranges } }),
    endpoints: both,
  },
  { options: (n) => ({ ...withVip(n), spec: externalLocal }), endpoints: both },
  { options: (n) => ({ ...withVip(n), spec: externalLocal }), endpoints: ['elsewhere'] },
  { options: () => ({ ports: [port], spec: internalLocal }), endpoints: ['elsewhere'] },
  { options: (n) => ({ ...withVip(n), spec: clientIpAffinity(10_800) }), endpoints: both },
  {
    options: (n) => ({
      ...withNodePort(n),
      spec: { ...externalLocal, ...clientIpAffinity(10_800) },
    }),
    endpoints: both,
  },
  {
    options: (n) => ({
      ports: [{ ...port, protocol: 'UDP' }],
      externalIps: [outsideAddress(n)],
    }),
    endpoints: both,
  },
  {
    options: () => ({
      ports: [
        { ...port, protocol: 'SCTP' },
        { name: 'more', port: 81, protocol: 'TCP' },
      ],
    }),
    endpoints: both,
  },
  { options: withNodePort, endpoints: [] },
];

/** `count` Services, each class in turn, dual-stack, with addresses of their own. */
export function servicesOfEveryClass(count: number): KubernetesObject[] {
  return Array.from({ length: count }, (_, n) => {
    const { options, endpoints } = kinds[n % kinds.length]!;
    const name = `service-${n}`;
    const made = options(n);
    const at = endpoints.map(
      (where, i): EndpointOptions => ({
        at: endpointAddress(2 * n + i),
        nodeName: where === 'here' ? 'node' : 'node2',
      }),
    );
    const ports = made.ports!.map((each) => ({ ...each, port: 8080 }));
    return [
      service(name, { clusterIp: address(97, '10 fd00:97:', n), ...made }),
      ...slices(name, at, { ports }),
    ];
  }).flat();
}
