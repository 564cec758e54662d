import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addressBytes, formatAddress } from '../../../../src/net/address.ts';
import {
  decodeChange,
  decodeContext,
  endpointSliceInSteps,
} from '../../../../src/source/decode.ts';
import { Interner } from '../../../../src/source/interner.ts';
import { finish } from '../../../../src/state/steps.ts';
import { Condition, type EndpointSlice } from '../../../../src/state/types.ts';

type Raw = Record<string, unknown>;

const { ready, serving, terminating, local, nodeHinted, nodeHintedHere } = Condition;
const subject = 'EndpointSlice shop/web-1';
const nowhere = { node: '', zone: '' };

function slice({ metadata, ...rest }: { metadata?: Raw } & Raw = {}) {
  return {
    metadata: {
      namespace: 'shop',
      name: 'web-1',
      labels: { 'kubernetes.io/service-name': 'web' },
      ...metadata,
    },
    addressType: 'IPv4',
    ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
    endpoints: [{ addresses: ['10.0.0.1'] }],
    ...rest,
  };
}

function decode(raw: unknown) {
  const { record, problems } = finish(endpointSliceInSteps(raw, new Interner(), 'here'));
  return { record, problems: problems.map((p) => `${p.subject} | ${p.field} | ${p.reason}`) };
}

function addresses(record: EndpointSlice): string[] {
  const stride = addressBytes[record.family];
  return Array.from({ length: record.length }, (_, i) =>
    formatAddress(Buffer.from(record.addresses.slice(i * stride, (i + 1) * stride), 'latin1')),
  );
}

const of = (endpoint: Raw) =>
  decode(slice({ endpoints: [{ addresses: ['10.0.0.1'], ...endpoint }] }));

describe('endpointSliceInSteps', () => {
  it('reads endpoints into columns', () => {
    const { record, problems } = decode(
      slice({ endpoints: [{ addresses: ['10.0.0.1'] }, { addresses: ['10.0.0.2', '10.0.0.9'] }] }),
    );
    expect(problems).toEqual([
      `${subject} | endpoints[1].addresses | has 2, of which the first is used`,
    ]);
    expect(record).toEqual({
      key: 'shop/web-1',
      service: 'shop/web',
      family: 'IPv4',
      ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
      length: 2,
      addresses: '\n\0\0\x01\n\0\0\x02',
      conditions: '\x03\x03',
      zoneHints: undefined,
      places: undefined,
      triggerTimeMs: undefined,
    });
  });

  it('reads each endpoint as if it were alone', () => {
    const name = fc.constantFrom('here', 'there', '', null, undefined);
    const hint = fc.array(fc.record({ name: fc.constantFrom('here', 'there', 5) }), {
      maxLength: 2,
    });
    const endpoint = fc.record({
      addresses: fc.constantFrom(
        ['fd00::1'],
        ['2001:db8::2'],
        ['fd00::0:3'],
        ['::1'],
        ['10.0.0.1'],
      ),
      conditions: fc.constantFrom(null, { ready: false }, { terminating: 1 }, { serving: 'x' }),
      nodeName: name,
      zone: name,
      targetRef: fc.record({ name }),
      hints: fc.record({ forNodes: hint, forZones: hint }),
    });
    fc.assert(
      fc.property(fc.array(endpoint, { maxLength: 6 }), (endpoints) => {
        const read = (some: unknown) => decode(slice({ addressType: 'IPv6', endpoints: some }));
        const alone = endpoints.map((one) => read([one]).record!);
        const { record } = read(endpoints);
        const joined = (column: 'addresses' | 'conditions') =>
          alone.map((one) => one[column]).join('');
        const present = alone.filter(({ length }) => length > 0);
        const pods = present.map((one) => one.pods ?? '\0\0\0\0').join('');
        expect(record).toMatchObject({
          addresses: joined('addresses'),
          conditions: joined('conditions'),
          length: present.length,
        });
        expect(record!.pods ?? '\0'.repeat(4 * present.length)).toBe(pods);
        for (const [i, one] of present.entries()) {
          expect(record!.places?.[i] ?? nowhere).toEqual(one.places?.[0] ?? nowhere);
          expect(record!.zoneHints?.at(i) ?? []).toEqual(one.zoneHints?.at(0) ?? []);
        }
      }),
    );
  });

  it('reads IPv6 addresses and normalises those with leading zeroes', () => {
    const six = decode(slice({ addressType: 'IPv6', endpoints: [{ addresses: ['fd00::0:1'] }] }));
    expect(addresses(six.record!)).toEqual(['fd00::1']);
    const four = decode(slice({ endpoints: [{ addresses: ['10.180.00.001'] }] }));
    expect(addresses(four.record!)).toEqual(['10.180.0.1']);
    expect(four.problems).toEqual([
      `${subject} | endpoints[0].addresses[0] | "10.180.00.001" is taken as 10.180.0.1`,
    ]);
  });

  it.each([
    [
      'of a headless Service',
      slice({ metadata: { labels: { 'service.kubernetes.io/headless': '' } } }),
    ],
    ['of host names', slice({ addressType: 'FQDN', endpoints: [{ addresses: ['a.example'] }] })],
  ])('skips a slice %s, silently', (_what, raw) => {
    expect(decode(raw)).toEqual({ record: undefined, problems: [] });
  });

  it.each([
    ['no object', [], 'EndpointSlice |  | must be an object, is []'],
    ['no name', slice({ metadata: { name: '' } }), 'EndpointSlice | metadata.name | is missing'],
    [
      'no Service',
      slice({ metadata: { labels: {} } }),
      `${subject} | metadata.labels[kubernetes.io/service-name] | is missing: it names the Service of the endpoints`,
    ],
    [
      'an empty Service name',
      slice({ metadata: { labels: { 'kubernetes.io/service-name': '' } } }),
      `${subject} | metadata.labels[kubernetes.io/service-name] | is missing: it names the Service of the endpoints`,
    ],
    [
      'no address type',
      slice({ addressType: undefined }),
      `${subject} | addressType | is missing: give IPv4 or IPv6`,
    ],
    [
      'an unknown address type',
      slice({ addressType: 'IPX' }),
      `${subject} | addressType | must be IPv4 or IPv6, is "IPX"`,
    ],
  ])('refuses a slice with %s', (_what, raw, problem) => {
    expect(decode(raw)).toEqual({ record: undefined, problems: [problem] });
  });

  it.each([
    [{}, ready | serving],
    [{ conditions: {} }, ready | serving],
    [{ conditions: { ready: null, serving: null, terminating: null } }, ready | serving],
    [{ conditions: { ready: false } }, serving],
    [{ conditions: { ready: false, serving: true, terminating: true } }, serving | terminating],
    [{ conditions: { ready: false, serving: false, terminating: true } }, terminating],
    [{ nodeName: 'here' }, ready | serving | local],
    [{ nodeName: 'there' }, ready | serving],
    [{ hints: { forNodes: [{ name: 'there' }] } }, ready | serving | nodeHinted],
    [
      { hints: { forNodes: [{ name: 'there' }, { name: 'here' }] } },
      ready | serving | nodeHinted | nodeHintedHere,
    ],
  ])('reads the conditions of %j', (endpoint, bits) => {
    expect(of(endpoint).record!.conditions).toBe(String.fromCharCode(bits));
  });

  it.each(['ready', 'serving', 'terminating'])(
    'drops an endpoint of no boolean %s',
    (condition) => {
      const { record, problems } = of({ conditions: { [condition]: 'false' } });
      expect(record!.length).toBe(0);
      expect(problems).toEqual([
        `${subject} | endpoints[0].conditions.${condition} | must be true or false, is "false"`,
      ]);
    },
  );

  it('keeps zone hints, one shared list for equal ones, empty for an endpoint without hints', () => {
    const { record } = decode(
      slice({
        endpoints: [
          { addresses: ['10.0.0.1'], hints: { forZones: [{ name: 'a' }, { name: 'b' }] } },
          { addresses: ['10.0.0.2'] },
          { addresses: ['10.0.0.3'], hints: { forZones: [{ name: 'a' }, { name: 'b' }] } },
        ],
      }),
    );
    expect(record!.zoneHints).toEqual([['a', 'b'], [], ['a', 'b']]);
    expect(record!.zoneHints!.at(2)).toBe(record!.zoneHints!.at(0));
  });

  it.each([
    ['columns', 'zone-', false],
    ['lists, because names have line ends', 'zone\n', true],
  ])('keeps many different zone hints in %s', (_, prefix, isArray) => {
    const zones = Array.from({ length: 100 }, (_, i) => (i % 7 === 0 ? [] : [prefix + i, 'all']));
    const endpoints = zones.map((names, i) => {
      return { addresses: [`10.0.1.${i}`], hints: { forZones: names.map((name) => ({ name })) } };
    });
    const { zoneHints } = decode(slice({ endpoints })).record!;
    expect([...zoneHints!]).toEqual(zones);
    expect(Array.isArray(zoneHints)).toBe(isArray);
  });

  it('keeps the node and zone of endpoints, one shared record per node; no zone is longer than a label', () => {
    const zone = 'z'.repeat(63);
    const { record, problems } = decode(
      slice({
        endpoints: [
          { addresses: ['10.0.0.1'] },
          { addresses: ['10.0.0.2'], nodeName: 'node-a', zone: 'zone-a' },
          { addresses: ['10.0.0.3'], nodeName: 'node-a', zone: 'zone-a' },
          { addresses: ['10.0.0.4'], zone },
          { addresses: ['10.0.0.5'], nodeName: 'node-b', zone: `${zone}z` },
          { addresses: [] },
        ],
      }),
    );
    expect(problems).toHaveLength(1);
    const here = { node: 'node-a', zone: 'zone-a' };
    expect(record!.places).toEqual([
      { node: '', zone: '' },
      here,
      here,
      { node: '', zone },
      { node: 'node-b', zone: '' },
    ]);
    expect(record!.places![2]).toBe(record!.places![1]);
  });

  it.each([
    ['127.0.0.1', 'a loopback address', '10.0.0.2'],
    ['febf::1', 'a link-local address', 'fec0::1'],
    ['::', 'the unspecified address', '::2'],
  ])('rejects the endpoint %s, as Services do, and keeps the others', (text, what, good) => {
    const addressType = text.includes(':') ? 'IPv6' : 'IPv4';
    const { record, problems } = decode(
      slice({ addressType, endpoints: [{ addresses: [text] }, { addresses: [good] }] }),
    );
    expect(addresses(record!)).toEqual([good]);
    expect(problems).toEqual([
      `${subject} | endpoints[0].addresses[0] | "${text}" is ${what}: not usable for an endpoint`,
    ]);
  });

  it.each([
    [{ addresses: ['10.0.0'] }, 'addresses[0] | is not an IP address: "10.0.0"'],
    [{ addresses: ['fd00::1'] }, 'addresses[0] | "fd00::1" is not an IPv4 address'],
    [{ addresses: [] }, 'addresses | has no address'],
    [{}, 'addresses | has no address'],
  ])('drops the endpoint %j', (endpoint, problem) => {
    const { record, problems } = decode(
      slice({ endpoints: [{ addresses: ['10.0.0.1'] }, endpoint, { addresses: ['10.0.0.3'] }] }),
    );
    expect(addresses(record!)).toEqual(['10.0.0.1', '10.0.0.3']);
    expect(problems).toEqual([`${subject} | endpoints[1].${problem}`]);
  });

  it('skips ports without name or number with a report, and keeps duplicates of a name', () => {
    const { record, problems } = decode(
      slice({
        ports: [
          { port: 1 },
          { name: 'a' },
          { name: 'b', port: 0 },
          { name: null, port: 2 },
          { name: '', port: 3 },
          { name: 'c', port: 4, protocol: 'SCTP' },
          { name: 'c', port: 5, protocol: 'SCTP' },
        ],
      }),
    );
    expect(problems).toEqual([
      `${subject} | ports[0].name | is missing: a port without one means all ports, which is not served`,
      `${subject} | ports[1].port | is missing: a port without one means all ports, which is not served`,
      `${subject} | ports[2].port | must be a whole number 1–65535, is 0`,
      `${subject} | ports[3].name | is missing: a port without one means all ports, which is not served`,
    ]);
    expect(record!.ports).toEqual([
      { name: '', protocol: 'TCP', port: 3 },
      { name: 'c', protocol: 'SCTP', port: 4 },
      { name: 'c', protocol: 'SCTP', port: 5 },
    ]);
  });

  it('reports invalid ports', () => {
    const { record, problems } = decode(
      slice({
        ports: [
          { name: 'a', port: 70_000 },
          { name: 'b', port: 1, protocol: 'X' },
          { name: 'c', port: 80.5 },
        ],
      }),
    );
    expect(record!.ports).toEqual([]);
    expect(problems).toEqual([
      `${subject} | ports[0].port | must be a whole number 1–65535, is 70000`,
      `${subject} | ports[1].protocol | must be TCP or UDP or SCTP, is "X"`,
      `${subject} | ports[2].port | must be a whole number 1–65535, is 80.5`,
    ]);
  });

  it('reports elements of lists that are null', () => {
    const { record, problems } = decode(
      slice({
        ports: [null, { name: '', port: 1 }],
        endpoints: [
          null,
          { addresses: [null] },
          { addresses: ['10.0.0.1'], hints: { forZones: [null, {}, { name: 'a' }] }, nodeName: 5 },
        ],
      }),
    );
    expect(record).toMatchObject({ length: 1, ports: [{ port: 1 }], zoneHints: [['a']] });
    expect(problems).toEqual([
      `${subject} | ports[0] | must be an object, is null`,
      `${subject} | endpoints[0] | must be an object, is null`,
      `${subject} | endpoints[1].addresses[0] | must be a string, is null`,
      `${subject} | endpoints[2].nodeName | must be a string, is 5`,
      `${subject} | endpoints[2].hints.forZones | must be an object, is null`,
      `${subject} | endpoints[2].hints.forZones.name | must be a string, is undefined`,
    ]);
  });

  it('reads the trigger time to the millisecond, and reports an invalid one', () => {
    const at = (text: string) =>
      decode(
        slice({
          metadata: { annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': text } },
        }),
      );
    expect(at('2026-03-01T10:00:00.123456789Z').record!.triggerTimeMs).toBe(
      Date.UTC(2026, 2, 1, 10, 0, 0, 123),
    );
    expect(at('soon').record!.triggerTimeMs).toBeUndefined();
    expect(at('soon').problems).toEqual([
      `${subject} | metadata.annotations[endpoints.kubernetes.io/last-change-trigger-time] | is not a time: "soon"`,
    ]);
  });
});

describe('an unusable EndpointSlice', () => {
  const unused = (raw: unknown) => {
    const { change } = decodeChange('endpointslices', raw, decodeContext('node-a'));
    return change?.kind === 'slice-unused' ? change.unused : change?.kind;
  };

  it('of host names is kept with its Service and the reason', () => {
    expect(unused(slice({ addressType: 'FQDN', endpoints: [] }))).toEqual({
      ...{ key: 'shop/web-1', service: 'shop/web' },
      because: 'its addressType is FQDN, and a proxy needs addresses',
    });
  });

  it.each([
    'kubernetes.io/service-nam',
    'kubernetes.io/service-names',
    'kubernetes.io/servicename',
    'kubernetes.io/serivce-name',
    'kubernetes.io/service_name',
    'k8s.io/service-name',
    'service-name',
  ])('is for the Service that its label %s names, nearly', (label) => {
    expect(unused(slice({ metadata: { labels: { [label]: 'web' } } }))).toEqual({
      ...{ key: 'shop/web-1', service: 'shop/web' },
      because: `its label is "${label}" instead of "kubernetes.io/service-name"`,
    });
  });

  it.each([
    {},
    { 'app.kubernetes.io/instance': 'web' },
    { 'app.kubernetes.io/name': 'web' },
    { 'kubernetes.io/service-nam': '' },
    { 'endpointslice.kubernetes.io/managed-by': 'web' },
    { 'kubernetes.io/service-nam': 'web', 'service.kubernetes.io/headless': '' },
  ])('belongs to no Service with labels %j', (labels) => {
    expect(unused(slice({ metadata: { labels } }))).toBeUndefined();
  });
});
