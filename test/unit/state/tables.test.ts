/** Facts with few cases, each with all of them. */
import { describe, expect, it } from 'vitest';
import {
  allPaths,
  isByClient,
  isElsewhere,
  leadsTo,
  pathsOf,
  wayOf,
} from '../../../src/state/paths.ts';
import { bytesOfService, bytesOfSlice, bytesOfUnserved } from '../../../src/state/record-bytes.ts';
import { ips, portsOf, ready, service, slice } from './build.ts';

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
  ] as const)('of policies %s and %s', (internal, external, ...names) => {
    const found = [false, true].map((hasLocal) => pathsOf({ internal, external }, true, hasLocal));
    const expected = names.map((name) => allPaths[name]);
    expect(found.flatMap(({ inside, outside }) => [inside, outside])).toEqual(expected);
    expect(pathsOf({ internal, external }, false, true)).toEqual({
      inside: allPaths.reject,
      outside: allPaths.reject,
    });
  });
});

describe('the bytes of an object', () => {
  const type = 'LoadBalancer';
  const fields = { type, externalIPs: ips(2), loadBalancerIPs: ['198.51.100.1'] } as const;
  it.each([
    ['a Service', bytesOfService(service()), 1300 + 18 + 60],
    [
      'a Service with ten frontends and three other items',
      bytesOfService(service({ ...fields, ports: portsOf(2), loadBalancerSourceRanges: ['::/0'] })),
      1300 + 18 + 6 * 60 + 9 * 300,
    ],
    [
      'a Service with more frontends than are counted',
      bytesOfService(service({ externalIPs: ips(400) })),
      1300 + 18 + 401 * 60 + 311 * 300,
    ],
    ['a slice', bytesOfSlice(slice({ '10.0.0.1': ready })), 600 + 24 + 60 + 4 + 40],
    [
      'a slice with zones and places',
      bytesOfSlice(
        slice({ '10.0.0.1': { ...ready, zones: ['a'] } }, { places: [{ node: 'n', zone: 'a' }] }),
      ),
      600 + 24 + 60 + 4 + 40 + 60 + 80,
    ],
    ['another object', bytesOfUnserved({ key: 'a/b', because: '', addresses: [] }), 300 + 9],
    ['none', bytesOfService(undefined) + bytesOfSlice(undefined) + bytesOfUnserved(undefined), 0],
  ])('are those of its record and of what is made of it: %s', (_, bytes, expected) => {
    expect(bytes).toBe(expected);
  });
});
