import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Change } from '../../../src/state/change.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { cidr, node, ready, readyLocal, service, slice, takeChanged, unready } from './build.ts';

const names = fc.constantFrom('a', 'b', 'c');
const keyNames = names.map((name) => `ns/${name}`);
const endpoint = fc.constantFrom(ready, readyLocal, unready, { ...ready, zones: ['zone-b'] });
const endpoints = fc.dictionary(fc.constantFrom('10.0.0.1', '10.0.0.2', 'fd00::1'), endpoint, {
  maxKeys: 1,
});

const change: fc.Arbitrary<Change> = fc.oneof(
  fc
    .record({ name: names, affinityTimeoutSeconds: fc.nat(2) })
    .map((fields): Change => ({ kind: 'service', service: service(fields) })),
  names.map((name): Change => ({ kind: 'service-gone', key: `ns/${name}` })),
  keyNames.map((key): Change => {
    const unserved = { key, because: 'it is headless', addresses: [] };
    return { kind: 'service-unserved', unserved };
  }),
  fc
    .record({ key: keyNames, service: keyNames, endpoints })
    .map(({ endpoints: all, ...fields }): Change => ({ kind: 'slice', slice: slice(all, fields) })),
  fc
    .record({ key: keyNames, service: keyNames, because: fc.constantFrom('FQDN', 'label') })
    .map((unused): Change => ({ kind: 'slice-unused', unused })),
  names.map((name): Change => ({ kind: 'slice-gone', key: `ns/${name}` })),
  fc
    .record({ zone: fc.constantFrom('', 'zone-a', 'zone-b') })
    .map((fields): Change => ({ kind: 'node', node: node(fields) })),
  fc.constant<Change>({ kind: 'node-gone', name: 'node-a' }),
  fc.record({ name: names, cidrs: fc.subarray(['10.0.0.0/16', '10.1.0.0/16', 'fd00::/108']) }).map(
    ({ name, cidrs }): Change => ({
      kind: 'service-cidr',
      serviceCIDR: { name, cidrs: cidrs.map(cidr) },
    }),
  ),
  names.map((name): Change => ({ kind: 'service-cidr-gone', name })),
);

/** What a change is about; a later change of the same subject makes an earlier one void. */
function subject(of: Change): string {
  switch (of.kind) {
    case 'service':
      return `service ${of.service.key}`;
    case 'service-gone':
      return `service ${of.key}`;
    case 'service-unserved':
      return `service ${of.unserved.key}`;
    case 'slice':
      return `slice ${of.slice.key}`;
    case 'slice-unused':
      return `slice ${of.unused.key}`;
    case 'slice-gone':
      return `slice ${of.key}`;
    case 'node':
    case 'node-gone':
      return 'node';
    case 'service-cidr':
      return `service-cidr ${of.serviceCIDR.name}`;
    case 'service-cidr-gone':
      return `service-cidr ${of.name}`;
  }
}

const keys = ['ns/a', 'ns/b', 'ns/c'];

/** All that the state contains, except what is dirty, in no particular order. */
function contents(state: ClusterState): unknown {
  return {
    services: [...state.serviceKeys()].sort().map((key) => state.service(key)),
    slices: keys.map((key) => state.slices(key).toSorted((x, y) => (x.key < y.key ? -1 : 1))),
    unused: keys.map((key) => state.unusedSlices(key).toSorted((x, y) => (x.key < y.key ? -1 : 1))),
    zone: state.node?.zone,
    v4: state.serviceCIDRs('IPv4'),
    v6: state.serviceCIDRs('IPv6'),
  };
}

function resolved(state: ClusterState, key: string): Forwarding[] {
  const found = state.service(key);
  const context = {
    zone: state.node?.zone ?? '',
    nodeAddresses: state.node?.addresses ?? [],
    externalIPsEnabled: true,
  };
  return found === undefined ? [] : resolve(found, state.slices(key), context);
}

describe('ClusterState', () => {
  it('has the state of the last change of each object', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const all = new ClusterState();
        for (const one of changes) all.apply(one);
        const last = new Map(changes.map((one) => [subject(one), one]));
        // A node that went is remembered as it was, so its last appearance counts as well.
        const lastNode = changes.findLast(({ kind }) => kind === 'node');
        const few = new ClusterState();
        if (lastNode !== undefined) few.apply(lastNode);
        for (const one of last.values()) few.apply(one);
        expect(contents(all)).toEqual(contents(few));
      }),
      { numRuns: 300 },
    );
  });

  it('is empty after everything was deleted', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const state = new ClusterState();
        for (const one of changes) state.apply(one);
        for (const name of ['a', 'b', 'c']) {
          state.apply({ kind: 'service-gone', key: `ns/${name}` });
          state.apply({ kind: 'slice-gone', key: `ns/${name}` });
          state.apply({ kind: 'service-cidr-gone', name });
        }
        const { zone, ...rest } = contents(state) as { zone: string };
        const none = [[], [], []];
        expect(rest).toEqual({ services: [], slices: none, unused: none, v4: [], v6: [] });
        expect(state.unserved.size).toBe(0);
      }),
    );
  });

  it('has reported every Service that resolves differently than when it was last processed', () => {
    fc.assert(
      fc.property(fc.array(fc.array(change, { maxLength: 6 }), { maxLength: 6 }), (rounds) => {
        const state = new ClusterState();
        const written = new Map<string, Forwarding[]>();
        for (const [round, changes] of rounds.entries()) {
          for (const one of changes) {
            state.apply(one);
            state.release(2, 1);
            for (let next = state.changed.next(); next; next = state.changed.next()) {
              state.resolved(next);
              written.set(next.key, resolved(state, next.key));
            }
          }
          if (round === 1) state.markSynced('services');
          if (round === 2) state.markSynced('endpointslices');
          for (const key of takeChanged(state)) written.set(key, resolved(state, key));
          for (const key of keys) expect(written.get(key) ?? []).toEqual(resolved(state, key));
        }
      }),
      { numRuns: 300 },
    );
  });

  it('increments the revision exactly when something changed', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 20 }), (changes) => {
        const state = new ClusterState();
        for (const one of changes) {
          const before = JSON.stringify([contents(state), state.node]);
          const { revision } = state;
          state.apply(one);
          const now = JSON.stringify([contents(state), state.node]);
          // An empty ServiceCIDR object is a change that adds nothing to the union.
          if (now !== before) expect(state.revision).toBe(revision + 1);
          const repeated = state.revision;
          state.apply(one);
          expect(state.revision).toBe(repeated);
        }
      }),
    );
  });
});
