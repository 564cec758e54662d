import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  formatAddress,
  formatCIDR,
  parseAddress,
  parseIPv4Number,
} from '../../../../src/net/address.ts';
import { specialUse } from '../../../../src/net/special-address.ts';
import { isOrdinaryIPv4 } from '../../../../src/source/decode/addresses.ts';
import {
  decodeChange,
  decodeContext,
  decodeNode,
  decodeServiceCIDR,
  goneChange,
  keyOfRaw,
} from '../../../../src/source/decode.ts';
import { resources } from '../../../../src/state/change.ts';

it('takes an IPv4 text for ordinary if it is canonical and of no special use', () => {
  const octet = fc.constantFrom(0, 1, 9, 10, 99, 100, 127, 169, 223, 224, 239, 240, 254, 255);
  const octets = fc.tuple(octet, octet, octet, octet);
  fc.assert(
    fc.property(octets, fc.integer({ min: -1, max: 2 }), (numbers, more) => {
      const text = numbers.join('.');
      const isSpecial = specialUse(parseAddress(text)!) !== undefined;
      const isOrdinary = isOrdinaryIPv4(parseIPv4Number(text)!, text.length + more);
      expect([text, isOrdinary]).toEqual([text, more === 0 && !isSpecial]);
    }),
    { numRuns: 1000 },
  );
});

describe('decodeNode', () => {
  const node = {
    metadata: { name: 'n1', labels: { 'topology.kubernetes.io/zone': 'z1' } },
    spec: {
      podCIDRs: ['10.1.0.0/24', 'fd00:1::/64'],
      taints: [{ key: 'a', effect: 'NoSchedule' }],
    },
    status: {
      addresses: [
        { type: 'Hostname', address: 'n1' },
        { type: 'ExternalIP', address: '198.51.100.1' },
        { type: 'InternalIP', address: '192.168.0.1' },
        { type: 'InternalIP', address: 'fd00::1' },
        { type: 'InternalIP', address: 'nowhere' },
      ],
    },
  };

  it('lists InternalIPs before ExternalIPs and reports invalid addresses', () => {
    const { record, problems } = decodeNode(node);
    expect(record!.addresses.map(({ bytes }) => formatAddress(bytes))).toEqual([
      '192.168.0.1',
      'fd00::1',
      '198.51.100.1',
    ]);
    expect(problems).toEqual([
      {
        subject: 'Node n1',
        field: 'status.addresses[4].address',
        reason: 'is not an IP address: "nowhere"',
      },
    ]);
  });

  it('keeps podCIDRs in order, and reads the single podCIDR of an old node', () => {
    expect(decodeNode(node).record!.podCIDRs).toEqual(['10.1.0.0/24', 'fd00:1::/64']);
    const old = { metadata: { name: 'n1' }, spec: { podCIDR: '10.1.0.0/24' } };
    expect(decodeNode(old).record!.podCIDRs).toEqual(['10.1.0.0/24']);
  });

  it('reports what makes a node unfit for load balancers: deletion and taints', () => {
    expect(decodeNode(node).record).toMatchObject({ zone: 'z1', deleted: false, taintKeys: ['a'] });
    const deleted = { metadata: { name: 'n1', deletionTimestamp: '2026-01-01T00:00:00Z' } };
    expect(decodeNode(deleted).record).toMatchObject({ zone: '', deleted: true, taintKeys: [] });
  });

  it.each([
    ['[container runtime is down, node is shutting down]', 'Ready', 'False', true],
    ['node is shutting down', 'Ready', 'True', false],
    ['node is shutting down', 'DiskPressure', 'False', false],
    ['container runtime is down', 'Ready', 'False', false],
    [undefined, 'Ready', 'False', false],
  ])('finds in %s of %s %s whether the node is shutting down', (message, type, status, is) => {
    const conditions = [null, { type: 'PIDPressure', status: 'False' }, { type, status, message }];
    const { record, problems } = decodeNode({ metadata: { name: 'n1' }, status: { conditions } });
    expect(record!.isShuttingDown).toBe(is);
    expect(problems).toHaveLength(1);
  });

  it('reports what it cannot use', () => {
    const { record, problems } = decodeNode({
      metadata: { name: 'n1', labels: { 'topology.kubernetes.io/zone': 7 } },
      spec: { podCIDR: '10.2.0.0/24', podCIDRs: ['10.1.0.9/24', 'all', ''], taints: [null, {}] },
      status: {
        addresses: [null, { type: 'Somewhere', address: '10.0.0.1' }, { type: '' }],
        conditions: {},
      },
    });
    expect(record).toMatchObject({ addresses: [], podCIDRs: ['10.1.0.9/24'], taintKeys: [] });
    expect(problems.map(({ field, reason }) => `${field} | ${reason}`)).toEqual([
      'status.addresses[0] | must be an object, is null',
      'status.addresses[1].type | must be InternalIP or ExternalIP, is "Somewhere"',
      'status.addresses[2].address | must be a string, is undefined',
      'spec.podCIDR | "10.2.0.0/24" is not podCIDRs[0], "10.1.0.9/24"',
      'spec.podCIDRs[0] | "10.1.0.9/24" is taken as 10.1.0.0/24',
      'spec.podCIDRs[1] | is not an address block: "all"',
      'spec.podCIDRs[2] | is empty',
      'metadata.labels[topology.kubernetes.io/zone] | must be a string, is 7',
      'spec.taints[0] | must be an object, is null',
      'spec.taints[1].key | must be a string, is undefined',
      'status.conditions | must be a list, is {}',
    ]);
  });
});

describe('decodeServiceCIDR', () => {
  it('reads blocks of both families and drops invalid ones', () => {
    const { record, problems } = decodeServiceCIDR({
      metadata: { name: 'kubernetes' },
      spec: { cidrs: ['10.96.0.0/12', 'fd00:96::/112', '10.96.0.0'] },
    });
    expect(record!.cidrs.map(formatCIDR)).toEqual(['10.96.0.0/12', 'fd00:96::/112']);
    expect(problems).toEqual([
      {
        subject: 'ServiceCIDR kubernetes',
        field: 'spec.cidrs[2]',
        reason: 'is not an address block: "10.96.0.0"',
      },
    ]);
  });
});

describe('decodeServiceCIDR of blocks that no node can use', () => {
  const decode = (...cidrs: unknown[]) => {
    const { record, problems } = decodeServiceCIDR({
      metadata: { name: 'kubernetes' },
      spec: { cidrs },
    });
    return {
      cidrs: record!.cidrs.map(formatCIDR),
      problems: problems.map(({ field, reason }) => `${field} | ${reason}`),
    };
  };

  it.each([
    ['0.0.0.0/0', 'the unspecified address'],
    ['64.0.0.0/2', 'a loopback address'],
    ['127.1.0.0/16', 'a loopback address'],
    ['169.254.0.0/17', 'a link-local address'],
    ['224.0.0.0/8', 'a multicast address'],
    ['::/0', 'the unspecified address'],
    ['fe80::/64', 'a link-local address'],
    ['ff00::/12', 'a multicast address'],
  ])('rejects %s, and uses the others', (text, what) => {
    expect(decode(text, '10.96.0.0/12')).toEqual({
      cidrs: ['10.96.0.0/12'],
      problems: [`spec.cidrs[0] | "${text}" holds ${what}: it is not used`],
    });
  });

  it('reports bits beyond the prefix, and an empty list', () => {
    expect(decode('10.96.0.1/12')).toEqual({
      cidrs: ['10.96.0.0/12'],
      problems: ['spec.cidrs[0] | "10.96.0.1/12" is taken as 10.96.0.0/12'],
    });
    expect(decode()).toEqual({ cidrs: [], problems: ['spec.cidrs | is empty'] });
  });
});

describe('decodeChange', () => {
  it('never throws, whatever the input', () => {
    const names =
      'metadata spec status name namespace labels ports endpoints addresses conditions hints ' +
      'forZones clusterIP clusterIPs addressType port taints cidrs loadBalancer ingress loadBalancerSourceRanges';
    const field = fc.constantFrom(...names.split(' '));
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 6 },
        fc.constantFrom<unknown>(null, true, 0, 80, -1, 1.5, '', 'IPv4', '10.0.0.1', 'None'),
        fc.array(tie('tree'), { maxLength: 3 }),
        fc.dictionary(field, tie('tree'), { maxKeys: 6 }),
      ),
    }));
    const named = fc.record({
      metadata: fc.constant({
        name: 'x',
        namespace: 'y',
        labels: { 'kubernetes.io/service-name': 'x' },
      }),
      addressType: fc.constantFrom('IPv4', 'IPv6'),
      spec: tree,
      status: tree,
      ports: tree,
      endpoints: tree,
    });
    fc.assert(
      fc.property(fc.oneof(tree, named), fc.constantFrom(...resources), (raw, resource) => {
        const { problems } = decodeChange(resource, raw, decodeContext('here'));
        for (const problem of problems) expect(problem.reason).not.toBe('');
      }),
      { numRuns: 500 },
    );
  });
});

describe('keyOfRaw and goneChange', () => {
  it('return the same object name', () => {
    const metadata = { namespace: 'shop', name: 'web' };
    expect(goneChange('services', keyOfRaw('services', { metadata })!)).toEqual({
      kind: 'service-gone',
      key: 'shop/web',
    });
    expect(goneChange('endpointslices', keyOfRaw('endpointslices', { metadata })!)).toEqual({
      kind: 'slice-gone',
      key: 'shop/web',
    });
    expect(goneChange('nodes', keyOfRaw('nodes', { metadata: { name: 'n' } })!)).toEqual({
      kind: 'node-gone',
      name: 'n',
    });
    expect(
      goneChange('servicecidrs', keyOfRaw('servicecidrs', { metadata: { name: 'k' } })!),
    ).toEqual({ kind: 'service-cidr-gone', name: 'k' });
  });

  it('return nothing for an object without a name', () => {
    for (const raw of [undefined, 7, {}, { metadata: 7 }, { metadata: { name: 5 } }]) {
      expect(keyOfRaw('services', raw)).toBeUndefined();
    }
    expect(keyOfRaw('services', { metadata: { name: 'web' } })).toBeUndefined();
  });
});
