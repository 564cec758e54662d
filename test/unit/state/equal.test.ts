import { describe, expect, it } from 'vitest';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { sameForwarding, sameService, sameSlice } from '../../../src/state/equal.ts';
import { allPaths } from '../../../src/state/paths.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { EndpointSlice, Forwarding, Service } from '../../../src/state/types.ts';
import { address, cidr, http, ready, readyLocal, service, slice, slicePort } from './build.ts';

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
  const base = forwarding();
  const first = base.frontends[0]!;
  const { cluster, local } = base;
  const deal = { asked: undefined, balance: 'random', because: undefined, cluster, local } as const;
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
    'a frontend with other paths': {
      frontends: [{ ...first, paths: allPaths.drop }, base.frontends[1]!],
    },
    'a frontend with another pool': {
      frontends: [{ ...first, paths: allPaths.insideLocal }, base.frontends[1]!],
    },
    'another cluster pool': { cluster: EndpointList.empty.IPv4 },
    'another local pool': { local: base.cluster },
    'other hairpin endpoints': { hairpin: EndpointList.empty.IPv4 },
    'endpoints that may be here': { maybeLocal: base.cluster },
    'other serving endpoints': { serving: EndpointList.empty.IPv4 },
    'another affinity timeout': { affinityTimeoutSeconds: 1 },
    'no source ranges': { sourceRanges: [] },
    'a narrower source range': { sourceRanges: [cidr('192.0.2.0/25')] },
    'another source range': { sourceRanges: [cidr('192.0.3.0/24')] },
    'the node in its source ranges': { nodeInSourceRanges: true },
    'a health-check port': { healthCheckNodePort: 1 },
    'rules alone': { rulesOnly: 'annotation' },
    'rules at an address of the node': { rulesOnly: 'address of the node' },
    'slots of its own': { deal },
    'connections that are ended': { endings: { endAfterMs: 1000, kept: base.cluster } },
    'flows that stay': { endings: { keepsFlows: true } },
  };

  it.each(Object.entries(others))('is false for one with %s', (_, change) => {
    expect(sameForwarding(base, { ...base, ...change })).toBe(false);
    expect(sameForwarding({ ...base, ...change }, base)).toBe(false);
  });

  it.each<Partial<NonNullable<Forwarding['deal']>>>([
    { asked: 'maglev' },
    { balance: 'maglev' },
    { because: 'mode iptables cannot do it' },
    { cluster: EndpointList.empty.IPv4 },
    { local: cluster },
  ])('is false for a deal with %j', (change) => {
    expect(sameForwarding({ ...base, deal }, { ...base, deal: { ...deal, ...change } })).toBe(
      false,
    );
  });

  it('is true for deals with the same slots, whichever endpoints have none', () => {
    const leftOut = { cluster: new Set([cluster.key(0)]), local: new Set<never>() };
    const other = { ...base, deal: { ...deal, leftOut } };
    expect(sameForwarding({ ...base, deal }, other)).toBe(true);
  });
});

describe('sameService', () => {
  const make = () =>
    service({ externalIPs: ['192.0.2.1'], loadBalancerSourceRanges: ['10.0.0.0/8'] });

  it.each<Partial<Service>>([
    { uid: 'another' },
    { rulesOnly: true },
    { isFastPathOff: true },
    { hasSelector: true },
    { guardsAll: true },
    { endings: { endAfterMs: 1000 } },
    { endings: { keepsFlows: true } },
    { balancing: { balance: 'least-connections' } },
    { balancing: { balance: undefined, slowStartMs: 1000 } },
    { detection: { mode: 'eject', probes: false } },
    { awaitedLoadBalancer: '' },
    { createdMs: 1 },
    { type: 'NodePort' },
    { clusterIPs: [address('10.96.0.2')] },
    { clusterIPs: [address('10.96.0.1'), address('fd00::1')] },
    { externalIPs: [] },
    { loadBalancerIPs: [address('198.51.100.1')] },
    { loadBalancerSourceRanges: [cidr('10.0.0.0/9')] },
    { internalTrafficPolicy: 'Local' },
    { externalTrafficPolicy: 'Local' },
    { healthCheckNodePort: 1 },
    { affinityTimeoutSeconds: 1 },
    { ports: [{ ...http, name: 'https' }] },
    { ports: [{ ...http, protocol: 'UDP' }] },
    { ports: [{ ...http, port: 81 }] },
    { ports: [{ ...http, nodePort: 30080 }] },
    { ports: [http, { ...http, name: 'https', port: 443 }] },
  ])('is false for one with %j', (change) => {
    expect(sameService(make(), { ...make(), ...change })).toBe(false);
  });
});

describe('sameSlice', () => {
  const make = (zone = 'zone-a') => slice({ '10.0.0.1': { ...ready, zones: [zone] } });

  it('is true for two with equal fields', () => {
    expect(sameSlice(make(), make())).toBe(true);
  });

  it.each<Partial<EndpointSlice>>([
    { service: 'ns/shop' },
    { family: 'IPv6' },
    { length: 0 },
    { addresses: '\x0a\0\0\x02' },
    { conditions: '\0' },
    { ports: [] },
    { ports: [slicePort('https', 8080)] },
    { ports: [slicePort('http', 8081)] },
    { ports: [slicePort('http', 8080, 'UDP')] },
    { zoneHints: undefined },
    { zoneHints: make('zone-b').zoneHints },
    { zoneHints: [['zone-a', 'zone-b']] },
    { pods: 'abcd' },
    { places: [{ node: 'node-a', zone: '' }] },
    { weight: 50 },
    { triggerTimeMs: 1 },
  ])('is false for one with %j', (change) => {
    expect(sameSlice(make(), { ...make(), ...change })).toBe(false);
    expect(sameSlice({ ...make(), ...change }, make())).toBe(false);
  });
});
