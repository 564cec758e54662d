/** Small worlds in which modes differed once, or meet a rule that random worlds rarely meet. */
import type { World } from './worlds.ts';

const named = (name: string, labels = {}) => ({ metadata: { name, namespace: 'shop', labels } });

export const keptWorlds: readonly World[] = [
  // Source ranges at an address and port of the node that is a node port, too.
  {
    flags: [],
    rounds: [
      [
        {
          put: {
            ...{ kind: 'Service', ...named('s3') },
            spec: {
              type: 'LoadBalancer',
              clusterIPs: ['10.96.0.4'],
              loadBalancerSourceRanges: ['10.244.0.0/16'],
              ports: [{ name: 'p0', protocol: 'SCTP', port: 30_001, nodePort: 30_001 }],
            },
            status: { loadBalancer: { ingress: [{ ip: '192.0.2.1' }] } },
          },
        },
        {
          put: {
            ...{ kind: 'EndpointSlice', addressType: 'IPv4' },
            ...named('s3-0', { 'kubernetes.io/service-name': 's3' }),
            ports: [{ name: 'p0', protocol: 'SCTP', port: 8080 }],
            endpoints: [{ addresses: ['10.244.2.4'] }],
          },
        },
      ],
    ],
  },
  // Source ranges that hold the address itself.
  {
    flags: [],
    rounds: [
      [
        {
          put: {
            ...{ kind: 'Service', ...named('s0') },
            spec: {
              clusterIP: 'fd00:10:96::1',
              loadBalancerSourceRanges: ['fd00::/8'],
              ports: [{ port: 80 }],
            },
            status: { loadBalancer: { ingress: [{ ip: 'fd00:10:96::3' }] } },
          },
        },
      ],
    ],
  },
];
