/** What namespaces get, against a plain reading of the rule, in whatever order Services come. */
import { describe, expect, it } from 'vitest';
import {
  noLimits,
  serviceSlotsMax,
  slotsWithin,
  unaskedSlotsMax,
} from '../../../src/state/budget.ts';
import { NamespaceShares, namespacesOfNode } from '../../../src/state/namespace-shares.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import type { Random } from '../../chaos/random.ts';
import { withRandom } from '../../chaos/test-seed.ts';
import { ToyClock } from '../sync/double.ts';
import { ips, portsOf, ready, service, slice } from './build.ts';

const limits = { frontends: 1000, endpoints: 5000, sourceRanges: 640, affinityPorts: 64 };
const factor = 3;
const delayMs = 30_000;
const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g'];

interface Asked {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
}

/** Ports at the ClusterIP and at external IPs. */
function large(name: string, ports: number, externalIPs = 0, namespace = 'ns'): Asked {
  const fields = { namespace, name, ports: portsOf(ports), externalIPs: ips(externalIPs) };
  return { service: service(fields), slices: [] };
}

function anyAsked(random: Random, name: string): Asked {
  const namespace = random.pick(names);
  const affinityTimeoutSeconds = random.pick([0, 0, 60]);
  const ports = random.pick([1, 2, 15, 16, 62, 63, 100, 500, 999, 1000, 1100]);
  const endpoints = Object.fromEntries(
    Array.from({ length: random.below(40) }, (_, i) => [`10.244.0.${i + 1}`, ready]),
  );
  const balancing = random.pick([
    ...[undefined, { balance: 'maglev' }, { balance: 'flow-hash' }, { balance: 'round-robin' }],
    ...[{ balance: 'least-connections' }, { balance: undefined, slowStartMs: 10_000 }],
  ] as const);
  const weight = random.pick([undefined, undefined, 7]);
  const balancers = random.pick([0, 0, 1, 2]);
  const ranges = random.pick([0, 1, 11, 40]);
  return {
    service: service({
      ...{ namespace, name, affinityTimeoutSeconds, balancing, ports: portsOf(ports) },
      externalIPs: ips(random.below(5)),
      externalTrafficPolicy: random.pick(['Cluster', 'Local']),
      type: balancers > 0 ? 'LoadBalancer' : 'ClusterIP',
      loadBalancerIPs: ['198.51.100.1', '198.51.100.2'].slice(0, balancers),
      loadBalancerSourceRanges: ips(ranges).map((ip) => `${ip}/32`),
      ...random.pick([{}, { guardsAll: true } as const]),
    }),
    slices: [slice(endpoints, { service: `${namespace}/${name}`, weight })],
  };
}

/** Sizes that count: more than the smallest share of the limit. Each is at most the limit. */
function counted(sizes: readonly number[], limit: number): readonly number[] {
  const smallest = Math.max(1, Math.floor(limit / 64));
  return sizes.filter((size) => size > smallest).map((size) => Math.min(size, limit));
}

/** The largest of 1, 1/2 … 1/64 of a limit that lets all sizes above the smallest share fit. */
function plainShare(sizes: readonly number[], limit: number, total: number): number {
  const shares = Array.from({ length: 7 }, (_, k) => Math.max(1, Math.floor(limit / 2 ** k)));
  const fits = (share: number): boolean => sum(sizes.map((size) => Math.min(size, share))) <= total;
  return shares.find(fits) ?? shares.at(-1)!;
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((all, size) => all + size, 0);
}

/** By namespace: what each Service gets, and what each namespace does. */
function expectedShares(present: readonly Asked[]) {
  const asked = names.map((name) => plainSizes(present, name));
  const all = { ...limits, slots: serviceSlotsMax };
  const shareOf = (what: keyof typeof all) => {
    const sizes = asked.map((one) => counted(one[what], all[what]));
    const total = factor * all[what];
    const ofNamespaces = counted(sizes.map(sum), total);
    const own = plainShare(ofNamespaces, total, namespacesOfNode * total);
    return { own, services: sizes.map((one) => plainShare(one, all[what], own)) };
  };
  const shares = Object.keys(all).map((what) => [what, shareOf(what as keyof typeof all)] as const);
  const services = (i: number) =>
    Object.fromEntries(shares.map(([what, share]) => [what, share.services[i]]));
  return {
    totals: Object.fromEntries(shares.map(([what, { own }]) => [what, own])),
    services: Object.fromEntries(names.map((name, i) => [name, services(i)])),
  };
}

/** How many frontends it has with an address, and node ports. */
function plainFrontends({ externalIPs, loadBalancerIPs, ports, type }: Service) {
  const addresses = 1 + externalIPs.length + loadBalancerIPs.length;
  const nodePorts = type === 'ClusterIP' ? 0 : ports.length;
  return { addresses, nodePorts, all: ports.length * addresses + nodePorts };
}

function plainSizes(present: readonly Asked[], namespace: string) {
  const own = present.filter(({ service: one }) => one.namespace === namespace);
  const frontends = own.map(({ service: one }) => plainFrontends(one).all);
  const endpoints = own.map(({ slices }, i) => {
    return slices[0]!.length * Math.min(frontends[i]!, limits.frontends);
  });
  const affinityPorts = own.map(({ service: one }) => {
    const turns = one.balancing?.balance === 'round-robin' ? plainFrontends(one).addresses : 0;
    return one.ports.length * (Math.min(4, turns) + (one.affinityTimeoutSeconds > 0 ? 1 : 0));
  });
  const sourceRanges = own.map(({ service: one }) => {
    const { addresses, nodePorts } = plainFrontends(one);
    const guarded = one.guardsAll ? addresses - 1 : one.loadBalancerIPs.length;
    const guards = one.ports.length * guarded + (one.guardsAll ? nodePorts : 0);
    return one.loadBalancerSourceRanges.length * Math.max(1, guards);
  });
  const slots = own.map(({ service: one, slices }, i) => {
    const { length, weight } = slices[0]!;
    const { balance, slowStartMs } = one.balancing ?? {};
    const table = balance === 'maglev' ? 4093 : 0;
    const isSpread =
      weight !== undefined || slowStartMs !== undefined || balance === 'least-connections';
    const each = length < 2 ? 0 : table || (isSpread ? 256 : 0);
    const { addresses } = plainFrontends(one);
    const isLocal = one.externalTrafficPolicy === 'Local' && addresses > 1;
    const named = one.ports.length + addresses + length;
    return Math.min(slotsWithin(named), each * frontends[i]! * (isLocal ? 2 : 1));
  });
  return { frontends, endpoints, sourceRanges, affinityPorts, slots };
}

describe('NamespaceShares', () => {
  it('gives the largest share that fits, whatever came and went before', () =>
    withRandom(async (random) => {
      const shares = new NamespaceShares({ limits, factor, state: { touch() {} } });
      const present = new Map<string, Asked>();
      const halved = new Set<string>();
      // Until shares were halved, too: a few hundred rounds, by chance.
      for (let round = 0; round < 300 || (halved.size < 2 && round < 30_000); round += 1) {
        const name = `web-${random.below(12)}`;
        for (const namespace of names) {
          const key = `${namespace}/${name}`;
          if (random.below(3) > 0) continue;
          present.delete(key);
          shares.count(key, undefined, []);
        }
        if (random.below(4) === 0) continue;
        const asked = anyAsked(random, name);
        present.set(asked.service.key, asked);
        shares.count(asked.service.key, asked.service, asked.slices);
        const { services, totals } = expectedShares([...present.values()]);
        for (const namespace of names) {
          const own = shares.of(namespace) ?? { ...limits, slots: serviceSlotsMax };
          expect(own).toEqual(services[namespace]);
        }
        for (const [what, total] of Object.entries(totals)) {
          expect(shares.total(what as keyof typeof limits)).toBe(total);
          halved.add(
            total / factor === { ...limits, slots: serviceSlotsMax }[what as 'slots']
              ? 'no'
              : 'yes',
          );
        }
      }
      expect([...halved].sort()).toEqual(['no', 'yes']);
    }));

  it('returns each other Service whose limits have changed, and no smaller one', () => {
    const shares = new NamespaceShares({ limits, factor, state: { touch() {} } });
    const count = ({ service: one, slices }: Asked) => shares.count(one.key, one, slices);
    for (const name of ['one', 'two']) expect(count(large(name, 1000))).toEqual([]);
    expect(count(large('half', 500))).toEqual([]);
    expect(count(large('other', 1000, 0, 'other'))).toEqual([]);
    expect(shares.of('ns')).toBeUndefined();
    expect(count(large('three', 1000))).toEqual(['ns/one', 'ns/two']);
    expect(shares.of('ns')?.frontends).toBe(500);
    expect(shares.of('other')).toBeUndefined();
    expect(shares.total('frontends')).toBe(3000);
  });

  it('halves what namespaces may have where more of them ask for much, but no smaller one', () => {
    const shares = new NamespaceShares({ limits, factor, state: { touch() {} } });
    const count = ({ service: one, slices }: Asked) => shares.count(one.key, one, slices);
    const three = (namespace: string) =>
      ['one', 'two', 'three'].flatMap((name) => count(large(name, 1000, 0, namespace)));
    for (const namespace of ['a', 'b', 'c', 'd']) expect(three(namespace)).toEqual([]);
    expect(shares.total('frontends')).toBe(3000);
    expect(count(large('one', 46, 0, 'tiny'))).toEqual([]);
    const changed = count(large('one', 1000, 0, 'small'));
    expect(changed.toSorted()).toEqual(
      ['a', 'b', 'c', 'd'].flatMap((name) => [`${name}/one`, `${name}/three`, `${name}/two`]),
    );
    expect(shares.total('frontends')).toBe(1500);
    expect(shares.of('a')?.frontends).toBe(500);
    expect(shares.of('small')).toBeUndefined();
  });

  it('lets namespaces grow only after a while, each together with its Services', async () => {
    const clock = new ToyClock();
    const grown: string[] = [];
    const shares = new NamespaceShares({
      ...{ limits, factor: 1 },
      after: (ms, call) => clock.after(ms, call),
      state: { touch: (key) => grown.push(key) },
    });
    for (const namespace of ['a', 'b', 'c', 'd', 'e']) {
      const { service: one } = large('one', 1000, 0, namespace);
      shares.count(one.key, one, []);
    }
    expect(shares.of('a')?.frontends).toBe(500);
    expect(shares.count('e/one', undefined, [])).toEqual([]);
    await clock.pass(delayMs - 1);
    expect(grown).toEqual([]);
    await clock.pass(1);
    expect(grown).toEqual(['a/one', 'b/one', 'c/one', 'd/one']);
    expect(shares.of('a')).toBeUndefined();
    shares.stop();
  });

  it('gives 400 Services of 16 ports with tables no more slots than a namespace gets', () => {
    const shares = new NamespaceShares({ limits: noLimits, factor: 10, state: { touch() {} } });
    const namesOf = (count: number): string[] =>
      Array.from({ length: count }, (_, i) => `web-${i}`);
    const endpoints = { '10.244.0.1': ready, '10.244.0.2': ready };
    const slotsOf = (count: number): number => {
      for (const name of namesOf(count)) {
        const fields = { name, ports: portsOf(16), balancing: { balance: 'maglev' } } as const;
        const one = service(fields);
        shares.count(one.key, one, [slice(endpoints)]);
      }
      return shares.of('ns')?.slots ?? serviceSlotsMax;
    };
    expect(slotsOf(69)).toBe(serviceSlotsMax);
    expect(slotsOf(70)).toBe(8192);
    expect(slotsOf(160)).toBe(4096);
    expect(slotsOf(400)).toBe(unaskedSlotsMax);
    expect(400 * unaskedSlotsMax).toBeLessThan(shares.total('slots'));
  });

  it('lets shares grow only after a while, as often as they could in the meantime', async () => {
    const clock = new ToyClock();
    const grown: string[] = [];
    const shares = new NamespaceShares({
      ...{ limits, factor },
      after: (ms, call) => clock.after(ms, call),
      state: { touch: (key) => grown.push(key) },
    });
    const names = ['one', 'two', 'three', 'four'];
    for (const name of names) {
      const { service: one } = large(name, 1000);
      shares.count(one.key, one, []);
    }
    expect(shares.of('ns')?.frontends).toBe(500);
    await clock.pass(delayMs / 2);
    const { service: four } = large('four', 1000);
    for (let i = 0; i < 100; i += 1) {
      expect(shares.count(four.key, undefined, [])).toEqual([]);
      expect(shares.count(four.key, four, [])).toEqual([]);
    }
    shares.count(four.key, undefined, []);
    await clock.pass(delayMs - 1);
    expect(grown).toEqual([]);
    await clock.pass(1);
    expect(grown).toEqual(['ns/one', 'ns/two', 'ns/three']);
    expect(shares.of('ns')).toBeUndefined();
  });

  it('forgets a namespace without large Services, and its timer', async () => {
    const clock = new ToyClock();
    const grown: string[] = [];
    const shares = new NamespaceShares({
      ...{ limits, factor: 1 },
      after: (ms, call) => clock.after(ms, call),
      state: { touch: (key) => grown.push(key) },
    });
    for (const name of ['one', 'two']) {
      const { service: one } = large(name, 1000);
      shares.count(one.key, one, []);
    }
    for (const key of ['ns/one', 'ns/two']) shares.count(key, undefined, []);
    expect(shares.of('ns')).toBeUndefined();
    await clock.pass(delayMs);
    expect(grown).toEqual([]);
  });
});
