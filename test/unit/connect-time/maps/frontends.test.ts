/** What is taken and what is left to the rules, row by row. */
import { describe, expect, it } from 'vitest';
import { objectsOf, poolOf, sizeOf } from '../../../../src/connect-time/maps/frontends.ts';
import type { Reach } from '../../../../src/connect-time/maps/placement.ts';
import type { LocalDetector } from '../../../../src/modes/mode.ts';
import { noSockets } from '../../../../src/state/node-sockets.ts';
import type { Frontend } from '../../../../src/state/types.ts';
import { hex } from '../../../fake/bpf.ts';
import {
  address,
  cidr,
  context,
  draining,
  http,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
  slicePort,
} from '../../state/build.ts';

type Fields = NonNullable<Parameters<typeof service>[0]>;
type Endpoints = Parameters<typeof slice>[0];

const pods: LocalDetector = { kind: 'cidr', cidr: cidr('10.244.0.0/16') };
const elsewhere: Endpoints = { '10.244.1.1': ready };
const here: Endpoints = { '10.244.0.1': readyLocal };

interface Row {
  readonly fields?: Fields;
  readonly endpoints?: Endpoints;
  readonly protocol?: 'TCP' | 'UDP' | 'SCTP';
  readonly masqueradeAll?: boolean;
  readonly localDetector?: LocalDetector;
  readonly reach?: Reach;
  readonly nodeAddresses?: readonly string[];
}

function outcome(kind: Frontend['kind'], row: Row): string {
  const { fields = {}, endpoints = elsewhere, protocol = 'TCP' } = row;
  const port = { ...http, protocol, nodePort: 30080 };
  const of = service({
    type: 'LoadBalancer',
    ports: [port],
    externalIPs: ['198.51.100.1'],
    loadBalancerIPs: ['198.51.100.2'],
    ...fields,
  });
  const slices = [slice(endpoints, { ports: [slicePort('http', 8080, protocol)] })];
  const at = row.nodeAddresses?.map((text) => address(text).key) ?? [];
  const nodeSockets = { ...noSockets, addresses: new Set(at) };
  const forwarding = resolveOne(of, slices, { ...context, nodeSockets });
  const frontend = forwarding.frontends.find((one) => one.kind === kind)!;
  const { localDetector = pods, masqueradeAll = false, reach = 'all' } = row;
  return poolOf(forwarding, frontend, { config: { localDetector, masqueradeAll }, reach });
}

const every = ['clusterIP', 'externalIP', 'loadBalancerIP', 'nodePort'] as const;
const external = ['externalIP', 'loadBalancerIP', 'nodePort'] as const;

describe('connect-time translation includes', () => {
  it.each(every)('%s', (kind) => {
    expect(outcome(kind, {})).toBe('cluster');
  });

  it('ClusterIPs of policy Local, from endpoints of this node', () => {
    const fields = { internalTrafficPolicy: 'Local' } as const;
    expect(outcome('clusterIP', { fields, endpoints: { ...elsewhere, ...here } })).toBe('local');
  });

  it.each(external)('%s of policy Local, from all endpoints, as from inside', (kind) => {
    const fields = { externalTrafficPolicy: 'Local' } as const;
    expect(outcome(kind, { fields })).toBe('cluster');
    expect(outcome(kind, { fields, endpoints: here })).toBe('cluster');
  });

  it('endpoints that end, where there are no others', () => {
    expect(outcome('clusterIP', { endpoints: { '10.244.1.1': draining } })).toBe('cluster');
  });

  it.each(['clusterIP', 'externalIP', 'nodePort'] as const)(
    '%s of a Service whose load balancer has source ranges',
    (kind) => {
      const fields = { loadBalancerSourceRanges: ['203.0.113.0/24'] };
      expect(outcome(kind, { fields })).toBe('cluster');
    },
  );

  it('all clients without a local detector, if only the node’s own connections are translated', () => {
    const fields = { externalTrafficPolicy: 'Local' } as const;
    const row: Row = { fields, localDetector: { kind: 'none' }, reach: 'host' };
    expect(outcome('nodePort', row)).toBe('cluster');
  });
});

const setting = {
  ...{ config: { localDetector: pods, masqueradeAll: false }, reach: 'all' as const },
  poolId: () => new Uint8Array(16).fill(7),
};

it('a range of ports is taken at ClusterIPs, where Services share no address', () => {
  const fields = { ports: [{ ...http, port: 8080 }], portRange: { first: 8080, last: 8090 } };
  const of = service({ ...fields, externalIPs: ['198.51.100.1'] });
  const forwarding = resolveOne(of, [slice(elsewhere)]);
  const elements = objectsOf(forwarding, setting).map((one) =>
    one.kind === 'frontend' ? `${hex(one.key.subarray(12))} ${hex(one.value)}` : one.kind,
  );
  expect(elements).toEqual([
    'pool',
    `0a6000011f900600 ${'07'.repeat(16)}0100000000000000`,
    `c63364011f900600 ${'07'.repeat(16)}0100000000000000`,
    `0a60000100000002 ${'07'.repeat(16)}01000000901f9a1f`,
  ]);
  expect(sizeOf(forwarding, setting)).toEqual({ frontends: 3, endpoints: 4 });
});

it('a range gets no connection to a port that a Service lists, without endpoints either', () => {
  const listed = resolveOne(service(), []);
  const frontend = { ...listed.frontends[0]!, isInRange: true as const };
  const within = { ...listed, frontends: [frontend] };
  expect(objectsOf(within, setting)).toMatchObject([{ value: new Uint8Array(24) }]);
  expect(sizeOf(within, setting)).toEqual({ frontends: 1, endpoints: 0 });
  expect(objectsOf(listed, setting)).toEqual([]);
});

describe('connect-time translation excludes', () => {
  it.each(every)('%s of a Service that asks for it', (kind) => {
    expect(outcome(kind, { fields: { rulesOnly: true } })).toBe('annotation');
    expect(outcome(kind, { fields: { endings: { endAfterMs: 1000 } } })).toBe('annotation');
  });

  it('a ClusterIP that this node has, where its cache may listen, and no other address', () => {
    const nodeAddresses = ['10.96.0.1', '198.51.100.1', '198.51.100.2'];
    expect(every.map((kind) => outcome(kind, { nodeAddresses }))).toEqual([
      'address of the node',
      ...external.map(() => 'cluster'),
    ]);
    const fields = { rulesOnly: true };
    expect(outcome('clusterIP', { nodeAddresses, fields })).toBe('annotation');
    expect(outcome('clusterIP', { nodeAddresses: ['10.96.0.2'] })).toBe('cluster');
  });

  it.each(every)('%s of other protocols', (kind) => {
    expect(outcome(kind, { protocol: 'UDP' })).toBe('protocol');
    expect(outcome(kind, { protocol: 'SCTP' })).toBe('protocol');
  });

  it.each(every)('%s with session affinity', (kind) => {
    expect(outcome(kind, { fields: { affinityTimeoutSeconds: 10 } })).toBe('session affinity');
  });

  it.each(every)('%s where everything is masqueraded', (kind) => {
    expect(outcome(kind, { masqueradeAll: true })).toBe('masquerade all');
  });

  it.each(every)('%s without endpoints', (kind) => {
    expect(outcome(kind, { endpoints: {} })).toBe('no endpoint');
  });

  it('ClusterIPs of policy Local without an endpoint on this node', () => {
    const fields = { internalTrafficPolicy: 'Local' } as const;
    expect(outcome('clusterIP', { fields })).toBe('no endpoint');
  });

  it('load-balancer addresses with source ranges', () => {
    const fields = { loadBalancerSourceRanges: ['203.0.113.0/24'] };
    expect(outcome('loadBalancerIP', { fields })).toBe('source ranges');
  });

  it.each(external)('%s of a Service whose source ranges count for all', (kind) => {
    const fields: Fields = { loadBalancerSourceRanges: ['203.0.113.0/24'], guardsAll: true };
    expect(outcome(kind, { fields })).toBe('source ranges');
    expect(outcome('clusterIP', { fields })).toBe('cluster');
  });

  it.each(external)(
    '%s of policy Local, where the rules cannot distinguish pods from others',
    (kind) => {
      const fields = { externalTrafficPolicy: 'Local' } as const;
      const row: Row = { fields, localDetector: { kind: 'none' }, endpoints: here };
      expect(outcome(kind, row)).toBe('unknown pods');
    },
  );
});
