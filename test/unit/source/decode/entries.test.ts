/** Lists of more entries than are read, in both encodings. */
import { deepStrictEqual } from 'node:assert/strict';
import { expect, it } from 'vitest';
import {
  changeInSteps,
  decodeChange,
  decodeContext,
  kindOf,
} from '../../../../src/source/decode.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { protobuf } from '../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../src/source/kubernetes/protobuf/string-cache.ts';
import type { Resource } from '../../../../src/state/change.ts';
import { finish } from '../../../../src/state/steps.ts';
import { encodeObject } from '../../../fake/protobuf.ts';

const context = decodeContext('here');
const metadata = {
  name: 'web',
  namespace: 'shop',
  labels: { 'kubernetes.io/service-name': 'web' },
};

type Entries = (count: number) => object;
const many = <T>(count: number, entry: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => entry(i));
const address = (i: number): string => `203.${i >> 16}.${(i >> 8) & 0xff}.${i & 0xff}`;

const service = (spec: object, status = {}) => ({
  metadata,
  spec: { clusterIP: '10.96.0.1', type: 'LoadBalancer', ports: [{ port: 80 }], ...spec },
  status,
});
const slice = (fields: object) => ({ metadata, addressType: 'IPv4', ports: [], ...fields });
const endpoints = (fields: object) =>
  slice({ endpoints: [{ addresses: ['10.0.0.1'], ...fields }, { addresses: ['10.0.0.2'] }] });

const port = (i: number) => ({
  name: `p${i}`,
  port: (i >> 1) + 1,
  protocol: ['TCP', 'UDP'][i % 2],
});
const block = (i: number) => `${address(i)}/32`;
const ingress = (i: number) => ({ ip: address(i) });
const alone = (i: number) => ({ addresses: [address(i)] });
const name = (i: number) => ({ name: `n${i}` });
const portOfSlice = (i: number) => ({ ...name(i), port: 1 });
const internal = (i: number) => ({ type: 'InternalIP', address: address(i) });
const node = (spec: object, status = {}) => ({ metadata: { name: 'here' }, spec, status });

/** By resource and field: the most that are read, and an object with any number. */
const mostAndObject: Readonly<Record<string, readonly [most: number, of: Entries]>> = {
  'services spec.ports': [65_536, (n) => service({ ports: many(n, port) })],
  'services spec.externalIPs': [10_000, (n) => service({ externalIPs: many(n, address) })],
  'services spec.loadBalancerSourceRanges': [
    20_000,
    (n) => service({ loadBalancerSourceRanges: many(n, block) }),
  ],
  'services status.loadBalancer.ingress': [
    10_000,
    (n) => service({}, { loadBalancer: { ingress: many(n, ingress) } }),
  ],
  'services spec.clusterIPs': [1000, (n) => service({ clusterIPs: many(n, () => '10.96.0.1') })],
  'services spec.ipFamilies': [1000, (n) => service({ ipFamilies: many(n, () => 'IPv4') })],
  'endpointslices ports': [65_536, (n) => slice({ ports: many(n, portOfSlice), endpoints: [] })],
  'endpointslices endpoints': [20_000, (n) => slice({ endpoints: many(n, alone) })],
  'endpointslices endpoints[0].addresses': [
    1000,
    (n) => endpoints({ addresses: many(n, address) }),
  ],
  'endpointslices endpoints[0].hints.forZones': [
    1000,
    (n) => endpoints({ hints: { forZones: many(n, name) } }),
  ],
  'endpointslices endpoints[0].hints.forNodes': [
    1000,
    (n) => endpoints({ hints: { forNodes: many(n, name) } }),
  ],
  'nodes status.addresses': [10_000, (n) => node({}, { addresses: many(n, internal) })],
  'nodes spec.podCIDRs': [1000, (n) => node({ podCIDRs: many(n, () => '10.0.0.0/8') })],
  'nodes spec.taints': [1000, (n) => node({ taints: many(n, () => ({ key: 'a' })) })],
  'servicecidrs spec.cidrs': [
    1000,
    (n) => ({ metadata: { name: 'a' }, spec: { cidrs: many(n, block) } }),
  ],
};
const lists = Object.entries(mostAndObject).map(([place, [most, of]]) => {
  const [resource = '', field = ''] = place.split(' ');
  return [resource as Resource, field, most, of] as const;
});

it.each(lists)(
  'of %s, %s: the first %i are read in both encodings',
  (resource, field, most, of) => {
    const decoded = (object: object) => {
      const bytes = encodeObject(kindOf[resource], object as Readonly<Record<string, unknown>>);
      const inProtobuf = finish(protobuf(resource, context, new StringCache()).item(bytes));
      const inJSON = finish(json.item(Buffer.from(JSON.stringify(object))));
      const found = decodeChange(resource, inJSON, context);
      deepStrictEqual(decodeChange(resource, inProtobuf, context), found);
      const { change, problems } = found;
      return { change, reasons: problems.map((one) => `${one.field} ${one.reason}`) };
    };
    const [exact, more, far] = [most, most + 1, most + 500].map((count) => decoded(of(count)));
    const reason = `${field} has more than ${most} entries: only the first ${most} are read`;
    expect(exact!.reasons).not.toContain(reason);
    for (const cut of [more!, far!]) {
      expect(cut.reasons).toContain(reason);
      expect(cut.change).toBeDefined();
      deepStrictEqual(cut.change, exact!.change);
    }
  },
);

/** What the work yields in the end, and the number of pauses that it permits. */
function pauses<T>(work: Generator<undefined, T>): { readonly result: T; readonly count: number } {
  for (let count = 0; ; count += 1) {
    const { done, value } = work.next();
    if (done) return { result: value, count };
  }
}

it.each(lists.filter(([resource, , most]) => resource !== 'nodes' && most >= 10_000))(
  'of %s, %s: 256 of %i are read, and 256 decoded, in one step',
  (resource, field, most, of) => {
    const steps = Math.floor(most / 256);
    const object = of(most) as Readonly<Record<string, unknown>>;
    const bytes = encodeObject(kindOf[resource], object);
    const read = pauses(protobuf(resource, context, new StringCache()).item(bytes));
    const isText = /IPs|Ranges|ingress/.test(field);
    expect(read.count).toBeGreaterThanOrEqual(isText ? 0 : steps);
    const isRead = field === 'endpoints';
    const decoded = pauses(changeInSteps(resource, isRead ? object : read.result, context));
    expect(decoded.count).toBeGreaterThanOrEqual(steps);
    // What is kept of ports, and its addresses, take some more.
    expect(decoded.count).toBeLessThanOrEqual(2 * steps + 2);
  },
);
