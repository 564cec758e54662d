import { describe, expect, it } from 'vitest';
import { availableModes } from '../../../src/modes/index.ts';
import { frontendKey } from '../../../src/state/frontend-key.ts';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { FrontendsInForce, rangeOf } from '../../../src/state/frontends-in-force.ts';
import { keysOf, noSockets } from '../../../src/state/node-sockets.ts';
import { type ResolveContext, resolveInSteps } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Service } from '../../../src/state/types.ts';
import { address, http, portsOf, ready, service, slice, slicePort } from './build.ts';
import { Cluster, frontends } from './cluster.ts';

const context: ResolveContext = { zone: '', nodeAddresses: [], externalIPsEnabled: true };
const shared = '203.0.113.1';
const portRange = { first: 5000, last: 5999 };
const media = { ...http, port: 5000 };
const toMedia = slice({ '10.244.0.1': ready }, { ports: [slicePort('http', 5000)] });
const base = { ports: [media], portRange, clusterIPs: ['10.96.0.1'] };

function resolved(of: Service, slices = [toMedia], more: Partial<ResolveContext> = {}) {
  const { forwardings, rangeRefusals, excess } = finish(
    resolveInSteps(of, slices, { ...context, ...more }),
  );
  return { all: frontends(forwardings), forwardings, rangeRefusals, excess };
}

describe('the range of a port', () => {
  it('is one more frontend at each address, for each protocol, and none at a node port', () => {
    const udp = { ...media, name: 'udp', protocol: 'UDP', nodePort: 30080 } as const;
    const of = service({
      ...base,
      clusterIPs: ['10.96.0.1', 'fd00::1'],
      externalIPs: [shared],
      ports: [media, udp, { ...http, name: 'web' }],
    });
    expect(resolved(of, []).all).toEqual([
      'TCP 10.96.0.1:5000',
      `TCP ${shared}:5000`,
      'TCP 10.96.0.1:5000-5999',
      `TCP ${shared}:5000-5999`,
      'UDP 10.96.0.1:5000',
      `UDP ${shared}:5000`,
      'UDP 10.96.0.1:5000-5999',
      `UDP ${shared}:5000-5999`,
      'UDP node port 30080',
      'TCP 10.96.0.1:80',
      `TCP ${shared}:80`,
      'TCP [fd00::1]:5000',
      'TCP [fd00::1]:5000-5999',
      'UDP [fd00::1]:5000',
      'UDP [fd00::1]:5000-5999',
      'UDP node port 30080',
      'TCP [fd00::1]:80',
    ]);
  });

  it('is not served where it would not be what it says, and the reason names that', () => {
    const refusals = (fields: Parameters<typeof service>[0], slices = [toMedia]) => {
      const { all, rangeRefusals } = resolved(service({ ...base, ...fields }), slices);
      expect(all).toEqual(['TCP 10.96.0.1:5000']);
      return rangeRefusals.join();
    };
    expect(refusals({ affinityTimeoutSeconds: 1 })).toMatch('session affinity');
    expect(refusals({ limits: { max_connections: 1 } })).toMatch('limits connections');
    expect(refusals({ isFastPathOff: true })).toMatch('fast path');
    expect(refusals({ endings: { endAfterMs: 1 } })).toMatch('connections end');
    expect(refusals({ endings: { maxAgeMs: 1 } })).toMatch('connections end');
    const elsewhere = slice({ '10.244.0.2': ready }, { ports: [slicePort('http', 8080)] });
    for (const slices of [[elsewhere], [toMedia, { ...elsewhere, key: 'ns/web-2' }]]) {
      expect(refusals({}, slices)).toMatch('targetPort is 8080');
    }
    const here = { name: 'mode x', balances: new Set<never>(), usesTables: false } as const;
    const { all, rangeRefusals } = resolved(service(base), [toMedia], {
      dealing: { ...here, refusesRanges: true },
    });
    expect(rangeRefusals).toEqual(['mode x cannot do it']);
    expect(all).toEqual(['TCP 10.96.0.1:5000']);
    expect(resolved(service(base), [toMedia], { dealing: here }).rangeRefusals).toEqual([]);
    expect(resolved(service({ ...base, endings: { keepsFlows: true } })).rangeRefusals).toEqual([]);
  });

  it('is served by modes nftables and iptables', () => {
    const serving = availableModes().filter(({ dealing }) => !dealing.refusesRanges);
    expect(serving.map(({ name }) => name).sort()).toEqual(['iptables', 'nftables']);
  });

  it('counts as one frontend of each address, and gets what is left of the limit', () => {
    const of = service({ ...base, externalIPs: [shared] });
    const limits = {
      frontends: 3,
      frontendEndpoints: 9,
      endpoints: 9,
      sourceRanges: 9,
      affinityPorts: 9,
    };
    const { all, excess } = resolved(of, [toMedia], { limits });
    expect(all).toEqual(['TCP 10.96.0.1:5000', `TCP ${shared}:5000`, 'TCP 10.96.0.1:5000-5999']);
    expect(excess).toMatchObject([{ what: 'frontends', asked: 4, limit: 3 }]);
    const enough = resolved(of, [toMedia], { limits: { ...limits, frontends: 4 } });
    expect([enough.all.length, enough.excess]).toEqual([4, []]);
  });
});

function kept(cluster: Cluster): number[] {
  const all = [...cluster.owned.values()].flat().flatMap(({ frontends: of }) => of);
  return all.flatMap((one) => (one.isInRange ? [one.port] : [])).sort();
}

describe('a range and the ports of other Services within it', () => {
  const range = service({ ...base, name: 'range', createdMs: 2, externalIPs: [shared] });
  const single = (name: string, createdMs: number, port: number, kind = 'externalIPs') => {
    const clusterIPs = [`10.96.1.${createdMs}`];
    return service({ name, createdMs, clusterIPs, [kind]: [shared], ports: [{ ...http, port }] });
  };
  const older = single('older', 1, 5400);
  const younger = single('younger', 3, 5999);
  const outside = single('outside', 4, 6000);
  const whole = ['5000', '5000-5999'];

  it('belong to the older ones, whatever came first, and are given back', () => {
    const expected = { range: whole, older: ['5400'], outside: ['6000'] };
    const orders = [
      [range, older, younger, outside],
      [younger, outside, older, range],
      [older, range, outside, younger],
    ];
    for (const order of orders) {
      const cluster = new Cluster().set(...order);
      expect(cluster.at(shared)).toEqual(expected);
      expect(cluster.takeConflicts()).toContain(
        `ns/younger:http does not get TCP ${shared}:5999, which ns/range holds`,
      );
      cluster.remove(range);
      expect(cluster.at(shared)).toEqual({ older: ['5400'], younger: ['5999'], outside: ['6000'] });
    }
  });

  it('follow a range that grows, shrinks and changes its age', () => {
    const cluster = new Cluster().set(younger, outside, range);
    const narrow = { ...range, portRange: { first: 5000, last: 5998 } };
    expect(cluster.set(narrow).at(shared)).toMatchObject({ younger: ['5999'] });
    const wide = { ...range, portRange: { first: 5000, last: 6000 } };
    const own = { range: ['5000', '5000-6000'] };
    expect(cluster.set(wide).at(shared)).toEqual(own);
    expect(cluster.set({ ...wide, createdMs: 9 }).at(shared)).toMatchObject({
      younger: ['5999'],
      outside: ['6000'],
    });
  });

  it('follow the order of kinds before that of ages', () => {
    const assigned = single('assigned', 9, 5400, 'loadBalancerIPs');
    expect(new Cluster().set(range, assigned).at(shared)).toEqual({
      range: whole,
      assigned: ['5400'],
    });
  });

  it('that a ClusterIP had before them are given back, too', () => {
    const first = service({
      name: 'first',
      clusterIPs: [shared],
      ports: [{ ...http, port: 5999 }],
    });
    const elsewhere = { ...range, externalIPs: [] };
    for (const known of [[elsewhere, range], []]) {
      const cluster = new Cluster().set(...known, first, younger, range);
      expect(cluster.at(shared)).toEqual({ range: whole, first: ['5999'] });
      expect(cluster.remove(first).at(shared)).toEqual({ range: whole });
      expect(cluster.remove(range).at(shared)).toEqual({ younger: ['5999'] });
    }
  });

  it('keep them without endpoints, too, also a ClusterIP, as long as there is a range', () => {
    const vip = service({ name: 'vip', clusterIPs: [shared], ports: [{ ...http, port: 5500 }] });
    for (const order of [
      [range, older, vip, younger, outside],
      [older, vip, outside, younger, range],
    ]) {
      const cluster = new Cluster().set(...order);
      expect(kept(cluster)).toEqual([5400, 5500]);
      expect(kept(cluster.set({ ...range, portRange: { first: 5000, last: 5450 } }))).toEqual([
        5400,
      ]);
      expect(kept(cluster.set({ ...range, portRange: undefined }))).toEqual([]);
      expect(kept(cluster.set(range, older))).toEqual([5400, 5500]);
      expect(kept(cluster.remove(range))).toEqual([]);
    }
  });

  it('of the Service itself, too, whichever of them it lists first', () => {
    const listed = (...ports: number[]) =>
      service({ ...base, ports: ports.map((port) => ({ ...http, name: `p${port}`, port })) });
    const of = listed(5999, 5400, 5000, 6000);
    const cluster = new Cluster().set(of);
    expect(kept(cluster)).toEqual([5400, 5999]);
    expect(kept(cluster.set({ ...of, portRange: { first: 5000, last: 5998 } }))).toEqual([5400]);
    expect(kept(cluster.set(listed(5400)))).toEqual([]);
    const many = listed(...Array.from({ length: 300 }, (_, i) => 5000 + i));
    cluster.set(many, { ...many, createdMs: 10 });
    expect(cluster.takeConflicts()).toEqual([]);
  });

  it('are looked at in steps where a range changes, and by no other change', () => {
    const owners = new FrontendOwners();
    const stepsOf = (of: Service): number => {
      const { affected } = finish(owners.set(of, resolved(of, []).forwardings, noSockets));
      return [...affected].filter((one) => one === undefined).length;
    };
    const ports = Array.from({ length: 640 }, (_, i) => ({
      ...http,
      name: `p${i}`,
      port: 5001 + i,
    }));
    const many = service({ name: 'many', clusterIPs: ['10.96.1.9'], externalIPs: [shared], ports });
    const none = { ...range, portRange: undefined };
    for (const one of [range, none, many]) stepsOf(one);
    const steps = [none, range, range, { ...range, createdMs: 7 }, none, none].map(stepsOf);
    expect(steps).toEqual([0, 5, 0, 5, 5, 0]);
  });

  it('are given back to a Service whose claims were being compared when the range went', () => {
    const ports = [{ ...http, port: 7000 }, ...portsOf(300, {}, 5001)];
    const before = { ...older, createdMs: 3, ports };
    for (const own of [undefined, { first: 7000, last: 7001 }]) {
      const owners = new FrontendOwners();
      const set = (of: Service) => owners.set(of, resolved(of, []).forwardings);
      for (const one of [before, range]) finish(set(one));
      const large = { ...before, portRange: own };
      const steps = set(large);
      for (let step = 0; step < 6; step += 1) steps.next();
      expect([...owners.release(range.key).affected]).not.toContain(large.key);
      expect([...finish(steps).affected]).toContain(large.key);
      const { forwardings } = finish(set(large));
      expect(frontends(forwardings)).toEqual(resolved(large, []).all);
    }
  });

  it('are all found by callers that share a pass, also what changes while it is under way', () => {
    const singles = Array.from({ length: 250 }, (_, i) => single(`single-${i}`, i + 3, 5001 + i));
    const owners = new FrontendOwners();
    const set = (of: Service) => finish(owners.set(of, resolved(of, []).forwardings)).affected;
    for (const one of singles) set(one);
    const others = set({ ...range, portRange: { first: 5000, last: 5150 } })[Symbol.iterator]();
    const found = new Set<string | undefined>();
    while (!found.has(undefined)) found.add(others.next().value);
    for (const one of set(range)) found.add(one);
    for (const { key } of singles) expect(found).toContain(key);
    expect(others.next().done).toBe(true);
  });

  it('leave an address one range of a protocol: that of the older Service', () => {
    const other = service({
      name: 'other',
      clusterIPs: ['10.96.2.1'],
      createdMs: 5,
      externalIPs: [shared],
      ports: [{ ...http, port: 7000 }],
      portRange: { first: 7000, last: 7009 },
    });
    const cluster = new Cluster().set(other, range);
    expect(cluster.at(shared)).toEqual({ range: whole, other: ['7000'] });
    expect(cluster.remove(range).at(shared)).toEqual({ other: ['7000', '7000-7009'] });
  });

  it('are left to programs at addresses of the node and of the API server, but for ClusterIPs', () => {
    const keys = keysOf([address(shared), address('10.96.0.1')]);
    for (const sockets of [
      { ...noSockets, addresses: keys },
      { ...noSockets, nodePorts: keys },
      { ...noSockets, server: { address: address(shared).key, port: 443 } },
    ]) {
      const cluster = new Cluster(sockets).set(range);
      expect(cluster.at(shared)).toEqual({ range: ['5000'] });
      expect(cluster.at('10.96.0.1')).toEqual({ range: whole });
    }
  });
});

describe('what a range holds', () => {
  it.each(['10.96.0.1', 'fd00::1'])('is found by each of its ports, at %s', (host) => {
    const [one] = resolved(service({ ...base, clusterIPs: [host] }), []).forwardings;
    const inForce = new FrontendsInForce(one!.family);
    inForce.changed(undefined, one);
    const at = (port: number) => inForce.holder('TCP', { address: address(host), port });
    expect([4999, 5000, 5001, 5999, 6000].map((port) => at(port)?.key)).toEqual([
      undefined,
      one!.key,
      one!.key,
      one!.key,
      undefined,
    ]);
    expect(inForce.holder('UDP', { address: address(host), port: 5001 })).toBeUndefined();
    const served = (port?: number): string => {
      const of = inForce.at({ address: address(host), port, protocol: 'TCP' });
      return `${of.service}:${of.port}`;
    };
    expect([undefined, 5001, 6000].map(served)).toEqual(['web:', 'web:http', ':']);
    const key = frontendKey({ address: address('10.96.0.9'), port: 5001 });
    expect(rangeOf(inForce.of('TCP'), key, 5001)).toBeUndefined();
    inForce.changed(one, undefined);
    expect(at(5001)).toBeUndefined();
    expect(served()).toBe(':');
  });
});
