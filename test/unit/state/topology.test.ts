import { describe, expect, it } from 'vitest';
import type { ResolveContext } from '../../../src/state/resolve.ts';
import {
  draining,
  type Endpoint,
  http,
  pools,
  ready,
  readyLocal,
  resolveOne,
  service,
  slice,
  unready,
} from './build.ts';

const nodePort = { ...http, nodePort: 30080 };
const [a, b, c] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];

describe('topology', () => {
  const zones = (...names: string[]): Endpoint => ({ ...ready, zones: names });
  const nodes = (...is: Endpoint['is']): Endpoint => ({ is: ['ready', 'serving', ...is] });
  const cluster = (endpoints: Endpoint[], fields: Partial<ResolveContext> = {}): string[] => {
    const named = Object.fromEntries(endpoints.map((endpoint, i) => [`10.0.0.${i + 1}`, endpoint]));
    const { cluster: pool } = resolveOne(service(), [slice(named)], fields);
    return pool.texts().map((text) => text.replace(/:.*/, ''));
  };

  it('selects the endpoints hinted for this zone if every ready one has a hint (T1)', () => {
    expect(cluster([zones('zone-a'), zones('zone-b'), zones('zone-a')])).toEqual([a, c]);
    expect(cluster([zones('zone-a'), zones('zone-b'), ready])).toEqual([a, b, c]);
  });

  it('does not require hints of unready endpoints (T2)', () => {
    expect(cluster([zones('zone-a'), zones('zone-b'), unready])).toEqual([a]);
  });

  it('does not filter if the zone has only unready endpoints (T3)', () => {
    expect(cluster([{ ...unready, zones: ['zone-a'] }, zones('zone-b'), zones('zone-b')])).toEqual([
      b,
      c,
    ]);
  });

  it.each(['', 'zone-x'])(
    'does not filter for zone %j, for which no endpoint is hinted (T4)',
    (zone) => {
      expect(cluster([zones('zone-a'), zones('zone-b')], { zone })).toEqual([a, b]);
    },
  );

  it('does not match a hint for the empty zone to a node without a zone', () => {
    expect(cluster([zones(''), zones('zone-b')], { zone: '' })).toEqual([a, b]);
  });

  it('lets an endpoint serve each zone that it is hinted for (T5)', () => {
    const endpoints = [zones('zone-a', 'zone-b'), zones('zone-b', 'zone-c'), zones('zone-c')];
    expect(cluster(endpoints, { zone: 'zone-a' })).toEqual([a]);
    expect(cluster(endpoints, { zone: 'zone-b' })).toEqual([a, b]);
    expect(cluster(endpoints, { zone: 'zone-c' })).toEqual([b, c]);
  });

  it('prefers endpoints hinted for this node to those hinted for its zone', () => {
    const here = { ...nodes('nodeHinted', 'nodeHintedHere'), zones: ['zone-b'] };
    const elsewhere = { ...nodes('nodeHinted'), zones: ['zone-a'] };
    expect(cluster([here, elsewhere])).toEqual([a]);
  });

  it('falls back to zones if node hints do not name this node (T6)', () => {
    const inZone = { ...nodes('nodeHinted'), zones: ['zone-a'] };
    const outside = { ...nodes('nodeHinted'), zones: ['zone-b'] };
    expect(cluster([inZone, outside])).toEqual([a]);
  });

  it('falls back to zones if an endpoint lacks a node hint', () => {
    const here = { ...nodes('nodeHinted', 'nodeHintedHere'), zones: ['zone-b'] };
    expect(cluster([here, zones('zone-a')])).toEqual([b]);
  });

  it('is off if one endpoint lacks both kinds of hint (T7)', () => {
    const here = { ...nodes('nodeHinted', 'nodeHintedHere'), zones: ['zone-a'] };
    expect(cluster([here, here, ready])).toEqual([a, b, c]);
  });

  it('is off if only terminating endpoints are left', () => {
    expect(
      cluster([
        { ...draining, zones: ['zone-a'] },
        { ...draining, zones: ['zone-b'] },
      ]),
    ).toEqual([a, b]);
  });

  it('never filters policy Local, whose endpoints still need hairpin handling (T8)', () => {
    const of = service({ externalTrafficPolicy: 'Local', type: 'NodePort', ports: [nodePort] });
    const forwarding = resolveOne(of, [
      slice({ [a]: zones('zone-a'), [b]: { ...readyLocal, zones: ['zone-b'] } }),
    ]);
    expect(pools(forwarding)).toEqual({
      cluster: ['10.0.0.1:8080'],
      local: ['10.0.0.2:8080'],
      hairpin: ['10.0.0.2:8080'],
      serving: ['10.0.0.1:8080', '10.0.0.2:8080'],
    });
  });
});
