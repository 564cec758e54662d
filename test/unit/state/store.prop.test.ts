import { inspect, isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { families, formatCIDR } from '../../../src/net/address.ts';
import type { Change } from '../../../src/state/change.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { TriggerTime } from '../../../src/state/trigger-times.ts';
import { Condition, type EndpointSlice, type Forwarding } from '../../../src/state/types.ts';
import {
  address,
  cidr,
  node,
  ready,
  readyLocal,
  service,
  slice,
  takeChanged,
  unready,
} from './build.ts';

const names = fc.constantFrom('a', 'b');
const keyNames = names.map((name) => `ns/${name}`);
const endpoint = fc.constantFrom(ready, readyLocal, unready, { ...ready, zones: ['zone-b'] });
const endpoints = fc.dictionary(fc.constantFrom('10.0.0.1', '10.0.0.2', 'fd00::1'), endpoint, {
  minKeys: 1,
  maxKeys: 1,
});
const places = fc.constantFrom(undefined, [{ node: 'node-b', zone: '' }]);
const triggerTimeMs = fc.constantFrom(undefined, 1, 2, 3);
const blocks = fc.subarray(['10.0.0.0/16', '10.1.0.0/16', 'fd00::/108']);

/** A change, and of what: one object takes the place of another that is of the same. */
type Step = readonly [of: string, change: Change];

const slices = fc
  .record({
    key: keyNames,
    service: keyNames,
    endpoints: fc.option(endpoints),
    places,
    triggerTimeMs,
  })
  .map(({ endpoints: all, ...fields }): Step => {
    return [`slice ${fields.key}`, { kind: 'slice', slice: slice(all ?? {}, fields) }];
  });

const nodes = fc
  .record({
    zone: fc.constantFrom('zone-a', 'zone-b'),
    podCIDRs: fc.subarray(['10.244.0.0/24']),
    addresses: fc.subarray(['192.0.2.1']).map((texts) => texts.map(address)),
    isShuttingDown: fc.boolean(),
    taintKeys: fc.subarray(['x']),
  })
  .map((fields): Step => ['node', { kind: 'node', node: node(fields) }]);

const step: fc.Arbitrary<Step> = fc.oneof(
  fc
    .record({ name: names, affinityTimeoutSeconds: fc.nat(1), loadBalancerSourceRanges: blocks })
    .map((fields): Step => {
      return [`service ns/${fields.name}`, { kind: 'service', service: service(fields) }];
    }),
  keyNames.map((key): Step => [`service ${key}`, { kind: 'service-gone', key }]),
  keyNames.map((key): Step => {
    const unserved = { key, because: 'it is headless', addresses: [] };
    return [`service ${key}`, { kind: 'service-unserved', unserved }];
  }),
  slices,
  slices,
  fc
    .record({ key: keyNames, service: keyNames, because: fc.constantFrom('FQDN', 'label') })
    .map(({ ...unused }): Step => [`slice ${unused.key}`, { kind: 'slice-unused', unused }]),
  keyNames.map((key): Step => [`slice ${key}`, { kind: 'slice-gone', key }]),
  nodes,
  nodes,
  fc.constantFrom('node-a', 'node-b').map((name): Step => ['node', { kind: 'node-gone', name }]),
  fc.record({ name: names, cidrs: blocks }).map(({ name, cidrs }): Step => {
    const serviceCIDR = { name, cidrs: cidrs.map(cidr) };
    return [`service-cidr ${name}`, { kind: 'service-cidr', serviceCIDR }];
  }),
  names.map((name): Step => [`service-cidr ${name}`, { kind: 'service-cidr-gone', name }]),
);

const keys = ['ns/a', 'ns/b'];
const byKey = <T extends { readonly key: string }>(all: Iterable<T>): T[] =>
  [...all].sort((a, b) => (a.key < b.key ? -1 : 1));

/** The objects that there are, from which each answer is worked out when it is asked for. */
class Model {
  readonly #objects = new Map<string, Change>();
  readonly times = new Map<string, TriggerTime[]>();

  take([of, change]: Step): void {
    const last = this.#objects.get(of);
    const before = last?.kind === 'slice' ? last.slice : undefined;
    this.#time(before, change.kind === 'slice' ? change.slice : undefined);
    if (change.kind === 'node-gone') {
      if (last?.kind !== 'node' || last.node.name !== change.name) return;
      this.#objects.set(of, { ...last, node: { ...last.node, deleted: true } });
    } else if (change.kind.endsWith('-gone')) this.#objects.delete(of);
    else this.#objects.set(of, change);
  }

  #time(before: EndpointSlice | undefined, after: EndpointSlice | undefined): void {
    const isMoved = before?.service !== after?.service;
    if (before !== undefined && isMoved) {
      const left = this.timesOf(before.service).filter(({ family }) => family !== before.family);
      this.times.set(before.service, left);
    }
    const timeMs = after?.triggerTimeMs;
    // 1 is when the process began.
    if (after === undefined || timeMs === undefined || timeMs <= 1) return;
    if (!isMoved && timeMs === before?.triggerTimeMs) return;
    const known = this.timesOf(after.service);
    if (known.some((one) => one.family === after.family && one.timeMs === timeMs)) return;
    this.times.set(after.service, [...known, { family: after.family, timeMs }]);
  }

  timesOf(key: string): TriggerTime[] {
    return this.times.get(key) ?? [];
  }

  #all<K extends Change['kind']>(kind: K) {
    return [...this.#objects.values()].filter((one) => one.kind === kind) as Extract<
      Change,
      { readonly kind: K }
    >[];
  }

  /** All, but for Services that are not served. */
  get text(): string {
    const served = [...this.#objects.values()].filter(({ kind }) => kind !== 'service-unserved');
    return inspect(served, { depth: 9 });
  }

  /** What a Service is resolved from, and what is reported of it. */
  basisOf(key: string): string {
    const { node, services, ...all } = this.answers;
    const one = services.find((each) => each.key === key);
    if (one === undefined) return '';
    const [slices, unused] = [all.slices[keys.indexOf(key)]!, all.unused[keys.indexOf(key)]];
    const isLocal = ({ conditions }: EndpointSlice): boolean =>
      (conditions.charCodeAt(0) & Condition.local) !== 0;
    const ofNode = [
      slices.some(({ zoneHints }) => zoneHints !== undefined) && node?.zone,
      slices.some(({ length, places }) => length > 0 && places === undefined) && node?.podCIDRs,
      slices.some(isLocal) && (node?.isShuttingDown ?? false),
      one.loadBalancerSourceRanges.length > 0 && node?.addresses,
    ];
    return inspect([one, slices, unused, ofNode], { depth: 9 });
  }

  get answers(): ReturnType<typeof answersOf> {
    const services = this.#all('service').map((one) => one.service);
    const unserved = this.#all('service-unserved').map((one) => one.unserved);
    const slices = byKey(this.#all('slice').map((one) => one.slice));
    const unused = byKey(this.#all('slice-unused').map((one) => one.unused));
    const blocks = this.#all('service-cidr').flatMap(({ serviceCIDR }) => serviceCIDR.cidrs);
    const texts = [...new Set(blocks.map(formatCIDR))].sort();
    const isServed = (key: string): boolean => services.some((one) => one.key === key);
    const named = [...new Set(slices.map(({ service }) => service))];
    const withSlicesAlone = named.filter((key) => !isServed(key)).sort();
    const known = [...services, ...unserved].map(({ key }) => key);
    return {
      services: byKey(services),
      serviceCount: services.length,
      unserved: byKey(unserved),
      keys: [...known, ...withSlicesAlone].sort(),
      withSlicesAlone,
      slices: keys.map((key) => slices.filter((one) => one.service === key)),
      slice: keys.map((key) => slices.find((one) => one.key === key)),
      unused: keys.map((key) => unused.filter((one) => one.service === key)),
      node: this.#all('node')[0]?.node,
      cidrs: [false, true].map((isV6) => texts.filter((one) => one.includes(':') === isV6)),
    };
  }
}

function answersOf(state: ClusterState) {
  return {
    services: byKey([...state.serviceKeys()].map((key) => state.service(key)!)),
    serviceCount: state.serviceCount,
    unserved: byKey(state.unserved.values()),
    keys: [...state.keys()].sort(),
    withSlicesAlone: [...state.keysWithSlicesAlone()].sort(),
    slices: keys.map((key) => byKey(state.slices(key))),
    slice: keys.map((key) => state.slice(key)),
    unused: keys.map((key) => byKey(state.unusedSlices(key))),
    node: state.node,
    cidrs: families.map((family) => state.serviceCIDRs(family).map(formatCIDR)),
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
  it('answers from the objects that there are, and has those dirty whose basis has changed', () => {
    const lives = fc.array(fc.tuple(step, fc.nat(3)), { minLength: 60, maxLength: 60 });
    fc.assert(
      fc.property(lives, (steps) => {
        const [model, state] = [new Model(), new ClusterState(1)];
        const dirty = new Set<string>();
        let bases = keys.map(() => '');
        for (const [each, turn] of steps) {
          const [{ text }, { revision }] = [model, state];
          const cidrs = families.map((family) => state.serviceCIDRs(family));
          model.take(each);
          const isChanged = model.text !== text;
          expect(state.apply(each[1])).toBe(isChanged ? 'changed' : 'same');
          expect(state.revision - revision).toBe(isChanged ? 1 : 0);
          expect(answersOf(state)).toEqual(model.answers);
          families.forEach((family, i) => {
            const now = state.serviceCIDRs(family);
            if (isDeepStrictEqual(now, cidrs[i])) expect(now).toBe(cidrs[i]);
          });
          const before = bases;
          bases = keys.map((key) => model.basisOf(key));
          for (const [i, key] of keys.entries()) if (bases[i] !== before[i]) dirty.add(key);
          expect([...state.changed].map(({ key }) => key).sort()).toEqual([...dirty].sort());
          if (turn > 0) continue;
          dirty.clear();
          takeChanged(state);
          const times = keys.map((key) => model.timesOf(key));
          expect(keys.map((key) => state.takeTriggerTimes(key))).toEqual(times);
          model.times.clear();
        }
      }),
      { numRuns: 100 },
    );
  });

  it('has reported every Service that resolves differently than when it was last processed', () => {
    fc.assert(
      fc.property(fc.array(fc.array(step, { maxLength: 6 }), { maxLength: 6 }), (rounds) => {
        const state = new ClusterState();
        const written = new Map<string, Forwarding[]>();
        for (const [round, changes] of rounds.entries()) {
          for (const [, one] of changes) {
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
});
