import { describe, expect, it } from 'vitest';
import { EndpointList } from '../../../src/state/endpoint-list.ts';
import { sameForwarding } from '../../../src/state/equal.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { address, cidr, readyLocal, service, slice } from './build.ts';

function forwarding(): Forwarding {
  const of = service({
    type: 'LoadBalancer',
    loadBalancerIPs: ['198.51.100.1'],
    loadBalancerSourceRanges: ['192.0.2.0/24'],
  });
  const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
  return resolve(of, [slice({ '10.0.0.1': readyLocal })], context)[0]!;
}

describe('sameForwarding', () => {
  it('is true for two that were resolved from equal records', () => {
    expect(sameForwarding(forwarding(), forwarding())).toBe(true);
  });

  const base = forwarding();
  const first = base.frontends[0]!;
  const others: Record<string, Partial<Forwarding>> = {
    'another namespace': { servicePort: { ...base.servicePort, namespace: 'x' } },
    'another Service': { servicePort: { ...base.servicePort, name: 'x' } },
    'another port': { servicePort: { ...base.servicePort, port: 'x' } },
    'another protocol': { servicePort: { ...base.servicePort, protocol: 'UDP' } },
    'another family': { family: 'IPv6' },
    'fewer frontends': { frontends: [first] },
    'a frontend of another kind': {
      frontends: [{ ...first, kind: 'externalIP' }, base.frontends[1]!],
    },
    'a frontend at another address': {
      frontends: [{ ...first, address: address('10.96.0.2') }, base.frontends[1]!],
    },
    'a frontend without an address': {
      frontends: [{ ...first, address: undefined }, base.frontends[1]!],
    },
    'a frontend at another port': { frontends: [{ ...first, port: 81 }, base.frontends[1]!] },
    'a frontend treated otherwise': {
      frontends: [{ ...first, treatment: 'drop' }, base.frontends[1]!],
    },
    'a frontend with another pool': {
      frontends: [{ ...first, pool: 'local' }, base.frontends[1]!],
    },
    'another cluster pool': { cluster: EndpointList.empty.IPv4 },
    'another local pool': { local: base.cluster },
    'other hairpin endpoints': { hairpin: EndpointList.empty.IPv4 },
    'other serving endpoints': { serving: EndpointList.empty.IPv4 },
    'another affinity timeout': { affinityTimeoutSeconds: 1 },
    'no source ranges': { sourceRanges: [] },
    'a narrower source range': { sourceRanges: [cidr('192.0.2.0/25')] },
    'another source range': { sourceRanges: [cidr('192.0.3.0/24')] },
    'the node in its source ranges': { nodeInSourceRanges: true },
    'a health-check port': { healthCheckNodePort: 1 },
  };

  it.each(Object.entries(others))('is false for one with %s', (_, change) => {
    expect(sameForwarding(base, { ...base, ...change })).toBe(false);
    expect(sameForwarding({ ...base, ...change }, base)).toBe(false);
  });
});
