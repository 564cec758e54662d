/** Objects of every form, written by another implementation: they mean what their JSON means. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeChange, decodeContext } from '../../../../../src/source/decode.ts';
import { protobuf } from '../../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../../src/source/kubernetes/protobuf/string-cache.ts';
import type { Resource } from '../../../../../src/state/change.ts';
import { finish } from '../../../../../src/state/steps.ts';
import { kinds, type Raw } from '../../../../fake/api-server-store.ts';
import { encodeObject } from '../../../../fake/protobuf.ts';

const context = decodeContext('here');
const strings = new StringCache();

const optional = <T>(...values: fc.Arbitrary<T>[]) =>
  fc.option(fc.oneof(...values), { nil: undefined, freq: 3 });
const some = <T>(values: fc.Arbitrary<T>, maxLength = 4) =>
  fc.option(fc.array(values, { maxLength }), { nil: undefined, freq: 5 });

const name = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('web', 'here', 'there', 'zone-a', 'Zürich') },
  fc.constantFrom('', 'a/b', 'x'.repeat(70), '日本', '__proto__'),
  fc.string({ maxLength: 12 }),
);
const address = fc.oneof(
  { weight: 6, arbitrary: fc.ipV4() },
  { weight: 2, arbitrary: fc.ipV6() },
  fc.constantFrom('', '0.0.0.0', '127.0.0.1', '010.0.0.1', '1.2.3', '1.2.3.4.5', '256.1.1.1'),
  fc.constantFrom('::', '::1', 'fe80::1', 'fe80::1%eth0', '::ffff:1.2.3.4', 'ff02::1', 'None'),
  fc.constantFrom('224.0.0.1', '169.254.1.1', '255.255.255.255', '1..2.3', '.1.2.3', 'web.local'),
);
const cidr = fc
  .tuple(address, fc.constantFrom('/0', '/8', '/24', '/32', '/64', '/129', '', ' '))
  .map(([block, length]) => `${block}${length}`);
const protocol = optional(fc.constantFrom('TCP', 'UDP', 'SCTP', '', 'ICMP'));
const port = optional(
  fc.integer({ min: 1, max: 65_535 }),
  fc.constantFrom(0, -1, 65_536, 2 ** 31 - 1),
);
const time = fc
  .integer({ min: -10_000_000_000, max: 100_000_000_000 })
  .map((seconds) => `${new Date(seconds * 1000).toISOString().slice(0, -5)}Z`);
const texts = fc.dictionary(fc.string({ maxLength: 8 }), name, { maxKeys: 3 });

/** What we need, among much that we do not. */
const metadata = fc.record(
  {
    name,
    namespace: name,
    uid: fc.uuid(),
    resourceVersion: fc.nat().map(String),
    generation: fc.nat(),
    creationTimestamp: fc.option(time),
    deletionTimestamp: time,
    labels: fc
      .tuple(texts, fc.record({ app: name }, { requiredKeys: [] }), labels())
      .map((parts) => Object.assign({}, ...parts)),
    annotations: fc.oneof(
      texts,
      fc.record({ 'endpoints.kubernetes.io/last-change-trigger-time': fc.oneof(time, name) }),
      fc.record({ 'fairlead.io/connect-time': fc.oneof(fc.constant('off'), name) }),
      fc.record({ 'fairlead.io/connect-tiem': name, 'fairlead.io/weight': name }),
    ),
    finalizers: fc.array(name, { maxLength: 2 }),
    managedFields: fc.array(
      fc.record({ manager: name, operation: name, time, fieldsType: name, apiVersion: name }),
      { maxLength: 2 },
    ),
  },
  { requiredKeys: ['name', 'namespace'] },
);

function labels() {
  return fc.record(
    {
      'kubernetes.io/service-name': name,
      'service.kubernetes.io/headless': name,
      'service.kubernetes.io/service-proxy-name': name,
      'topology.kubernetes.io/zone': name,
      'kubernetes.io/service-nam': name,
    },
    { requiredKeys: [] },
  );
}

const sparse = <T extends Record<string, fc.Arbitrary<unknown>>>(fields: T) =>
  fc.record(fields, { requiredKeys: [] }) as fc.Arbitrary<Raw>;

const targetPort = fc.oneof(fc.nat({ max: 65_535 }), name);

const service = sparse({
  metadata,
  spec: sparse({
    type: fc.constantFrom('ClusterIP', 'NodePort', 'LoadBalancer', 'ExternalName', '', 'Other'),
    clusterIP: address,
    clusterIPs: some(address, 2),
    ipFamilies: some(fc.constantFrom('IPv4', 'IPv6', ''), 3),
    externalIPs: some(address),
    externalName: name,
    loadBalancerSourceRanges: some(cidr),
    externalTrafficPolicy: fc.constantFrom('Cluster', 'Local', '', 'Other'),
    loadBalancerClass: name,
    internalTrafficPolicy: fc.constantFrom('Cluster', 'Local', '', 'Other'),
    healthCheckNodePort: port,
    sessionAffinity: fc.constantFrom('None', 'ClientIP', '', 'Other'),
    sessionAffinityConfig: sparse({
      clientIP: sparse({ timeoutSeconds: fc.integer({ min: -5 }) }),
    }),
    selector: texts,
    ports: some(sparse({ name, protocol, port, nodePort: port, targetPort, appProtocol: name })),
  }),
  status: sparse({
    loadBalancer: sparse({
      ingress: some(
        sparse({ ip: address, hostname: name, ipMode: fc.constantFrom('VIP', 'Proxy', 'Other') }),
      ),
    }),
  }),
});

const hints = some(sparse({ name }), 3);

const endpoint = sparse({
  addresses: fc.oneof(
    { weight: 5, arbitrary: address.map((one) => [one]) },
    fc.array(address, { maxLength: 2 }),
  ),
  conditions: sparse({
    ready: fc.boolean(),
    serving: fc.boolean(),
    terminating: fc.boolean(),
  }),
  hostname: name,
  nodeName: name,
  zone: name,
  targetRef: sparse({ kind: name, name, namespace: name, uid: fc.uuid() }),
  deprecatedTopology: texts,
  hints: sparse({ forZones: hints, forNodes: hints }),
});

const slice = sparse({
  metadata,
  addressType: fc.constantFrom('IPv4', 'IPv4', 'IPv6', 'FQDN', '', 'Other'),
  endpoints: some(endpoint, 6),
  ports: some(sparse({ name, protocol, port, appProtocol: name })),
});

const node = sparse({
  metadata,
  spec: sparse({
    podCIDR: cidr,
    podCIDRs: some(cidr, 2),
    providerID: name,
    taints: some(sparse({ key: name, value: name, effect: name, timeAdded: time })),
  }),
  status: sparse({
    phase: name,
    addresses: some(
      sparse({ type: fc.constantFrom('InternalIP', 'ExternalIP', 'Hostname', '', 'x'), address }),
    ),
    conditions: some(
      sparse({
        type: fc.constantFrom('Ready', 'x'),
        status: fc.constantFrom('False', 'True'),
        lastHeartbeatTime: time,
        message: fc.constantFrom('x', 'x, node is shutting down'),
      }),
    ),
  }),
});

const serviceCIDR = sparse({ metadata, spec: sparse({ cidrs: some(cidr) }) });

const objects: Readonly<Record<Resource, fc.Arbitrary<Raw>>> = {
  services: service,
  endpointslices: slice,
  nodes: node,
  servicecidrs: serviceCIDR,
};

describe.each(Object.entries(objects))('%s', (given, arbitrary) => {
  const resource = given as Resource;
  const { kind } = kinds[resource];
  const { item: itemInSteps } = protobuf(resource, context, strings);
  const item = (bytes: Buffer) => finish(itemInSteps(bytes));

  it('objects in protobuf have the same fields and problems as in JSON', () => {
    fc.assert(
      fc.property(arbitrary, (object) => {
        const raw: unknown = JSON.parse(JSON.stringify(object));
        const ours = decodeChange(resource, item(encodeObject(kind, raw as Raw)), context);
        expect(ours).toEqual(decodeChange(resource, raw, context));
      }),
      { numRuns: 400 },
    );
  });

  it('objects that are truncated are rejected by name, or lack their end', () => {
    fc.assert(
      fc.property(arbitrary, fc.nat(), (object, place) => {
        const bytes = encodeObject(kind, JSON.parse(JSON.stringify(object)));
        let raw: unknown;
        try {
          raw = item(bytes.subarray(0, place % (bytes.length + 1)));
        } catch (error) {
          expect(String(error)).toMatch(
            new RegExp(`^Error: ${kind}( .*)?: .*it ends in the middle`, 's'),
          );
          return;
        }
        decodeChange(resource, raw, context);
      }),
    );
  });
});
