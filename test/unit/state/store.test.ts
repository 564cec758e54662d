import { describe, expect, it } from 'vitest';
import { formatCIDR } from '../../../src/net/address.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import {
  address,
  cidr,
  node,
  ready,
  readyLocal,
  service,
  slice,
  slicePort,
  takeChanged,
} from './build.ts';

/** A state that has taken these records in, and whose dirty Services have been worked off. */
function settled(...records: (Service | EndpointSlice)[]): ClusterState {
  const state = new ClusterState();
  for (const record of records) {
    if ('uid' in record) state.apply({ kind: 'service', service: record });
    else state.apply({ kind: 'slice', slice: record });
  }
  takeChanged(state);
  return state;
}

const one = slice({ '10.0.0.1': ready });

describe('the dirty Services', () => {
  it('include both Services of an unusable slice that is relabelled', () => {
    const state = settled(service(), service({ name: 'shop' }));
    const unused = { key: 'ns/fqdn', service: 'ns/web', because: 'its addressType is FQDN' };
    state.apply({ kind: 'slice-unused', unused });
    expect(takeChanged(state)).toEqual(['ns/web']);
    state.apply({ kind: 'slice-unused', unused: { ...unused, service: 'ns/shop' } });
    expect(takeChanged(state).sort()).toEqual(['ns/shop', 'ns/web']);
    expect(state.unusedSlices('ns/web')).toEqual([]);
  });

  it('include one that was added and deleted, which may have been processed in between', () => {
    const state = settled(service());
    state.apply({ kind: 'service-gone', key: 'ns/web' });
    expect(takeChanged(state)).toEqual(['ns/web']);
    state.apply({ kind: 'service', service: service() });
    // What is resolved now, for the sake of the deletion, is the new one.
    expect(state.service('ns/web')).toBeDefined();
    state.apply({ kind: 'service-gone', key: 'ns/web' });
    expect(takeChanged(state)).toEqual(['ns/web']);
  });

  it('do not include a repeated Service, or that of a repeated or unknown slice (E21, S36)', () => {
    const state = settled(service(), one);
    const { revision } = state;
    state.apply({ kind: 'service', service: service() });
    state.apply({ kind: 'slice', slice: slice({ '10.0.0.1': ready }) });
    state.apply({ kind: 'slice-gone', key: 'ns/other' });
    state.apply({ kind: 'service-gone', key: 'ns/other' });
    expect(takeChanged(state)).toEqual([]);
    expect(state.revision).toBe(revision);
  });

  it('do not include one that does not exist yet: its slices wait for it (E25)', () => {
    const state = settled();
    state.apply({ kind: 'slice', slice: one });
    expect(takeChanged(state)).toEqual([]);
    state.apply({ kind: 'service', service: service() });
    expect(takeChanged(state)).toEqual(['ns/web']);
    expect(state.slices('ns/web')).toEqual([one]);
  });

  it('include one with any change of a slice: order, port name, times (E20, E26)', () => {
    const pair = slice({ '10.0.0.1': ready, '10.0.0.2': ready });
    const state = settled(service(), pair);
    state.apply({ kind: 'slice', slice: slice({ '10.0.0.2': ready, '10.0.0.1': ready }) });
    expect(takeChanged(state)).toEqual(['ns/web']);
    state.apply({ kind: 'slice', slice: { ...pair, ports: [slicePort('https', 8080)] } });
    expect(takeChanged(state)).toEqual(['ns/web']);
  });

  it('include the argument of touch, if it is known', () => {
    const state = settled(service());
    state.touch('ns/web');
    state.touch('ns/nobody');
    expect(takeChanged(state)).toEqual(['ns/web']);
  });

  it('are returned in parts, the longest waiting first', () => {
    const state = settled();
    const names = ['e', 'd', 'c', 'b', 'a'];
    for (const name of names) state.apply({ kind: 'service', service: service({ name }) });
    state.apply({ kind: 'service', service: service({ name: 'e', uid: 'again' }) });
    expect(state.changed.size).toBe(5);
    expect(takeChanged(state, 2)).toEqual(['ns/e', 'ns/d']);
    state.apply({ kind: 'service', service: service({ name: 'e' }) });
    expect(takeChanged(state, 2)).toEqual(['ns/c', 'ns/b']);
    expect(takeChanged(state, 2)).toEqual(['ns/a', 'ns/e']);
    expect(takeChanged(state, 2)).toEqual([]);
  });
});

describe('the state of this node', () => {
  const hinted = service({ name: 'hinted' });
  const hintedSlice = slice(
    { '10.0.0.1': { ...ready, zones: ['zone-a'] } },
    { service: 'ns/hinted' },
  );
  const ranged = service({ name: 'ranged', loadBalancerSourceRanges: ['192.0.2.0/24'] });
  const withNode = (): ClusterState => {
    const state = settled(service(), one, hinted, { ...hintedSlice, key: 'ns/h' }, ranged);
    state.apply({ kind: 'node', node: node() });
    takeChanged(state);
    return state;
  };

  it('makes Services with zone hints dirty when its zone changes', () => {
    const state = withNode();
    state.apply({ kind: 'node', node: node({ zone: 'zone-b' }) });
    expect(takeChanged(state)).toEqual(['ns/hinted']);
    expect(state.node?.zone).toBe('zone-b');
  });

  it('makes Services dirty whose endpoints name no node when its pods get other addresses', () => {
    const state = withNode();
    const places = [{ node: 'node-b', zone: '' }];
    state.apply({ kind: 'slice', slice: { ...hintedSlice, key: 'ns/h', places } });
    takeChanged(state);
    state.apply({ kind: 'node', node: node({ podCIDRs: ['10.244.1.0/24'] }) });
    expect(takeChanged(state)).toEqual(['ns/web']);
  });

  it('makes Services with source ranges dirty when its addresses change', () => {
    const state = withNode();
    state.apply({ kind: 'node', node: node({ addresses: [address('192.0.2.1')] }) });
    expect(takeChanged(state)).toEqual(['ns/ranged']);
  });

  it('makes Services with endpoints on it dirty when it begins to shut down', () => {
    const state = withNode();
    const endpoints = { '10.0.0.1': ready, '10.0.0.2': readyLocal };
    state.apply({ kind: 'slice', slice: slice(endpoints, { service: 'ns/ranged', key: 'ns/r' }) });
    takeChanged(state);
    for (const isShuttingDown of [true, false]) {
      state.apply({ kind: 'node', node: node({ isShuttingDown }) });
      expect(takeChanged(state)).toEqual(['ns/ranged']);
    }
  });

  it('makes nothing dirty if other fields change, or none (W106)', () => {
    const state = withNode();
    const { revision } = state;
    state.apply({ kind: 'node', node: node() });
    expect(state.revision).toBe(revision);
    state.apply({ kind: 'node', node: node({ taintKeys: ['x'] }) });
    expect(takeChanged(state)).toEqual([]);
    expect(state.revision).toBe(revision + 1);
  });

  it('keeps its last value if it is deleted', () => {
    const state = withNode();
    state.apply({ kind: 'node-gone', name: 'node-b' });
    expect(state.node).toEqual(node());
    state.apply({ kind: 'node-gone', name: 'node-a' });
    expect(state.node).toEqual(node({ deleted: true }));
    expect(takeChanged(state)).toEqual([]);
  });
});

describe('ServiceCIDRs', () => {
  const apply = (state: ClusterState, name: string, ...cidrs: string[]): unknown =>
    state.apply({ kind: 'service-cidr', serviceCIDR: { name, cidrs: cidrs.map(cidr) } });
  const texts = (state: ClusterState): string[][] =>
    [state.serviceCIDRs('IPv4'), state.serviceCIDRs('IPv6')].map((all) => all.map(formatCIDR));

  it('are the union of all objects, by family', () => {
    const state = new ClusterState();
    apply(state, 'default', '10.96.0.0/12', 'fd00::/108');
    apply(state, 'more', '10.112.0.0/16', '10.96.0.0/12');
    expect(texts(state)).toEqual([['10.112.0.0/16', '10.96.0.0/12'], ['fd00::/108']]);
  });

  it('are the same array, with no new revision, if an object is repeated', () => {
    const state = new ClusterState();
    apply(state, 'default', '10.96.0.0/12');
    const { revision } = state;
    const before = state.serviceCIDRs('IPv4');
    apply(state, 'default', '10.96.0.0/12');
    state.apply({ kind: 'service-cidr-gone', name: 'other' });
    expect(state.serviceCIDRs('IPv4')).toBe(before);
    expect(state.revision).toBe(revision);
  });
});

describe('synced', () => {
  it('waits for Services and EndpointSlices only (4.4)', () => {
    const state = new ClusterState();
    state.markSynced('nodes');
    state.markSynced('servicecidrs');
    state.markSynced('services');
    expect(state.synced).toBe(false);
    state.markSynced('endpointslices');
    expect(state.synced).toBe(true);
  });
});

describe('trigger times', () => {
  const at = (triggerTimeMs: number | undefined, key = 'ns/web-1'): EndpointSlice =>
    slice({ '10.0.0.1': ready }, { triggerTimeMs, key });

  it('are returned once, each time of each change', () => {
    const state = new ClusterState(1000);
    state.apply({ kind: 'slice', slice: at(2000) });
    state.apply({ kind: 'slice', slice: at(3000) });
    state.apply({ kind: 'slice', slice: at(3000, 'ns/web-2') });
    expect(state.takeTriggerTimes('ns/web')).toEqual([
      { family: 'IPv4', timeMs: 2000 },
      { family: 'IPv4', timeMs: 3000 },
    ]);
    expect(state.takeTriggerTimes('ns/web')).toEqual([]);
  });

  it('are ignored if the change has left that of an earlier one, as other writers do', () => {
    const state = new ClusterState(1000);
    state.apply({ kind: 'slice', slice: at(2000) });
    state.takeTriggerTimes('ns/web');
    const changed = slice({ '10.0.0.2': ready }, { triggerTimeMs: 2000, key: 'ns/web-1' });
    state.apply({ kind: 'slice', slice: changed });
    expect(state.takeTriggerTimes('ns/web')).toEqual([]);
  });

  it('are ignored if absent or older than the process (E28)', () => {
    const state = new ClusterState(1000);
    state.apply({ kind: 'slice', slice: at(undefined) });
    state.apply({ kind: 'slice', slice: at(1000) });
    expect(state.takeTriggerTimes('ns/web')).toEqual([]);
  });

  it('are dropped if a slice is deleted: of add, delete, add only the last counts (E28)', () => {
    const state = new ClusterState(1000);
    const v6 = slice({ 'fd00::1': ready }, { triggerTimeMs: 1500, key: 'ns/web-6' });
    state.apply({ kind: 'slice', slice: v6 });
    state.apply({ kind: 'slice', slice: at(2000) });
    state.apply({ kind: 'slice-gone', key: 'ns/web-1' });
    state.apply({ kind: 'slice', slice: at(3000) });
    expect(state.takeTriggerTimes('ns/web')).toEqual([
      { family: 'IPv6', timeMs: 1500 },
      { family: 'IPv4', timeMs: 3000 },
    ]);
  });

  it('are bounded for a Service that is never processed', () => {
    const state = new ClusterState();
    for (let time = 1; time <= 1000; time += 1) state.apply({ kind: 'slice', slice: at(time) });
    expect(state.takeTriggerTimes('ns/web').length).toBe(100);
  });
});

describe('while the first lists are read', () => {
  it('Services are released whose slices have arrived, but for the last ones', () => {
    const state = new ClusterState();
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) state.apply({ kind: 'service', service: service({ name }) });
    const next = (): string[] => {
      const found: string[] = [];
      for (let one = state.changed.next(); one !== undefined; one = state.changed.next()) {
        state.changed.take(1);
        found.push(one.key);
      }
      return found;
    };
    const arrive = (name: string): void => {
      const of = { key: `ns/${name}-1`, service: `ns/${name}` };
      state.apply({ kind: 'slice', slice: slice({ '10.0.0.1': ready }, of) });
    };
    for (const name of ['a', 'b', 'c', 'd']) arrive(name);
    expect(next()).toEqual([]);
    state.release(2, 1);
    expect(next()).toEqual(['ns/a', 'ns/b']);
    state.release(5, 1);
    expect(next()).toEqual(['ns/c']);
    state.markSynced('services');
    expect(next()).toEqual([]);
    state.markSynced('endpointslices');
    expect(next()).toEqual(['ns/a', 'ns/b', 'ns/c', 'ns/d', 'ns/e']);
  });
});

describe('a question about Services', () => {
  const has = (fields: Parameters<typeof service>[0]) => service({ name: 'web', ...fields });
  it.each([
    ['maglev', { balancing: { balance: 'maglev' } }, undefined, true],
    ['maglev', { balancing: { balance: 'round-robin' } }, undefined, false],
    ['random', { balancing: { balance: 'random' } }, undefined, true],
    ['random', {}, 7, true],
    ['random', { balancing: { balance: undefined, slowStartMs: 1 } }, undefined, true],
    ['random', {}, undefined, false],
    ['maglev', {}, 7, false],
  ] as const)('is whether they ask for %s: %j, weight %s: %s', (balance, fields, weight, is) => {
    const state = settled(has(fields), slice({ '10.0.0.1': ready }, { weight }));
    state.touchBalanced(balance);
    expect(state.isDirty('ns/web')).toBe(is);
  });

  it.each([
    ['clusterIPs', ['192.0.2.1'], true],
    ['externalIPs', ['198.51.100.1', '192.0.2.1'], true],
    ['loadBalancerIPs', ['192.0.2.1'], true],
    ['externalIPs', ['198.51.100.1'], false],
  ])('is whether they have an address: %s %j: %s', (field, addresses, is) => {
    const state = settled(has({ [field]: addresses }));
    state.touchAt(new Set([address('192.0.2.1').key]));
    expect(state.isDirty('ns/web')).toBe(is);
  });

  it('is whether they have slices that nothing uses, which may have gone', () => {
    const state = settled(has({}));
    const unused = { key: 'ns/x', service: 'ns/web', because: 'its addressType is FQDN' };
    for (const change of [
      { kind: 'slice-unused', unused },
      { kind: 'slice-gone', key: 'ns/x' },
    ] as const) {
      expect(state.apply(change)).toBe('changed');
      expect(takeChanged(state)).toEqual(['ns/web']);
    }
  });

  it('is how many there are, which only slices name, and what the last time cost', () => {
    const state = settled(
      has({}),
      slice({ '10.0.0.1': ready }, { key: 'ns/x-1', service: 'ns/x' }),
    );
    expect([state.serviceCount, ...state.keysWithSlicesAlone()]).toEqual([1, 'ns/x']);
    expect(state.machines.size).toBe(0);
    state.touch('ns/web');
    state.resolved(state.changed.get('ns/web')!, 70);
    state.touch('ns/web');
    expect(state.changed.get('ns/web')!.cost).toBe(70);
    state.apply({ kind: 'service-gone', key: 'ns/web' });
    expect(state.serviceCount).toBe(0);
  });
});
