import { describe, expect, it } from 'vitest';
import { ClusterState } from '../../../src/state/store.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import { address, node, ready, readyLocal, service, slice, takeChanged } from './build.ts';

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

describe('the dirty Services', () => {
  it('include the argument of touch, if it is known', () => {
    const state = settled(service());
    state.touch('ns/web');
    state.touch('ns/nobody');
    expect(takeChanged(state)).toEqual(['ns/web']);
    expect(state.machines.size).toBe(0);
  });

  it('include one that changes while it is resolved, once more when that is done', () => {
    const state = settled(service());
    for (const resource of ['services', 'endpointslices'] as const) state.markSynced(resource);
    state.touch('ns/web');
    const changed = state.changed.get('ns/web')!;
    state.changed.take()(1);
    changed.steps = (function* () {})();
    for (const uid of ['b', 'c']) state.apply({ kind: 'service', service: service({ uid }) });
    state.resolved(changed);
    expect([state.isDirty('ns/web'), state.waits(state.changes)]).toEqual([true, true]);
    expect(takeChanged(state)).toEqual(['ns/web']);
    expect(state.changed.next()).toBeUndefined();
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

it('the first event of a node that does not shut down concerns no endpoint on it', () => {
  const places = [{ node: 'node-a', zone: '' }];
  const state = settled(service(), slice({ '10.0.0.1': readyLocal }, { places }));
  state.apply({ kind: 'node', node: node() });
  expect(takeChanged(state)).toEqual([]);
  state.apply({ kind: 'node', node: node({ isShuttingDown: true }) });
  expect(takeChanged(state)).toEqual(['ns/web']);
});

it('trigger times are bounded for a Service that is never processed', () => {
  const state = new ClusterState();
  for (let triggerTimeMs = 1; triggerTimeMs <= 1000; triggerTimeMs += 1) {
    state.apply({ kind: 'slice', slice: slice({ '10.0.0.1': ready }, { triggerTimeMs }) });
  }
  expect(state.takeTriggerTimes('ns/web').length).toBe(100);
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
    ['random', { balancing: { balance: 'maglev' } }, 7, false],
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

  it('is what the last time cost', () => {
    const state = settled(has({}));
    state.touch('ns/web');
    state.resolved(state.changed.get('ns/web')!, 70);
    state.touch('ns/web');
    expect(state.changed.get('ns/web')!.cost).toBe(70);
  });
});
