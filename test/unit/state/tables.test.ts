/** Facts with few cases, each with all of them. */
import { describe, expect, it } from 'vitest';
import { EndpointFlag } from '../../../src/state/candidates.ts';
import { choose, whyNot } from '../../../src/state/categorise.ts';
import { ageLimitMs } from '../../../src/state/endings.ts';
import { nodePortsOf } from '../../../src/state/frontend-key.ts';
import { servedPortKey } from '../../../src/state/frontends-in-force.ts';
import { bytesOfService, bytesOfSlice, bytesOfUnserved } from '../../../src/state/heap-guard.ts';
import {
  allPaths,
  isByClient,
  isElsewhere,
  leadsTo,
  pathsOf,
  wayOf,
} from '../../../src/state/paths.ts';
import { packedPorts } from '../../../src/state/port-list.ts';
import { alternating, finish } from '../../../src/state/steps.ts';
import { topologyMode, whyIgnored } from '../../../src/state/topology.ts';
import { forwardingKeys } from '../../../src/state/types.ts';
import {
  http,
  ips,
  pools,
  portsOf,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
} from './build.ts';

describe('the paths of a frontend', () => {
  it.each([
    ['inside', 'internal', 'cluster'],
    ['insideLocal', 'internal', 'local'],
    ['outside', 'external', 'cluster'],
    ['outsideLocal', 'external-local by client', 'cluster local'],
    ['outsideElsewhere', 'external-local by client elsewhere', 'cluster'],
    ['reject', 'internal', ''],
    ['drop', 'internal', ''],
  ] as const)('%s lead the way %s, to pools: %s', (name, way, pools) => {
    const paths = allPaths[name];
    const words = [
      wayOf(paths),
      isByClient(paths) && 'by client',
      isElsewhere(paths) && 'elsewhere',
    ];
    expect(words.filter(Boolean).join(' ')).toBe(way);
    const found = (['cluster', 'local'] as const).filter((pool) => leadsTo(paths, pool));
    expect(found.join(' ')).toBe(pools);
  });

  it.each([
    ['Cluster', undefined, 'inside', 'outside', 'inside', 'outside'],
    ['Local', 'Cluster', 'drop', 'outside', 'insideLocal', 'outside'],
    ['Cluster', 'Local', 'inside', 'outsideElsewhere', 'inside', 'outsideLocal'],
  ] as const)('of policies %s and %s', (internal, external, a, b, c, d) => {
    const found = [false, true].map((hasLocal) => pathsOf({ internal, external }, true, hasLocal));
    const expected = [a, b, c, d].map((name) => allPaths[name]);
    expect(found.flatMap(({ inside, outside }) => [inside, outside])).toEqual(expected);
    expect(pathsOf({ internal, external }, false, true)).toEqual({
      inside: allPaths.reject,
      outside: allPaths.reject,
    });
  });
});

it('queues that alternate each give one, until all are empty', () => {
  const queues = [[1, 2, 3], [4], [], [5, 6]].map((numbers) => numbers.values());
  expect([...alternating(queues)]).toEqual([1, 4, 5, 2, 6, 3]);
});

it('the key of a served port has all that distinguishes it', () => {
  const of = {
    family: 'IPv4',
    namespace: 'ns',
    service: 'web',
    port: 'http',
    protocol: 'TCP',
  } as const;
  expect(servedPortKey(of)).toBe('IPv4/ns/web/http/TCP');
});

describe('the bytes of an object', () => {
  const type = 'LoadBalancer' as const;
  const fields = { type, externalIPs: ips(2), loadBalancerIPs: ['198.51.100.1'] };
  it.each([
    ['a Service', () => bytesOfService(service()), 1300 + 18 + 60],
    [
      'a Service with ten frontends and three other items',
      () =>
        bytesOfService(
          service({ ...fields, ports: portsOf(2), loadBalancerSourceRanges: ['::/0'] }),
        ),
      1300 + 18 + 6 * 60 + 9 * 300,
    ],
    [
      'a Service with more frontends than are counted',
      () => bytesOfService(service({ externalIPs: ips(400) })),
      1300 + 18 + 401 * 60 + 311 * 300,
    ],
    ['a slice', () => bytesOfSlice(slice({ '10.0.0.1': ready })), 600 + 24 + 60 + 4 + 40],
    [
      'a slice with zones and places',
      () =>
        bytesOfSlice(
          slice({ '10.0.0.1': { ...ready, zones: ['a'] } }, { places: [{ node: 'n', zone: 'a' }] }),
        ),
      600 + 24 + 60 + 4 + 40 + 60 + 80,
    ],
    [
      'a slice with ports in columns',
      () => bytesOfSlice(slice({}, { ports: finish(packedPorts(portsOf(9))) })),
      600 + 24 + 9 * (8 + 2),
    ],
    ['another object', () => bytesOfUnserved({ key: 'a/b', because: '', addresses: [] }), 300 + 9],
    [
      'none',
      () => bytesOfService(undefined) + bytesOfSlice(undefined) + bytesOfUnserved(undefined),
      0,
    ],
  ])('are those of its record and of what is made of it: %s', (_, bytes, expected) => {
    expect(bytes()).toBe(expected);
  });
});

describe('the topology of endpoints', () => {
  const ready = EndpointFlag.ready;
  const { nodeHinted, nodeHintedHere, zoneHinted, zoneHintedHere } = EndpointFlag;
  const [ofNode, ofZone] = [ready | nodeHinted, ready | zoneHinted];
  it.each([
    [[ready], 'none', undefined],
    [[ofNode, ofNode | nodeHintedHere, nodeHinted, 0], 'SameNode', undefined],
    [[ofNode, ready | nodeHintedHere], 'none', 'a ready endpoint has no hint for a node'],
    [[ofNode], 'none', 'no ready endpoint is hinted for this node'],
    [[ofZone, ofZone | zoneHintedHere, 0], 'SameZone', undefined],
    [[ofZone | zoneHintedHere, ready], 'none', 'a ready endpoint has no hint for a zone'],
    [[ofZone], 'none', 'no ready endpoint is hinted for zone a'],
    [[ofZone | nodeHinted | zoneHintedHere], 'SameZone', undefined],
  ])('with flags %j is %s: %s', (flags, mode, why) => {
    expect(topologyMode(flags)).toBe(mode);
    expect(whyIgnored(Uint16Array.from(flags), 'a')).toBe(why);
  });
});

describe('an endpoint that a pool does not use', () => {
  const { local, nodeHinted, serving, terminating } = EndpointFlag;
  const [there, drains] = [EndpointFlag.ready, serving | terminating];
  const policy = { internal: 'Cluster', external: 'Local' } as const;
  it.each([
    [[there, 0], 'is not ready'],
    [[there, drains], 'terminates'],
    [[drains, terminating], 'terminates and serves no more'],
    [
      [there | nodeHinted | EndpointFlag.nodeHintedHere, there | nodeHinted],
      'is hinted for other nodes',
    ],
  ])('of %j: the last one %s', (flags, why) => {
    expect(whyNot(flags.at(-1)!, choose(flags, policy).cluster!, 'cluster', false)).toBe(why);
  });

  it.each([true, false])('may be on another node, or an unknown one: %s', (isNodeless) => {
    const { cluster, local: own } = choose([there, there | local], policy);
    expect(whyNot(there, cluster!, 'cluster', isNodeless)).toBeUndefined();
    const where = isNodeless ? 'is on an unknown node: it has no nodeName' : 'is on another node';
    expect(whyNot(there, own!, 'local', isNodeless)).toBe(where);
  });
});

describe('the endpoints of a node that shuts down', () => {
  const { leaving, local, serving, terminating, zoneHinted, zoneHintedHere } = EndpointFlag;
  const there = EndpointFlag.ready;
  const here = there | local | leaving;
  const [inZone, elsewhere] = [there | zoneHinted | zoneHintedHere, there | zoneHinted];
  const drains = serving | terminating;
  const policy = { internal: 'Cluster', external: 'Local' } as const;
  it.each([
    ['are left out while another is ready', [here, there], [there]],
    ['are left out with those of other zones', [here, inZone, elsewhere], [inZone]],
    ['leave hints for this zone without effect', [here | zoneHintedHere, elsewhere], [elsewhere]],
    ['are used before others that end', [here, drains], [here]],
    ['are used if there are no others', [here], [here]],
  ])('%s', (_, flags, used) => {
    const { cluster, local: own } = choose(flags, policy);
    expect(flags.filter((flag) => cluster?.takes(flag))).toEqual(used);
    const left = flags.filter((flag) => !cluster?.takes(flag) && (flag & leaving) !== 0);
    const reasons = left.map((flag) => whyNot(flag, cluster!, 'cluster', false));
    expect(reasons).toEqual(left.map(() => 'is on this node, which shuts down'));
    expect(own?.takes(here)).toBe(true);
  });

  it('are known by their node', () => {
    const two = slice({ '10.0.0.1': readyLocal, '10.0.0.2': ready });
    const [stays, goes] = [false, true].map((isLeaving) => {
      return pools(resolveOne(service(), [two], { isLeaving }));
    });
    expect(stays!.cluster).toEqual(['10.0.0.1:8080', '10.0.0.2:8080']);
    expect(goes!.cluster).toEqual(['10.0.0.2:8080']);
    expect(goes!.serving).toEqual(stays!.serving);
  });
});

it.each([
  ['TCP', { endAfterMs: 5, keepsFlows: true }, { endAfterMs: 5, kept: expect.anything() }],
  ['TCP', { endAfterMs: 5, maxAgeMs: 9 }, { endAfterMs: 5, maxAgeMs: 9, kept: expect.anything() }],
  ['TCP', { maxAgeMs: 9 }, { maxAgeMs: 9 }],
  ['TCP', { keepsFlows: true }, undefined],
  ['UDP', { endAfterMs: 5, keepsFlows: true }, { keepsFlows: true }],
  ['UDP', { endAfterMs: 5 }, undefined],
  ['SCTP', { endAfterMs: 5, keepsFlows: true }, undefined],
] as const)('connections of a %s port with endings %j end as %j', (protocol, endings, expected) => {
  const ports = [{ ...http, protocol }];
  expect(resolveOne(service({ endings, ports }), []).endings).toEqual(expected);
});

it('a connection gets as old as its Service says, a tenth more or less', () => {
  expect([0, 0.5, 1].map((random) => ageLimitMs(1000, random))).toEqual([900, 1000, 1100]);
});

it('keys name ports of a Service, and node ports of both families', () => {
  const keys = forwardingKeys(service({ ports: portsOf(2) }));
  expect(keys).toEqual(['ns/web:p0/TCP', 'ns/web:p1/TCP']);
  expect(nodePortsOf(0)).toEqual([]);
  expect(nodePortsOf(5)).toEqual(['IPv4 TCP -5', 'IPv6 TCP -5']);
});
