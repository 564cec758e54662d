import { describe, expect, it } from 'vitest';
import { decodeService } from '../../../../src/source/decode.ts';
import { Interner } from '../../../../src/source/interner.ts';
import { type Address, formatAddress, formatCIDR } from '../../../../src/state/address.ts';

type Raw = Record<string, unknown>;

const texts = (addresses: readonly Address[]) =>
  addresses.map((address) => formatAddress(address.bytes));

function service({ metadata, spec, status }: { metadata?: Raw; spec?: Raw; status?: Raw } = {}) {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { namespace: 'shop', name: 'web', ...metadata },
    spec: { clusterIP: '10.96.0.10', ports: [{ name: 'http', port: 80 }], ...spec },
    ...(status === undefined ? {} : { status }),
  };
}

function decode(raw: unknown) {
  const { record, problems } = decodeService(raw, new Interner());
  return { record, problems: problems.map((p) => `${p.subject} | ${p.field} | ${p.reason}`) };
}

describe('decodeService', () => {
  it('fills in the defaults of the Kubernetes API', () => {
    const { record, problems } = decode(service());
    expect(problems).toEqual([]);
    expect(record).toEqual({
      key: 'shop/web',
      namespace: 'shop',
      name: 'web',
      uid: '',
      createdMs: 0,
      type: 'ClusterIP',
      clusterIPs: [{ family: 'IPv4', bytes: Uint8Array.of(10, 96, 0, 10) }],
      externalIPs: [],
      loadBalancerIPs: [],
      loadBalancerSourceRanges: [],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      healthCheckNodePort: 0,
      affinityTimeoutSeconds: 0,
      ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
    });
  });

  it('reads what a full object says', () => {
    const { record, problems } = decode(
      service({
        metadata: { uid: 'u-1', creationTimestamp: '2026-01-02T03:04:05Z' },
        spec: {
          type: 'LoadBalancer',
          clusterIPs: ['10.96.0.10', 'fd00::10'],
          ipFamilies: ['IPv4', 'IPv6'],
          externalTrafficPolicy: 'Local',
          internalTrafficPolicy: 'Local',
          healthCheckNodePort: 30_100,
          sessionAffinity: 'ClientIP',
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
          ports: [{ port: 53, protocol: 'UDP', nodePort: 30_053, targetPort: 'dns' }],
        },
      }),
    );
    expect(problems).toEqual([]);
    expect(record).toMatchObject({
      uid: 'u-1',
      createdMs: Date.UTC(2026, 0, 2, 3, 4, 5),
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Local',
      healthCheckNodePort: 30_100,
      affinityTimeoutSeconds: 60,
      ports: [{ name: '', protocol: 'UDP', port: 53, nodePort: 30_053 }],
    });
    expect(texts(record!.clusterIPs)).toEqual(['10.96.0.10', 'fd00::10']);
  });

  it.each([
    ['headless', { spec: { clusterIP: 'None' } }],
    ['headless with clusterIPs', { spec: { clusterIP: undefined, clusterIPs: ['None'] } }],
    ['headless without ports', { spec: { clusterIP: 'None', ports: undefined } }],
    ['ExternalName', { spec: { type: 'ExternalName', clusterIP: undefined } }],
    ['ExternalName with a clusterIP', { spec: { type: 'ExternalName' } }],
    [
      'for another proxy',
      { metadata: { labels: { 'service.kubernetes.io/service-proxy-name': '' } } },
    ],
  ])('skips a Service that is %s, silently', (_what, parts) => {
    expect(decode(service(parts))).toEqual({ record: undefined, problems: [] });
  });

  it.each([
    ['no object', 7, 'Service |  | must be an object, is 7'],
    ['null', null, 'Service |  | must be an object, is null'],
    ['no name', service({ metadata: { name: undefined } }), 'Service | metadata.name | is missing'],
    [
      'no namespace',
      service({ metadata: { namespace: '' } }),
      'Service | metadata.namespace | is missing',
    ],
    [
      'a name with a slash',
      service({ metadata: { name: 'a/b' } }),
      'Service | metadata.name | must not hold a slash: "a/b"',
    ],
    [
      'no clusterIP',
      service({ spec: { clusterIP: '' } }),
      'Service shop/web | spec.clusterIP | is missing: give one, this proxy does not allocate addresses',
    ],
    [
      'a clusterIP that is none',
      service({ spec: { clusterIP: '10.96.0' } }),
      'Service shop/web | spec.clusterIP | is no IP address: "10.96.0"',
    ],
    [
      'an unknown type',
      service({ spec: { type: 'Anycast' } }),
      'Service shop/web | spec.type | must be ClusterIP or NodePort or LoadBalancer, is "Anycast"',
    ],
  ])('refuses %s and says why', (_what, raw, problem) => {
    expect(decode(raw)).toEqual({ record: undefined, problems: [problem] });
  });

  it('matches an object without ipFamilies by the family of its clusterIP', () => {
    const { record } = decode(service({ spec: { clusterIP: 'fd00::7' } }));
    expect(record!.clusterIPs.map(({ family }) => family)).toEqual(['IPv6']);
  });

  it('drops a clusterIP that is not of its ipFamily, and a second one of a family', () => {
    const mixed = decode(
      service({ spec: { clusterIPs: ['10.96.0.10', '10.96.0.11'], ipFamilies: ['IPv4', 'IPv6'] } }),
    );
    expect(texts(mixed.record!.clusterIPs)).toEqual(['10.96.0.10']);
    expect(mixed.problems).toEqual([
      'Service shop/web | spec.clusterIPs[1] | "10.96.0.11" is not of ipFamilies[1], "IPv6"',
    ]);
    const twice = decode(service({ spec: { clusterIPs: ['10.96.0.10', '10.96.0.11'] } }));
    expect(texts(twice.record!.clusterIPs)).toEqual(['10.96.0.10']);
    expect(twice.problems).toEqual([
      'Service shop/web | spec.clusterIPs[1] | is a second IPv4 address',
    ]);
  });

  it('drops invalid externalIPs, ignores blank ones, and normalises the rest', () => {
    const { record, problems } = decode(
      service({ spec: { externalIPs: ['203.0.113.007', '', '  ', 'here', 'fd00::0:1', 5] } }),
    );
    expect(texts(record!.externalIPs)).toEqual(['203.0.113.7', 'fd00::1']);
    expect(problems).toEqual([
      'Service shop/web | spec.externalIPs[3] | is no IP address: "here"',
      'Service shop/web | spec.externalIPs[5] | must be a string, is 5',
    ]);
  });

  it('lists an address that is given twice once', () => {
    const { record, problems } = decode(
      service({ spec: { externalIPs: ['203.0.113.7', '203.0.113.007'] } }),
    );
    expect(texts(record!.externalIPs)).toEqual(['203.0.113.7']);
    expect(problems).toEqual([]);
  });

  it('takes ingress addresses whose ipMode is VIP or absent, not proxied ones or host names', () => {
    const { record, problems } = decode(
      service({
        status: {
          loadBalancer: {
            ingress: [
              { ip: '192.0.2.1' },
              { ip: '192.0.2.2', ipMode: 'VIP' },
              { ip: '192.0.2.3', ipMode: 'Proxy' },
              { hostname: 'lb.example' },
              { ip: '' },
              { ip: 'fd00::9' },
              { ip: '192.0.2.4', ipMode: 'Direct' },
            ],
          },
        },
      }),
    );
    expect(texts(record!.loadBalancerIPs)).toEqual(['192.0.2.1', '192.0.2.2', 'fd00::9']);
    expect(problems).toEqual([
      'Service shop/web | status.loadBalancer.ingress[6].ipMode | must be VIP or Proxy, is "Direct"',
    ]);
  });

  describe('loadBalancerSourceRanges', () => {
    const ranges = (...loadBalancerSourceRanges: unknown[]) => {
      const { record, problems } = decode(service({ spec: { loadBalancerSourceRanges } }));
      return { ranges: record!.loadBalancerSourceRanges.map(formatCIDR), problems };
    };

    it('tolerates blanks around a range and leading zeroes in it', () => {
      expect(ranges(' 203.0.113.000/025', '10.0.0.0/8 ', '')).toEqual({
        ranges: ['203.0.113.0/25', '10.0.0.0/8'],
        problems: [],
      });
    });

    it('lets everybody of a family in when one range is the whole family', () => {
      expect(ranges('10.0.0.0/8', '0.0.0.0/0').ranges).toEqual([]);
      expect(ranges('10.0.0.0/8', '0.0.0.0/0', 'fd00::/8').ranges).toEqual(['fd00::/8']);
    });

    it('drops a range that cannot be read', () => {
      expect(ranges('10.0.0.0/8', '10.0.0.0')).toEqual({
        ranges: ['10.0.0.0/8'],
        problems: [
          'Service shop/web | spec.loadBalancerSourceRanges[1] | is no address block: "10.0.0.0"',
        ],
      });
    });

    it('lets nobody in when no range at all can be read', () => {
      expect(ranges('10.0.0/8').ranges).toEqual(['0.0.0.0/32', '::/128']);
      expect(ranges(7).ranges).toEqual(['0.0.0.0/32', '::/128']);
    });
  });

  it('keeps the health check port of load balancers with policy Local only', () => {
    const port = (spec: Raw) =>
      decode(service({ spec: { healthCheckNodePort: 30_100, ...spec } })).record!
        .healthCheckNodePort;
    expect(port({ type: 'LoadBalancer', externalTrafficPolicy: 'Local' })).toBe(30_100);
    expect(port({ type: 'LoadBalancer', externalTrafficPolicy: 'Cluster' })).toBe(0);
    expect(port({ type: 'NodePort', externalTrafficPolicy: 'Local' })).toBe(0);
  });

  it('uses three hours for ClientIP affinity that names no time, or an impossible one', () => {
    const affinity = (sessionAffinityConfig: unknown) =>
      decode(service({ spec: { sessionAffinity: 'ClientIP', sessionAffinityConfig } }));
    expect(affinity(undefined).record!.affinityTimeoutSeconds).toBe(10_800);
    expect(affinity({ clientIP: null }).record!.affinityTimeoutSeconds).toBe(10_800);
    const absurd = affinity({ clientIP: { timeoutSeconds: 90_000 } });
    expect(absurd.record!.affinityTimeoutSeconds).toBe(10_800);
    expect(absurd.problems).toEqual([
      'Service shop/web | spec.sessionAffinityConfig.clientIP.timeoutSeconds | must be a whole number 1–86400, is 90000',
    ]);
  });

  it('drops ports that cannot be used and goes on with the others', () => {
    const { record, problems } = decode(
      service({
        spec: {
          ports: [
            { name: 'a', port: 0 },
            { name: 'b', port: '80' },
            { name: 'c', port: 81, protocol: 'ICMP' },
            { name: 'd' },
            'e',
            { name: 'f', port: 82, nodePort: 70_000 },
          ],
        },
      }),
    );
    expect(record!.ports).toEqual([{ name: 'f', protocol: 'TCP', port: 82, nodePort: 0 }]);
    expect(problems).toEqual([
      'Service shop/web | spec.ports[0].port | must be a whole number 1–65535, is 0',
      'Service shop/web | spec.ports[1].port | must be a whole number 1–65535, is "80"',
      'Service shop/web | spec.ports[2].protocol | must be TCP or UDP or SCTP, is "ICMP"',
      'Service shop/web | spec.ports[3].port | is missing',
      'Service shop/web | spec.ports[4] | must be an object, is "e"',
      'Service shop/web | spec.ports[5].nodePort | must be a whole number 0–65535, is 70000',
    ]);
  });

  it('tells ports apart by name and protocol, and refuses those that clash', () => {
    const { record, problems } = decode(
      service({
        spec: {
          ports: [
            { name: 'dns', port: 53, protocol: 'TCP' },
            { name: 'dns', port: 53, protocol: 'UDP' },
            { name: 'dns', port: 54, protocol: 'UDP' },
            { name: 'other', port: 53, protocol: 'TCP' },
          ],
        },
      }),
    );
    expect(record!.ports.map(({ protocol, port }) => `${protocol} ${port}`)).toEqual([
      'TCP 53',
      'UDP 53',
    ]);
    expect(problems).toEqual([
      'Service shop/web | spec.ports[2].name | "dns" is used twice for UDP',
      'Service shop/web | spec.ports[3].port | 53 is used twice for TCP',
    ]);
  });

  it('survives a field of a wrong type anywhere', () => {
    const { record, problems } = decode({
      metadata: { namespace: 'shop', name: 'web', labels: 'none', creationTimestamp: 'then' },
      spec: { clusterIP: '10.96.0.10', ports: {}, externalIPs: 'x', sessionAffinityConfig: [] },
      status: [],
    });
    expect(record).toMatchObject({ ports: [], externalIPs: [], loadBalancerIPs: [], createdMs: 0 });
    expect(problems).toEqual([
      'Service shop/web | metadata.labels | must be an object, is "none"',
      'Service shop/web | metadata.creationTimestamp | is no time: "then"',
      'Service shop/web | spec.externalIPs | must be a list, is "x"',
      'Service shop/web | status | must be an object, is []',
      'Service shop/web | spec.ports | must be a list, is {}',
    ]);
  });

  it('tells the first problems one by one and counts the rest', () => {
    const ports = Array.from({ length: 4000 }, (_, i) => ({ name: `p${i}`, port: 0 }));
    const { record, problems } = decode(service({ spec: { ports } }));
    expect(record!.ports).toEqual([]);
    expect(problems).toHaveLength(21);
    expect(problems[19]).toBe(
      'Service shop/web | spec.ports[19].port | must be a whole number 1–65535, is 0',
    );
    expect(problems[20]).toBe('Service shop/web | undefined | and 3980 more problems');
  });

  it('reads no more than so many addresses and source ranges', () => {
    const spec = {
      type: 'LoadBalancer',
      externalIPs: Array.from({ length: 10_001 }, (_, i) => `203.0.${i >> 8}.${i & 0xff}`),
      loadBalancerSourceRanges: Array.from(
        { length: 20_001 },
        (_, i) => `198.51.${i >> 8}.${i & 0xff}/32`,
      ),
    };
    const { record, problems } = decode(service({ spec }));
    expect(record!.externalIPs).toHaveLength(10_000);
    expect(record!.loadBalancerSourceRanges).toHaveLength(20_000);
    expect(problems).toEqual([
      'Service shop/web | spec.externalIPs | has 10001 entries: only the first 10000 are read',
      'Service shop/web | spec.loadBalancerSourceRanges | ' +
        'has 20001 entries: only the first 20000 are read',
    ]);
  });
});
