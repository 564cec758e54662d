import { describe, expect, it } from 'vitest';
import {
  type Address,
  formatAddress,
  formatCIDR,
  parseAddress,
} from '../../../../src/net/address.ts';
import type { List } from '../../../../src/net/list.ts';
import { decodeChange, decodeContext, serviceInSteps } from '../../../../src/source/decode.ts';
import { Interner } from '../../../../src/source/interner.ts';
import { finish } from '../../../../src/state/steps.ts';

type Raw = Record<string, unknown>;

const texts = (addresses: List<Address>) =>
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
  const { record, problems } = finish(serviceInSteps(raw, new Interner()));
  return { record, problems: problems.map((p) => `${p.subject} | ${p.field} | ${p.reason}`) };
}

describe('serviceInSteps', () => {
  it('reports annotations of ours that mean nothing at a Service', () => {
    const annotations = {
      'fairlead.io/balanse': 'maglev',
      'fairlead.io/weight': '5',
      'fairlead.io/colour': 'red',
      'fairlead.io/baxxxce': 'maglev',
      'fairlead.io/balance': 'maglev',
      [`fairlead.io/${'x'.repeat(100)}`]: '',
      'example.com/balanse': 'maglev',
    };
    const { problems, record } = decode(service({ metadata: { annotations } }));
    expect(problems).toEqual([
      'Service shop/web | metadata.annotations[fairlead.io/balanse] | means nothing at a Service; did you mean fairlead.io/balance?',
      'Service shop/web | metadata.annotations[fairlead.io/weight] | means nothing at a Service: it is for an EndpointSlice',
      'Service shop/web | metadata.annotations[fairlead.io/colour] | means nothing at a Service',
      'Service shop/web | metadata.annotations[fairlead.io/baxxxce] | means nothing at a Service',
    ]);
    expect(record!.balancing).toEqual({ balance: 'maglev' });
  });

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
      clusterIPs: [parseAddress('10.96.0.10')],
      externalIPs: [],
      loadBalancerIPs: [],
      loadBalancerSourceRanges: [],
      internalTrafficPolicy: 'Cluster',
      externalTrafficPolicy: 'Cluster',
      healthCheckNodePort: 0,
      affinityTimeoutSeconds: 0,
      rulesOnly: false,
      awaitedLoadBalancer: undefined,
      ports: [{ name: 'http', protocol: 'TCP', port: 80, nodePort: 0 }],
    });
  });

  it('reads all fields of an object', () => {
    const { record, problems } = decode(
      service({
        metadata: {
          uid: 'u-1',
          creationTimestamp: '2026-01-02T03:04:05Z',
          annotations: { 'fairlead.io/connect-time': 'off' },
        },
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
      rulesOnly: true,
      awaitedLoadBalancer: '',
      ports: [{ name: '', protocol: 'UDP', port: 53, nodePort: 30_053 }],
    });
    expect(texts(record!.clusterIPs)).toEqual(['10.96.0.10', 'fd00::10']);
  });

  it('takes null for absent, at any depth', () => {
    const full = service({
      metadata: { uid: 'u-1', creationTimestamp: '2026-01-02T03:04:05Z', annotations: {} },
      spec: {
        type: 'LoadBalancer',
        ipFamilies: ['IPv4'],
        externalIPs: ['192.0.2.1'],
        externalTrafficPolicy: 'Local',
        internalTrafficPolicy: 'Local',
        healthCheckNodePort: 30_100,
        sessionAffinity: 'ClientIP',
        sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
        loadBalancerSourceRanges: ['10.0.0.0/8'],
        ports: [{ name: 'dns', port: 53, protocol: 'UDP', nodePort: 30_053 }],
      },
      status: { loadBalancer: { ingress: [{ ip: '198.51.100.1', ipMode: 'VIP' }] } },
    });
    const compare = (path: readonly string[]): void => {
      const [as, without] = [structuredClone(full), structuredClone(full)].map((object) => {
        const above = path.slice(0, -1).reduce((part, key) => part[key] as Raw, object as Raw);
        return [object, above] as const;
      });
      as![1][path.at(-1)!] = null;
      delete without![1][path.at(-1)!];
      expect([path, decode(as![0])]).toEqual([path, decode(without![0])]);
    };
    const walk = (part: Raw, path: readonly string[]): void => {
      for (const [key, value] of Object.entries(part)) {
        if (!Array.isArray(part)) compare([...path, key]);
        if (typeof value === 'object') walk(value as Raw, [...path, key]);
      }
    };
    walk(full, []);
  });

  it.each([
    [{ 'fairlead.io/source-ranges': 'all' }, { guardsAll: true }],
    [{ 'fairlead.io/fast-path': 'off' }, { isFastPathOff: true }],
    [{ 'fairlead.io/fast-path': 'on' }, {}],
  ])('has a property for the annotation %j alone: %j', (annotations, has) => {
    const { guardsAll, isFastPathOff } = decode(service({ metadata: { annotations } })).record!;
    expect({ guardsAll, isFastPathOff }).toEqual(has);
  });

  it('reports an unknown annotation value, and continues without it', () => {
    const annotations = { 'fairlead.io/connect-time': 'no', 'fairlead.io/fast-path': '' };
    const { record, problems } = decode(service({ metadata: { annotations } }));
    expect(record?.rulesOnly).toBe(false);
    expect(problems).toEqual([
      'Service shop/web | metadata.annotations[fairlead.io/connect-time] | must be on or off, is "no"',
      'Service shop/web | metadata.annotations[fairlead.io/fast-path] | must be on or off, is ""',
    ]);
  });

  it('has a selector, which finds its endpoints, or none', () => {
    const has = (spec: Raw) => decode(service({ spec })).record!.hasSelector;
    expect([{}, { selector: {} }, { selector: { app: 'web' } }].map(has)).toEqual([
      undefined,
      undefined,
      true,
    ]);
  });

  it('is served by the proxy that its label names, and by no other', () => {
    const served = (label: string | undefined, proxyName: string) => {
      const labels =
        label === undefined ? {} : { 'service.kubernetes.io/service-proxy-name': label };
      const raw = service({ metadata: { labels } });
      const { change } = decodeChange('services', raw, decodeContext('node', proxyName));
      return change?.kind === 'service-unserved' ? change.unserved.because : change?.kind;
    };
    const addressesOf = (spec: Raw): readonly string[] | undefined => {
      const { change } = decodeChange('services', service({ spec }), decodeContext('node', 'blue'));
      return change?.kind === 'service-unserved' ? change.unserved.addresses : undefined;
    };
    const [one, two] = ['10.96.0.1', 'fd00::1'];
    expect(addressesOf({ clusterIP: one, clusterIPs: [] })).toEqual([one]);
    expect(addressesOf({ clusterIP: one, clusterIPs: [one, two] })).toEqual([one, two]);
    expect(served('blue', 'blue')).toBe('service');
    expect(served('green', 'blue')).toMatch(/gives it to the proxy "green"$/);
    expect(served(undefined, 'blue')).toBe(
      'it has no label service.kubernetes.io/service-proxy-name, and this proxy is "blue"',
    );
  });

  it.each([
    [
      { type: 'ExternalName', externalName: 'a.b' },
      'of type ExternalName: only DNS knows it, as "a.b"',
    ],
    [{ clusterIP: 'None' }, 'headless: DNS gives the addresses of its endpoints'],
    [{ clusterIP: 'None', clusterIPs: [] }, 'headless: DNS gives the addresses of its endpoints'],
    [
      { clusterIP: undefined, clusterIPs: ['None'] },
      'headless: DNS gives the addresses of its endpoints',
    ],
  ])('says why %j is not served', (spec, because) => {
    const { change } = decodeChange('services', service({ spec }), decodeContext('node'));
    const unserved = { key: 'shop/web', because: `it is ${because}`, addresses: [] };
    expect(change).toEqual({ kind: 'service-unserved', unserved });
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
      'a long name',
      service({ metadata: { name: 'n'.repeat(254) } }),
      'Service | metadata | has a name of more than 253 characters',
    ],
    [
      'a name with a slash',
      service({ metadata: { name: 'a/b' } }),
      'Service | metadata.name | must not contain a slash: "a/b"',
    ],
    [
      'no clusterIP',
      service({ spec: { clusterIP: '' } }),
      'Service shop/web | spec.clusterIP | is missing: give one, this proxy does not allocate addresses',
    ],
    [
      'a clusterIP that is none',
      service({ spec: { clusterIP: '10.96.0' } }),
      'Service shop/web | spec.clusterIP | is not an IP address: "10.96.0"',
    ],
    [
      'an unknown type',
      service({ spec: { type: 'Anycast' } }),
      'Service shop/web | spec.type | must be ClusterIP or NodePort or LoadBalancer, is "Anycast"',
    ],
    [
      'a long type',
      service({ spec: { type: 'x'.repeat(59) } }),
      `Service shop/web | spec.type | must be ClusterIP or NodePort or LoadBalancer, is "${'x'.repeat(56)}…`,
    ],
  ])('refuses %s and says why', (_what, raw, problem) => {
    expect(decode(raw)).toEqual({ record: undefined, problems: [problem] });
  });

  it.each([undefined, null, []])('serves nothing with ports %j, and says so', (ports) => {
    expect(decode(service({ spec: { ports } })).problems).toEqual([
      'Service shop/web | spec.ports | is empty: nothing is served',
    ]);
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

  it('drops invalid and blank externalIPs, normalises the rest, and reports each', () => {
    const { record, problems } = decode(
      service({ spec: { externalIPs: ['203.0.113.007', '', '  ', 'here', 'fd00::0:1', 5] } }),
    );
    expect(texts(record!.externalIPs)).toEqual(['203.0.113.7', 'fd00::1']);
    expect(problems).toEqual([
      'Service shop/web | spec.externalIPs[0] | "203.0.113.007" is taken as 203.0.113.7',
      'Service shop/web | spec.externalIPs[1] | is empty',
      'Service shop/web | spec.externalIPs[2] | is not an IP address: "  "',
      'Service shop/web | spec.externalIPs[3] | is not an IP address: "here"',
      'Service shop/web | spec.externalIPs[4] | "fd00::1" is not served: the Service has no IPv6 ClusterIP',
      'Service shop/web | spec.externalIPs[5] | must be a string, is 5',
    ]);
  });

  it('lists a repeated address once', () => {
    const { record, problems } = decode(
      service({ spec: { externalIPs: ['203.0.113.7', '203.0.113.7'] } }),
    );
    expect(texts(record!.externalIPs)).toEqual(['203.0.113.7']);
    expect(problems).toEqual([]);
  });

  it('uses ingress addresses whose ipMode is VIP or absent, not proxied ones or host names', () => {
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
      'Service shop/web | status.loadBalancer.ingress[5].ip | "fd00::9" is not served: the Service has no IPv6 ClusterIP',
      'Service shop/web | status.loadBalancer.ingress[6].ipMode | must be VIP or Proxy, is "Direct"',
    ]);
  });

  describe('loadBalancerSourceRanges', () => {
    const ranges = (...loadBalancerSourceRanges: unknown[]) => {
      const { record, problems } = decode(service({ spec: { loadBalancerSourceRanges } }));
      return { ranges: record!.loadBalancerSourceRanges.map(formatCIDR), problems };
    };

    it('tolerates spaces around a range', () => {
      expect(ranges(' 203.0.113.0/25', '10.0.0.0/8 ')).toEqual({
        ranges: ['203.0.113.0/25', '10.0.0.0/8'],
        problems: [],
      });
    });

    it('permits all clients of a family if one range is the whole family', () => {
      expect(ranges('10.0.0.0/8', '0.0.0.0/0').ranges).toEqual([]);
      expect(ranges('10.0.0.0/8', '0.0.0.0/0', 'fd00::/8').ranges).toEqual(['fd00::/8']);
    });

    it('permits no client if no range can be read', () => {
      expect(ranges('10.0.0/8').ranges).toEqual(['0.0.0.0/32', '::/128']);
      expect(ranges(7).ranges).toEqual(['0.0.0.0/32', '::/128']);
      expect(ranges('').ranges).toEqual(['0.0.0.0/32', '::/128']);
      expect(ranges(null).ranges).toEqual(['0.0.0.0/32', '::/128']);
    });
  });

  describe('an address with a special meaning on every node', () => {
    const unusable = [
      ['0.0.0.0', 'the unspecified address'],
      ['127.0.0.1', 'a loopback address'],
      ['127.255.255.254', 'a loopback address'],
      ['169.254.169.254', 'a link-local address'],
      ['224.0.0.1', 'a multicast address'],
      ['239.255.255.255', 'a multicast address'],
      ['255.255.255.255', 'the broadcast address'],
      ['::ffff:127.0.0.1', 'a loopback address'],
      ['::ffff:a9fe:a9fe', 'a link-local address'],
      ['::', 'the unspecified address'],
      ['::1', 'a loopback address'],
      ['fe80::1', 'a link-local address'],
      ['ff02::1', 'a multicast address'],
    ] as const;

    it.each(unusable)('is refused as a ClusterIP: %s', (text, what) => {
      const { record, problems } = decode(service({ spec: { clusterIP: text } }));
      expect(record).toBeUndefined();
      expect(problems).toContain(
        `Service shop/web | spec.clusterIP | "${text}" is ${what}: not usable for a Service`,
      );
    });

    it.each(unusable)('is refused for a load balancer and as external IP: %s', (text, what) => {
      const { record, problems } = decode(
        service({
          spec: { clusterIPs: ['10.96.0.10', 'fd00::10'], externalIPs: ['203.0.113.1', text] },
          status: { loadBalancer: { ingress: [{ ip: text }, { ip: '192.0.2.1' }] } },
        }),
      );
      expect(texts(record!.externalIPs)).toEqual(['203.0.113.1']);
      expect(texts(record!.loadBalancerIPs)).toEqual(['192.0.2.1']);
      const because = `"${text}" is ${what}: not usable for a Service`;
      expect(problems).toContain(`Service shop/web | spec.externalIPs[1] | ${because}`);
      expect(problems).toContain(
        `Service shop/web | status.loadBalancer.ingress[0].ip | ${because}`,
      );
    });
  });

  it('reports contradicting fields', () => {
    const { record, problems } = decode(
      service({
        spec: {
          clusterIPs: ['10.96.0.11'],
          ipFamilies: ['IPv4', 'IPv6'],
          sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
          healthCheckNodePort: 30_100,
        },
      }),
    );
    expect(texts(record!.clusterIPs)).toEqual(['10.96.0.11']);
    expect(problems).toEqual([
      'Service shop/web | spec.clusterIP | "10.96.0.10" is not clusterIPs[0], "10.96.0.11"',
      'Service shop/web | spec.ipFamilies[1] | "IPv6" has no address in clusterIPs',
      'Service shop/web | spec.healthCheckNodePort | 30100 is not served: only type LoadBalancer with externalTrafficPolicy Local has one',
      'Service shop/web | spec.sessionAffinityConfig | has no effect: sessionAffinity is not ClientIP',
    ]);
    const headless = decode(service({ spec: { clusterIPs: ['None'] } }));
    expect(headless).toEqual({
      record: undefined,
      problems: ['Service shop/web | spec.clusterIP | "10.96.0.10" is not clusterIPs[0], "None"'],
    });
  });

  it('reports elements of lists that are null', () => {
    const { record, problems } = decode(
      service({
        spec: { clusterIPs: ['10.96.0.10', null], externalIPs: [null], ports: [null] },
        status: { loadBalancer: { ingress: [null] } },
      }),
    );
    expect(record).toMatchObject({ ports: [], externalIPs: [], loadBalancerIPs: [] });
    expect(problems).toEqual([
      'Service shop/web | spec.clusterIPs[1] | must be a string, is null',
      'Service shop/web | spec.externalIPs[0] | must be a string, is null',
      'Service shop/web | status.loadBalancer.ingress[0] | must be an object, is null',
      'Service shop/web | spec.ports[0] | must be an object, is null',
    ]);
  });

  it('keeps the health check port only for load balancers with policy Local', () => {
    const port = (spec: Raw) =>
      decode(service({ spec: { healthCheckNodePort: 30_100, ...spec } })).record!
        .healthCheckNodePort;
    expect(port({ type: 'LoadBalancer', externalTrafficPolicy: 'Local' })).toBe(30_100);
    expect(port({ type: 'LoadBalancer', externalTrafficPolicy: 'Cluster' })).toBe(0);
    expect(port({ type: 'NodePort', externalTrafficPolicy: 'Local' })).toBe(0);
    const balanced = { type: 'LoadBalancer', externalTrafficPolicy: 'Local' };
    const { problems, record } = decode(service({ spec: balanced }));
    expect(record?.healthCheckNodePort).toBe(0);
    expect(problems).toEqual([
      'Service shop/web | spec.healthCheckNodePort | is missing: load balancers cannot ask for health',
    ]);
  });

  it('uses three hours for ClientIP affinity without a time, or with an invalid one', () => {
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

  it('drops invalid ports and continues with the others', () => {
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

  it('identifies ports by name and protocol, and rejects conflicting ones', () => {
    const { record, problems } = decode(
      service({
        spec: {
          ports: [
            { name: 'dns', port: 53, protocol: 'TCP' },
            { name: 'dns', port: 53, protocol: 'UDP' },
            { name: 'dns', port: 54, protocol: 'UDP' },
            { name: 'other', port: 53, protocol: 'TCP' },
            { name: 'a', port: 80, nodePort: 30_080 },
            { name: 'b', port: 81, nodePort: 30_080 },
          ],
        },
      }),
    );
    expect(
      record!.ports.map(({ protocol, port, nodePort }) => `${protocol} ${port} ${nodePort}`),
    ).toEqual(['TCP 53 0', 'UDP 53 0', 'TCP 80 30080', 'TCP 81 0']);
    expect(problems).toEqual([
      'Service shop/web | spec.ports[2].name | "dns" is used twice for UDP',
      'Service shop/web | spec.ports[3].port | 53 is used twice for TCP',
      'Service shop/web | spec.ports[5].nodePort | 30080 is used twice for TCP',
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
      'Service shop/web | metadata.creationTimestamp | is not a time: "then"',
      'Service shop/web | spec.externalIPs | must be a list, is "x"',
      'Service shop/web | status | must be an object, is []',
      'Service shop/web | spec.sessionAffinityConfig | must be an object, is []',
      'Service shop/web | spec.ports | must be a list, is {}',
    ]);
  });

  it('reports the first problems one by one and counts the rest', () => {
    const ports = Array.from({ length: 4000 }, (_, i) => ({ name: `p${i}`, port: 0 }));
    const { record, problems } = decode(service({ spec: { ports } }));
    expect(record!.ports).toEqual([]);
    expect(problems).toHaveLength(21);
    expect(problems[19]).toBe(
      'Service shop/web | spec.ports[19].port | must be a whole number 1–65535, is 0',
    );
    expect(problems[20]).toBe('Service shop/web | undefined | and 3980 more problems');
  });
});
