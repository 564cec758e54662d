import { describe, expect, it } from 'vitest';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { sameForwarding } from '../../../src/state/equal.ts';
import { isSame, keepOrder, withOrderOf } from '../../../src/state/pool.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { EndpointSlice, Forwarding } from '../../../src/state/types.ts';
import {
  drainingLocal,
  http,
  pools,
  ready,
  readyLocal,
  service,
  slice,
  slicePort,
} from './build.ts';

/** A list with one endpoint for each letter. */
function list(letters: string): EndpointList {
  return EndpointList.of(
    'IPv4',
    [...letters].map((letter) => ({
      address: Uint8Array.of(10, 0, 0, letter.charCodeAt(0)),
      port: 80,
    })),
  );
}

describe('keepOrder', () => {
  it.each([
    ['lets the first of two equal ones stay', 'aab', 'ab', 'ab'],
    ['moves one of two equal ones only once', 'xaya', 'ab', 'ba'],
  ])('%s', (_, previous, next, expected) => {
    expect(keepOrder(list(previous), list(next)).texts()).toEqual(list(expected).texts());
  });
});

const context = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
const local = service({
  type: 'NodePort',
  externalTrafficPolicy: 'Local',
  ports: [{ ...http, nodePort: 30080 }],
});

function resolved(...slices: EndpointSlice[]): Forwarding {
  return resolve(local, slices, context)[0]!;
}

describe('isSame', () => {
  const [of] = resolve(service(), [slice({ '10.0.0.1': ready, '10.0.0.2': ready })], context);
  const forwarding = of!;
  const texts = forwarding.cluster.texts();

  it('reports whether two Forwardings differ in more than the order of their pools', () => {
    const cluster = EndpointList.of('IPv4', [
      { address: forwarding.cluster.address(1), port: forwarding.cluster.port(1) },
      { address: forwarding.cluster.address(0), port: forwarding.cluster.port(0) },
    ]);
    expect(cluster.texts()).toEqual(texts.toReversed());
    expect(isSame(forwarding, { ...forwarding, cluster })).toBe(true);
    expect(isSame({ ...forwarding, cluster }, forwarding)).toBe(true);
    expect(isSame(forwarding, { ...forwarding, frontends: [] })).toBe(false);
    const fewer = EndpointList.of('IPv4', []);
    expect(isSame(forwarding, { ...forwarding, cluster: fewer })).toBe(false);
    expect(isSame({ ...forwarding, cluster: fewer }, forwarding)).toBe(false);
  });

  it('reports that a Forwarding differs from none', () => {
    expect(isSame(undefined, undefined)).toBe(true);
    expect(isSame(forwarding, undefined)).toBe(false);
    expect(isSame(undefined, forwarding)).toBe(false);
  });
});

describe('withOrderOf', () => {
  const [a, b, c, d] = ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.4'];
  const before = resolved(slice({ [a]: readyLocal, [b]: readyLocal, [c]: ready }));
  const after = withOrderOf(
    before,
    resolved(slice({ [b]: readyLocal, [c]: ready, [d]: readyLocal })),
  );

  it('orders every list after the previous one', () => {
    expect(pools(after)).toEqual({
      cluster: ['10.0.0.4:8080', '10.0.0.2:8080', '10.0.0.3:8080'],
      local: ['10.0.0.4:8080', '10.0.0.2:8080'],
      hairpin: ['10.0.0.4:8080', '10.0.0.2:8080'],
      serving: ['10.0.0.4:8080', '10.0.0.2:8080', '10.0.0.3:8080'],
    });
  });

  it('returns the previous one if resolving again changes nothing', () => {
    const again = resolved(slice({ [d]: readyLocal, [c]: ready, [b]: readyLocal }));
    expect(sameForwarding(again, after)).toBe(false);
    expect(sameForwarding(withOrderOf(after, again), after)).toBe(true);
  });

  it('keeps one list for two equal pools', () => {
    expect(after.serving).toBe(after.cluster);
    expect(after.hairpin).toBe(after.local);
    const apart = withOrderOf(after, resolved(slice({ [b]: drainingLocal, [c]: ready })));
    expect(pools(apart)).toEqual({
      cluster: ['10.0.0.3:8080'],
      local: ['10.0.0.2:8080'],
      hairpin: ['10.0.0.2:8080'],
      serving: ['10.0.0.3:8080', '10.0.0.2:8080'],
    });
  });

  it('makes lists and a deal once for ports that share them', () => {
    const ports = ['a', 'b', 'c'].map((name, i) => ({ ...http, name, port: 80 + i }));
    const web = service({ ports, clusterIPs: ['10.96.0.1', 'fd00::1'] });
    const resolvedOf = (...hosts: string[]) => {
      const numbers = [slicePort('a', 8080), slicePort('b', 8080), slicePort('c', 9090)];
      const slices = hosts.map((host, i) => {
        return slice({ [host]: ready }, { key: `ns/${host}`, ports: numbers, weight: i + 1 });
      });
      return resolve(web, slices, context);
    };
    const first = resolvedOf(a, b);
    const next = resolvedOf(c, b);
    const held = next.map((one, i) => withOrderOf(first[i], one));
    for (const [one, two, other, ofIPv6] of [first, next, held]) {
      expect(one!.cluster.length).toBe(2);
      expect(two!.cluster).toBe(one!.cluster);
      expect(two!.deal).toBe(one!.deal);
      expect(other!.cluster).not.toEqual(one!.cluster);
      expect(other!.deal!.cluster.length).toBe(one!.deal!.cluster.length);
      // So do both families and what came before.
      expect(ofIPv6!.servicePort).toBe(first[0]!.servicePort);
      expect(one!.servicePort).toBe(first[0]!.servicePort);
      expect(two!.frontends).toBe(first[1]!.frontends);
      expect(two!.frontends).not.toEqual(one!.frontends);
    }
    expect(held[0]!.cluster.texts()).not.toEqual(next[0]!.cluster.texts());
  });
});
