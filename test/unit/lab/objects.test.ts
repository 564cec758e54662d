import { describe, expect, test } from 'vitest';
import { clusterIp, externalIp, lbVip } from '../../lab/addresses.ts';
import { clientIpAffinity, fromYaml, keyOf, service, slice, slices } from '../../lab/objects.ts';

describe('a Service built for a story', () => {
  test('is dual-stack unless one family is requested', () => {
    expect(service('web').spec).toMatchObject({
      clusterIP: '10.96.0.10',
      clusterIPs: ['10.96.0.10', 'fd00:96::a'],
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
    });
    expect(service('web', { clusterIp: { IPv6: clusterIp(7).IPv6 } }).spec).toMatchObject({
      clusterIP: 'fd00:96::7',
      ipFamilies: ['IPv6'],
      ipFamilyPolicy: 'SingleStack',
    });
  });

  test('has the type that its addresses and ports require, unless set', () => {
    const types = [
      service('web'),
      service('web', { ports: [{ port: 80, nodePort: 30080 }] }),
      service('web', { vips: [lbVip(1)], ports: [{ port: 80, nodePort: 30080 }] }),
      service('web', { vips: [lbVip(1)], spec: { type: 'ClusterIP' } }),
    ].map(({ spec }) => (spec as { type: string }).type);
    expect(types).toEqual(['ClusterIP', 'NodePort', 'LoadBalancer', 'ClusterIP']);
  });

  test('has VIPs and external IPs of both families, in order', () => {
    const built = service('web', {
      vips: [lbVip(1), { IPv4: lbVip(2).IPv4 }],
      ipMode: 'Proxy',
      externalIps: [externalIp(1)],
      spec: clientIpAffinity(5),
    });
    expect(built.status).toEqual({
      loadBalancer: {
        ingress: [
          { ip: '203.0.113.1', ipMode: 'Proxy' },
          { ip: '2001:db8:1::1', ipMode: 'Proxy' },
          { ip: '203.0.113.2', ipMode: 'Proxy' },
        ],
      },
    });
    expect(built.spec).toMatchObject({
      externalIPs: ['192.0.2.1', '2001:db8:2::1'],
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 5 } },
    });
  });
});

describe('EndpointSlices built for a story', () => {
  test('are one per family and contain the nodes of actors', () => {
    const [v4, v6] = slices('web', ['pod-a', { at: 'pod-c', ready: false, zone: 'b' }]);
    expect(v4).toMatchObject({
      metadata: { name: 'web-ipv4', labels: { 'kubernetes.io/service-name': 'web' } },
      addressType: 'IPv4',
      endpoints: [
        {
          addresses: ['10.244.1.2'],
          nodeName: 'node',
          conditions: { ready: true, serving: true, terminating: false },
        },
        {
          addresses: ['10.244.2.2'],
          nodeName: 'node2',
          zone: 'b',
          conditions: { ready: false, serving: false, terminating: false },
        },
      ],
      ports: [{ name: '', port: 8080, protocol: 'TCP' }],
    });
    expect(v6).toMatchObject({
      addressType: 'IPv6',
      endpoints: [{ addresses: ['fd00:244:1::2'] }, { addresses: ['fd00:244:2::2'] }],
    });
  });

  test('omit endpoints without an address of the family', () => {
    const [v4, v6] = slices('web', [{ at: { IPv6: 'fd00::9' }, nodeName: 'far' }]);
    expect(v4?.endpoints).toEqual([]);
    expect(v6?.endpoints).toMatchObject([{ addresses: ['fd00::9'], nodeName: 'far' }]);
  });

  test('may have lists of addresses, hints and ports without a number', () => {
    const two = slice(
      'IPv4',
      'web',
      [
        {
          at: [{ IPv4: '10.0.0.1' }, { IPv4: '10.0.0.2' }],
          terminating: true,
          serving: true,
          ready: false,
          hints: { forZones: ['a', 'b'], forNodes: ['node'] },
        },
      ],
      { ports: [{ name: 'p', port: null, protocol: 'UDP' }], suffix: '-2' },
    );
    expect(two).toMatchObject({
      metadata: { name: 'web-ipv4-2' },
      endpoints: [
        {
          addresses: ['10.0.0.1', '10.0.0.2'],
          conditions: { ready: false, serving: true, terminating: true },
          hints: { forZones: [{ name: 'a' }, { name: 'b' }], forNodes: [{ name: 'node' }] },
        },
      ],
      ports: [{ name: 'p', port: null, protocol: 'UDP' }],
    });
    expect((two.endpoints as { nodeName?: string }[])[0]).not.toHaveProperty('nodeName');
  });
});

describe('YAML in a story', () => {
  test('may have several documents and lists', () => {
    const objects = fromYaml(`
apiVersion: v1
kind: Service
metadata: { name: a, namespace: x }
---
apiVersion: v1
kind: List
items:
- { apiVersion: v1, kind: Node, metadata: { name: b } }
---
`);
    expect(objects.map(keyOf)).toEqual(['Service x/a', 'Node /b']);
  });

  test('is rejected if invalid', () => {
    expect(() => fromYaml('a: [')).toThrow();
  });
});
