import { describe, expect, it } from 'vitest';
import type { Route } from '../../../src/host/reach.ts';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { lookedAtMax, UnroutedEndpoints } from '../../../src/serve/ask/unrouted.ts';
import type { Change } from '../../../src/state/change.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address, ips, ready, service, slice } from '../state/build.ts';
import { routesText } from './broken-cluster-app.ts';

/**
 * A node whose routes may be replaced, and the endpoints whose routes were asked for. `others`: an
 * endpoint each of Services in other namespaces, which come later.
 */
function nodeWith(
  endpoints: readonly string[],
  routes: Record<string, Route>,
  others: Readonly<Record<string, string>> = {},
  dead: ReadonlySet<string> = new Set(),
  clusterIPs: string[] = [],
) {
  const state = new ClusterState();
  state.apply({ kind: 'service', service: service({ clusterIPs }) });
  const all = Object.fromEntries(endpoints.map((one) => [one, ready]));
  state.apply({ kind: 'slice', slice: slice(all) });
  for (const [namespace, address] of Object.entries(others)) {
    state.apply({ kind: 'service', service: service({ namespace }) });
    const of = { key: `${namespace}/web-1`, service: `${namespace}/web` };
    state.apply({ kind: 'slice', slice: slice({ [address]: ready }, of) });
  }
  let nowMs = 0;
  const asked: string[] = [];
  const unrouted = new UnroutedEndpoints({
    clock: { now: () => nowMs, turn: async () => {} },
    state,
    routing: {
      read: async (family) => (family === 'IPv4' ? routesText(routes) : undefined),
      deadHops: async () => new Set(dead),
      find: async (addresses) => {
        asked.push(...addresses);
        return addresses.map((address) => routes[address] ?? 'found');
      },
    },
  });
  const foundAfter = async (ms: number) => {
    nowMs += ms;
    await unrouted.refresh();
    return unrouted.found;
  };
  const applied = (change: Change): void => {
    state.apply(change);
    unrouted.resolved(service().key);
  };
  return { applied, foundAfter, asked, unrouted };
}

describe('endpoints without a route', () => {
  it('are looked for after a while, and are the same value until they change', async () => {
    const routes: Record<string, Route> = { '10.0.0.2': 'blackhole' };
    const { foundAfter, asked } = nodeWith(['10.0.0.1', '10.0.0.2'], routes);
    const first = await foundAfter(0);
    expect([...first.values()]).toEqual(['blackhole']);
    expect(asked).toEqual(['10.0.0.2']);
    await foundAfter(4999);
    expect(asked).toEqual(['10.0.0.2']);
    expect(await foundAfter(1)).toBe(first);
    delete routes['10.0.0.2'];
    expect((await foundAfter(5000)).size).toBe(0);
  });

  it('are looked for where Services or routes have changed', async () => {
    const routes: Record<string, Route> = { '10.0.0.2': 'blackhole', '10.0.0.3': 'prohibited' };
    const { applied, foundAfter } = nodeWith(['10.0.0.1'], routes);
    const found = async () => [...(await foundAfter(5000)).values()];
    expect(await found()).toEqual([]);
    applied({ kind: 'slice', slice: slice({ '10.0.0.1': ready, '10.0.0.2': ready }) });
    expect(await found()).toEqual(['blackhole']);
    applied({ kind: 'slice', slice: slice({ '10.0.0.1': ready, '10.0.0.3': ready }) });
    expect(await found()).toEqual(['prohibited']);
    routes['10.0.0.1'] = 'unreachable';
    expect(await found()).toEqual(['unreachable', 'prohibited']);
    applied({ kind: 'service-gone', key: service().key });
    expect(await found()).toEqual([]);
    applied({ kind: 'service', service: service() });
    expect(await found()).toEqual(['unreachable', 'prohibited']);
    for (const one of Object.keys(routes)) delete routes[one];
    expect(await found()).toEqual([]);
    routes['10.0.0.3'] = 'no_route';
    expect(await found()).toEqual(['no_route']);
  });

  it('are not asked for where every address has a route', async () => {
    const { foundAfter, asked } = nodeWith(['10.0.0.1'], {});
    expect((await foundAfter(0)).size).toBe(0);
    expect(asked).toEqual([]);
  });

  it('are those to which the kernel finds none: other tables may have one', async () => {
    const { foundAfter, asked } = nodeWith(['10.0.0.1', '10.0.0.2'], { '10.0.0.1': 'no_route' });
    expect((await foundAfter(0)).size).toBe(1);
    expect(asked).toEqual(['10.0.0.1', '10.0.0.2']);
  });

  it('may be ClusterIPs, which programs of the node need one to before they are translated', async () => {
    const routes: Record<string, Route> = { '10.96.0.1': 'no_route' };
    const clusterIPs = ['10.96.0.1', '10.96.0.2', 'fd00::1'];
    const { foundAfter, unrouted } = nodeWith(['10.0.0.1'], routes, {}, new Set(), clusterIPs);
    const texts = async () => {
      expect((await foundAfter(5000)).size).toBe(0);
      return unrouted.findings.map(({ text }) => text);
    };
    expect(await texts()).toEqual([
      'its programs do not reach Services, such as 10.96.0.1: this node has no route to it',
    ]);
    // Another table has it.
    routes['10.96.0.1'] = 'found';
    expect(await texts()).toEqual([]);
    delete routes['10.96.0.1'];
    expect(await texts()).toEqual([]);
  });

  it('have a next hop that the kernel asks for in vain, twice in a row', async () => {
    const [hop, pod] = [address('192.168.7.8').latin1, address('10.244.0.9').latin1];
    const dead = new Set([`${hop}eth0`, `${pod}cni0`, `${address('10.244.0.7').latin1}eth0`]);
    const all = ['10.244.1.6', '10.244.0.7', '10.244.0.9'];
    const { asked, foundAfter } = nodeWith(all, {}, {}, dead);
    const found = async () => [...(await foundAfter(5000)).values()];
    expect(await found()).toEqual([]);
    expect(await found()).toEqual([
      'its next hop 192.168.7.8 does not answer on eth0 (ip neigh show 192.168.7.8)',
      'no machine has its address on cni0 (ip neigh show 10.244.0.9)',
    ]);
    expect(asked).toEqual(['10.244.1.6', '10.244.0.9']);
    dead.clear();
    expect(await found()).toEqual([]);
    dead.add(`${hop}eth0`);
    expect(await found()).toEqual([]);
    expect(await found()).toHaveLength(1);
  });

  it('are 200 at most', async () => {
    const all = ips(500);
    const routes = Object.fromEntries(all.map((one) => [one, 'no_route'] as const));
    const { foundAfter, asked } = nodeWith(all, routes);
    expect((await foundAfter(0)).size).toBe(200);
    expect(asked).toHaveLength(200);
  });

  it('are asked for in each namespace, however many another one has', async () => {
    const [own = '', ...all] = ips(500);
    const routes = Object.fromEntries([own, ...all].map((one) => [one, 'no_route'] as const));
    const { foundAfter, asked } = nodeWith(all, routes, { victim: own });
    expect((await foundAfter(0)).size).toBe(200);
    expect(asked).toContain(own);
  });

  it('are looked for among the first endpoints of the ports of a Service', async () => {
    const { foundAfter, unrouted } = nodeWith(['10.0.0.2'], { '10.0.0.2': 'blackhole' });
    await foundAfter(0);
    const namedAfter = (count: number): number => {
      const others = EndpointList.of(
        'IPv4',
        Array.from({ length: count }, (_, i) => {
          return { address: Uint8Array.of(10, 1, i >> 8, i & 0xff), port: 8080 };
        }),
      );
      const ports = [others, pool(2)].map((list) => ({ forwarding: forwarding('web', list) }));
      return unrouted.problems(ports).length;
    };
    expect(namedAfter(lookedAtMax - 1)).toBe(1);
    expect(namedAfter(lookedAtMax)).toBe(0);
  });
});
