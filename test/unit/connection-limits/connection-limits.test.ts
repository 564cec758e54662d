/** The table of limits on the fake kernel, from its making to its end. */
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import type { BoundSettings } from '../../../src/connection-limits/bounds.ts';
import { ConnectionLimits } from '../../../src/connection-limits/connection-limits.ts';
import { ownTable, reasonsWith } from '../../../src/connection-limits/layout.ts';
import { printRule } from '../../../src/kernel/nft/print-rule.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { type Address, parseCIDR } from '../../../src/net/address.ts';
import { addCount } from '../../../src/net/counts.ts';
import type { Limits } from '../../../src/state/limits.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address, context, http, ready, service, slice, slicePort } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const none: BoundSettings = {
  clientConnections: 0,
  clientShare: 0,
  namespaceConnections: 0,
  namespaceShare: 0,
  exemptClients: [],
};
const web = { ...http, name: '' };
const inTable = { family: ownTable.family, table: ownTable.table };

class World {
  readonly kernel: FakeKernel;
  readonly lines: string[] = [];
  readonly services = new Map<string, Service>();
  readonly desired = new Map<string, Forwarding>();
  readonly clock = new ToyClock();
  readonly limits: ConnectionLimits;
  nodePortAddresses: readonly Address[] | 'all' = 'all';
  /** Of connection tracking. */
  readonly files: Record<string, string> = {
    '/proc/sys/net/netfilter/nf_conntrack_count': '0',
    '/proc/sys/net/netfilter/nf_conntrack_max': '100000',
  };

  constructor(kernel = new FakeKernel(), isSecond = false) {
    this.kernel = kernel;
    const log = (fields: object, message: string): void => {
      this.lines.push([message, ...Object.values(fields)].join(': '));
    };
    const { desired, services } = this;
    const setting = () => {
      const { nodePortAddresses } = this;
      return { environment: { serviceCIDRs: [], nodePortAddresses } };
    };
    this.limits = new ConnectionLimits({
      kernel,
      clock: this.clock,
      log: { info: log, warn: log, error: log },
      state: {
        synced: true,
        service: (key) => services.get(key),
        serviceKeys: function* () {
          yield* services.keys();
        },
        slices: () => [slice({ '10.244.0.5': ready }, { ports: [slicePort('', 8080)] })],
      },
      agent: { families: [{ family: 'IPv4', desired }], engine: { setting, frontends: {} } },
      problems: { resolved() {} },
      host: { read: (path) => this.files[path] },
      source: { lookup: { podsOf: () => Promise.resolve(new Map([['10.244.0.5', 'cart-7']])) } },
      isSecond,
    });
    worlds.push(this);
  }

  /** A Service with these limits, and what is desired of it. */
  async set(...[name, limits, more]: Parameters<World['add']>): Promise<void> {
    const { key } = this.add(name, limits, more);
    this.limits.resolved(key);
    await this.settled();
  }

  /** The same, of which nothing is said yet. */
  add(name: string, limits: Limits | undefined, more: Parameters<typeof service>[0] = {}): Service {
    const known = this.services.get(`${more?.namespace ?? 'default'}/${name}`);
    const nodePort = known?.ports.at(0)?.nodePort ?? 30_080 + this.services.size;
    const ports = [{ name: '', protocol: 'TCP', port: 80, nodePort } as const];
    const one = service({ namespace: 'default', name, ports, limits, ...more });
    this.services.set(one.key, one);
    const slices = [slice({ '10.244.0.5': ready }, { ports: [slicePort('', 8080)] })];
    for (const made of resolve(one, slices, context)) this.desired.set(made.key, made);
    return one;
  }

  async settled(): Promise<void> {
    for (let passedMs = 0; passedMs < 5000 || !this.limits.upToDate; passedMs += 100) {
      expect(passedMs).toBeLessThan(60_000);
      await this.clock.pass(100);
    }
  }

  /** The chains of Services, each with its rules. */
  async chains(
    named = /^(bounded-)?limit-|^client$|^(any-)?namespace/,
  ): Promise<Record<string, string[]>> {
    const { records } = await this.kernel.dump({ kind: 'rulesDump', ...inTable, chain: '' });
    const found: Record<string, string[]> = {};
    for (const one of records) {
      if (one.kind !== 'rule' || !named.test(one.chain)) continue;
      found[one.chain] = [...(found[one.chain] ?? []), printRule(one.family, one.expressions)];
    }
    return found;
  }

  /** How many elements a map has. */
  async count(set: string): Promise<number> {
    const keyLength = set === 'nodeports' ? 8 : 12;
    const shape = { shape: 4, keyLength, dataLength: 0 };
    const { records } = await this.kernel.dump({ kind: 'elementsDump', ...inTable, set, ...shape });
    return records.reduce((sum, one) => sum + (one.kind === 'elements' ? one.count : 0), 0);
  }

  async tables(): Promise<string[]> {
    const { records } = await this.kernel.dump({ kind: 'tablesDump', family: 0 });
    return records.flatMap((one) => (one.kind === 'table' ? [one.table] : []));
  }

  /** What each element of a set has. */
  async statement(set: string): Promise<string> {
    const { records } = await this.kernel.dump({ kind: 'setsDump', ...inTable });
    const one = records.find((record) => record.kind === 'set' && record.set === set);
    return one?.kind === 'set' ? printRule(ownTable.family, one.statement) : 'no such set';
  }

  async sets(): Promise<number> {
    const { records } = await this.kernel.dump({ kind: 'setsDump', ...inTable });
    return records.length;
  }
}

const worlds: World[] = [];
afterEach(async () => {
  await Promise.all(worlds.splice(0).map(({ limits }) => limits.close()));
});

describe('limits of connections', () => {
  it('come 50 ms after a change, and two seconds after a failure', async () => {
    const world = new World();
    world.limits.synced();
    await world.set('web', { max_connections: 5 });
    const [[key, one]] = [...world.services] as [[string, Service]];
    const changesAfter = async (most: number, ms: number): Promise<boolean[]> => {
      world.services.set(key, { ...one, limits: { max_connections: most } });
      world.limits.resolved(key);
      const before = await world.chains();
      const isSame = [];
      for (const passMs of [ms - 1, 1]) {
        await world.clock.pass(passMs);
        isSame.push(JSON.stringify(await world.chains()) === JSON.stringify(before));
      }
      return isSame;
    };
    expect(await changesAfter(6, 50)).toEqual([true, false]);
    world.kernel.failNext({ code: 'ENOMEM' });
    expect(await changesAfter(7, 50 + 2000)).toEqual([true, false]);
    // An update that takes a second is followed by the longest rest.
    const apply = world.kernel.apply.bind(world.kernel);
    world.kernel.apply = async (ops) => {
      await new Promise<void>((resolve) => world.clock.after(1000, resolve));
      return apply(ops);
    };
    expect(await changesAfter(8, 50 + 1000)).toEqual([true, false]);
    expect(await changesAfter(9, 2000 + 1000)).toEqual([true, false]);
  });

  it('are forgotten of a client that could have as many again, and refusals in two minutes', async () => {
    const world = new World();
    world.limits.choose({ ...none, clientShare: 1 });
    await world.set('web', { new_connections_per_second_per_client: 5 });
    const { records } = await world.kernel.dump({ kind: 'setsDump', ...inTable });
    const timeouts = records.flatMap((one) => {
      return one.kind === 'set' && one.timeoutMs > 0 ? [[one.set, one.timeoutMs] as const] : [];
    });
    expect(new Set(timeouts.map(([set, ms]) => `${set.replace(/-.*/, '')} ${ms}`))).toEqual(
      new Set([
        'lease 600000',
        // A burst of 250, and half of it a minute.
        'new 120000',
        'new_connections_per_second_per_client 10000',
        ...reasonsWith({ client: {} as never, namespace: undefined, exempt: [] }).map(
          (reason) => `${reason} 120000`,
        ),
      ]),
    );
  });

  it('write nothing without a Service that asks for them', async () => {
    const world = new World();
    world.limits.synced();
    await world.set('web', undefined);
    expect(world.kernel.writes).toBe(0);
    expect(await world.tables()).toEqual([]);
  });

  it('are a chain for each Service, which goes with it, and the table with the last', async () => {
    const world = new World();
    await world.set('web', { new_connections_per_second: 7 });
    await world.set('shop', { max_connections: 3 }, { clusterIPs: ['10.96.0.2'] });
    const over = 'goto over-max_connections';
    const key = 'ip daddr . meta l4proto . th dport . ip saddr . th sport';
    expect(await world.chains()).toEqual({
      'limit-IPv4-0-0-7-0-default/web': [
        'limit rate over 7/second burst 7 packets goto over-new_connections_per_second',
      ],
      'limit-IPv4-3-0-0-0-default/shop': [
        `meta nfproto 2 add @max_connections-IPv4-limit-IPv4-3-0-0-0-default/shop { ${key} ct count over 0 } return`,
        over,
      ],
    });
    expect([await world.count('services-ipv4'), await world.count('nodeports')]).toEqual([2, 2]);
    const sets = await world.sets();
    await world.set('shop', undefined, { clusterIPs: ['10.96.0.2'] });
    expect(Object.keys(await world.chains())).toEqual(['limit-IPv4-0-0-7-0-default/web']);
    expect([await world.count('services-ipv4'), await world.sets()]).toEqual([1, sets - 1]);
    await world.set('web', undefined);
    expect(await world.tables()).toEqual([]);
    expect(world.lines).toEqual(['Removed connection limits']);
  });

  it('stay through a restart, which deletes what is needed no longer', async () => {
    const first = new World();
    await first.set('web', { max_connections_per_client: 5 });
    await first.set('shop', { max_connections: 3 }, { clusterIPs: ['10.96.0.2'] });
    const chains = await first.chains();
    expect(chains['limit-IPv4-0-5-0-0-default/web']).toHaveLength(2);
    await first.limits.close();
    const { commits } = first.kernel;
    const second = new World(first.kernel);
    for (const [key, one] of first.services) second.services.set(key, one);
    for (const [key, one] of first.desired) second.desired.set(key, one);
    second.limits.synced();
    await second.settled();
    // The lease alone.
    expect(first.kernel.commits).toBe(commits + 1);
    await second.limits.close();
    const third = new World(first.kernel);
    await third.set('web', { max_connections_per_client: 5 });
    const [web] = Object.entries(chains).filter(([name]) => name.endsWith('/web'));
    expect(await third.chains()).toEqual(Object.fromEntries([web!]));
    expect(third.kernel.commits).toBe(commits + 2);
  });

  it('have a lease, which a start renews, and then each five or six minutes', async () => {
    const world = new World();
    await world.set('web', { max_connections: 5 });
    const renewals = async (minutes: number): Promise<number> => {
      const { commits } = world.kernel;
      await world.clock.pass(minutes * 60_000);
      return world.kernel.commits - commits;
    };
    const found = [];
    for (const minutes of [4.8, 1.1, 3.8, 1.2]) found.push(await renewals(minutes));
    expect(found).toEqual([0, 1, 0, 1]);
    // As after a long stop: the elements are gone.
    const writer = new RecordWriter(nftOps);
    const entries = Uint8Array.of(6, 17, 132);
    const shape = { shape: 0, keyLength: 1, dataLength: 0, count: 3 };
    writer.write('elementsDelete', { ...inTable, set: 'lease', ...shape, entries });
    expect(world.kernel.applyNow(writer.finish()).kind).toBe('applied');
    await world.clock.pass(7 * 60_000);
    expect(world.kernel.elements(inTable.family, inTable.table, 'lease')).toHaveLength(3);
    while ((await renewals(1)) === 0);
    world.kernel.failNext({ code: 'ENOMEM', forSet: 'lease' });
    expect([await renewals(3.5), await renewals(2)]).toEqual([0, 1]);
  });

  it('of node ports are at the addresses that accept them', async () => {
    const world = new World();
    world.nodePortAddresses = ['192.168.7.7', '192.168.7.8'].map(address);
    await world.set('web', { max_connections: 3 });
    expect([await world.count('services-ipv4'), await world.count('nodeports')]).toEqual([3, 0]);
  });

  it('of a namespace have bounded room, and who gets none is named', async () => {
    const world = new World();
    const most = { max_connections: 10_000 };
    for (let i = 0; i < 20; i += 1) {
      await world.set(`s${i}`, most, { clusterIPs: [`10.96.1.${i}`] });
    }
    const reasons = [...world.services.values()].map((one) => world.limits.obstacleOf(one));
    expect(reasons.filter((one) => one !== undefined)).toEqual([
      'other Services, above all of its namespace, have all room for limits',
    ]);
    expect(Object.keys(await world.chains())).toHaveLength(19);
    await world.set('other', most, { namespace: 'shop' });
    expect(world.limits.obstacleOf(world.services.get('shop/other')!)).toBeUndefined();
  });

  it('of all namespaces have bounded room together, of which small ones get what they ask for', async () => {
    const world = new World();
    const most = { max_connections: 10_000 };
    const all = Array.from({ length: 5 * 19 }, (_, i) => [`s${i}`, `large-${i % 5}`] as const);
    for (const [name, namespace] of [...all, ['one', 'small'] as const]) {
      world.add(name, most, { namespace, clusterIPs: [`10.96.2.${world.services.size}`] });
    }
    world.limits.synced();
    await world.settled();
    const kept = new Map<string, number>();
    for (const one of world.services.values()) {
      if (world.limits.obstacleOf(one) === undefined) addCount(kept, one.namespace);
    }
    // Of 800,000 the small one takes 10,102, and each of the others a fifth of the rest.
    const large = [0, 1, 2, 3, 4].map((i) => [`large-${i}`, 15]);
    expect(Object.fromEntries(kept)).toEqual({ ...Object.fromEntries(large), small: 1 });
  });

  it('of the first proxy stay where a second one has no such Service, or one', async () => {
    const first = new World();
    await first.set('web', { max_connections: 3 });
    const [chains, { commits }] = [await first.chains(), first.kernel];
    const second = new World(first.kernel, true);
    second.limits.synced();
    await second.settled();
    await second.set('shop', { max_connections: 3 }, { clusterIPs: ['10.96.0.2'] });
    expect(await first.chains()).toEqual(chains);
    expect(first.kernel.commits).toBe(commits);
    const why = 'the first proxy of a node alone limits connections';
    expect(second.limits.obstacleOf(second.services.get('default/shop')!)).toBe(why);
  });

  it('leave the table of another program alone', async () => {
    const world = new World();
    const writer = new RecordWriter(nftOps);
    writer.write('tableAdd', { ...inTable, comment: 'of another' });
    await world.kernel.apply(writer.finish());
    await world.set('web', { max_connections: 3 });
    expect(await world.chains()).toEqual({});
    expect(world.lines).toEqual([
      'Connection limits unavailable: another program made table inet fairlead-limits',
    ]);
    expect(world.limits.obstacleOf(world.services.get('default/web')!)).toMatch(/another program/);
  });

  it('by settings hold for all Services and end with them, without a write before', async () => {
    const world = new World();
    world.limits.choose(none);
    await world.set('web', undefined);
    expect(world.kernel.writes).toBe(0);
    world.limits.choose({ ...none, clientConnections: 1000, namespaceShare: 10 });
    await world.settled();
    const ofNamespace = 'namespace-5000-1250-minute-1-default';
    const exempt = 'fib saddr type local return';
    const client = (key: string, set: string, nfproto: number): string =>
      `meta nfproto ${nfproto} update @${set} { ${key} } goto over-client_limit`;
    expect(await world.chains()).toEqual({
      client: [
        exempt,
        client('ip saddr', 'new-by-client-ipv4', 2),
        client('ip saddr . th sport & 30 ct count over 62', 'open-by-client-ipv4', 2),
        client('ip6 saddr', 'new-by-client-ipv6', 10),
        client('ip6 saddr . th sport & 30 ct count over 62', 'open-by-client-ipv6', 10),
      ],
      [ofNamespace]: [
        'jump client',
        'limit rate over 1250/minute burst 2500 packets goto over-namespace_limit',
        `update @open-${ofNamespace} { th sport & 254 ct count over 39 } goto over-namespace_limit`,
      ],
    });
    expect(await world.statement('open-by-client-ipv4')).toBe('');
    expect(await world.statement('new-by-client-ipv6')).toBe(
      'limit rate over 1000/second burst 1000 packets',
    );
    expect([await world.count('services-ipv4'), await world.count('nodeports')]).toEqual([1, 1]);
    await world.set('web', { max_connections: 3 });
    const [first] = (await world.chains())['bounded-limit-IPv4-3-0-0-0-default/web']!;
    expect(first).toBe(`jump ${ofNamespace}`);
    await world.set('web', undefined);
    const writes = world.kernel.commits;
    await world.settled();
    expect(world.kernel.commits).toBe(writes);
    world.limits.choose(none);
    await world.settled();
    expect(await world.tables()).toEqual([]);
  });

  it('by settings hold at each port of a range, but for those that other Services list', async () => {
    const world = new World();
    world.limits.choose({ ...none, clientConnections: 9 });
    const range = {
      ports: [{ ...web, port: 8080 }],
      portRange: { first: 8080, last: 9000 },
    };
    await world.set('media', undefined, range);
    expect((await world.chains(/^ports-/))['ports-8080-9000-any-namespace']).toEqual([
      'th dport >= 8080 th dport <= 9000 goto any-namespace',
    ]);
    expect(await world.count('services-ipv4')).toBe(2);
    const [exact, ranged] = (await world.chains(/^check$/)).check!.filter((one) =>
      one.includes('services-ipv4'),
    );
    expect(exact).toMatch('ip daddr . meta l4proto . th dport vmap');
    expect(ranged).toMatch('th dport & 0 vmap');
    await world.set('media', undefined, { ...range, portRange: undefined });
    expect(await world.chains(/^ports-/)).toEqual({});
    expect(await world.count('services-ipv4')).toBe(1);
  });

  it('are those of a process that has just begun, after any changes', async () => {
    const most = fc.constantFrom(undefined, 4, 10_000);
    const step = fc.record({ at: fc.nat(24), most, isGone: fc.boolean() });
    const bounds = { ...none, namespaceConnections: 100 };
    const text = async (world: World) => [
      await world.chains(),
      await world.count('services-ipv4'),
      await world.count('nodeports'),
      await world.sets(),
      [...world.services.values()].map((one) => world.limits.obstacleOf(one)),
    ];
    const steps = fc.array(step, { minLength: 30, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(steps, fc.boolean(), async (all, isBound) => {
        const world = new World();
        world.limits.choose(isBound ? bounds : none);
        world.limits.synced();
        for (const { at, isGone, most: max_connections } of all) {
          const key = `default/s${at}`;
          const limits = max_connections === undefined ? undefined : { max_connections };
          if (isGone) {
            for (const one of world.desired.values()) {
              if (one.servicePort.name === `s${at}`) world.desired.delete(one.key);
            }
            world.services.delete(key);
          } else world.add(`s${at}`, limits, { clusterIPs: [`10.96.3.${at}`], ports: [web] });
          world.limits.resolved(key);
          if (at % 6 === 0) await world.settled();
        }
        await world.settled();
        const fresh = new World();
        for (const [key, one] of world.services) fresh.services.set(key, one);
        for (const [key, one] of world.desired) fresh.desired.set(key, one);
        fresh.limits.choose(isBound ? bounds : none);
        fresh.limits.synced();
        await fresh.settled();
        expect(await text(world)).toEqual(await text(fresh));
      }),
      { numRuns: 5 },
    );
  });

  it('look at the Services that change alone', async () => {
    const world = new World();
    world.limits.choose({ ...none, namespaceConnections: 100 });
    for (let i = 0; i < 100; i += 1) world.add(`s${i}`, undefined, { ports: [web] });
    world.limits.synced();
    await world.settled();
    const [looked, has] = [new Set<string>(), world.desired.get.bind(world.desired)];
    world.desired.get = (key) => {
      looked.add(key);
      return has(key);
    };
    await world.clock.pass(10_000);
    looked.clear();
    await world.set('s7', { max_connections: 3 }, { ports: [web] });
    expect([...looked]).toEqual([[...world.desired.values()][7]!.key]);
  });

  it('by settings leave out exempt clients, and follow the size of connection tracking', async () => {
    const world = new World();
    const exemptClients = [parseCIDR('10.9.0.0/16')!];
    world.limits.choose({ ...none, clientShare: 1, exemptClients });
    await world.set('web', undefined);
    const chains = await world.chains();
    expect(chains.client?.[1]).toBe('meta nfproto 2 ip saddr 10.9.0.0/16 return');
    expect(chains['any-namespace']).toEqual(['jump client']);
    expect(chains.client?.[3]).toContain('ct count over 62');
    world.files['/proc/sys/net/netfilter/nf_conntrack_max'] = '40000';
    // It was looked at after 100 ms, for the change of the table, and `set` has let five seconds pass.
    await world.clock.pass(60_000 + 100 - 5000 - 1);
    expect(await world.chains()).toEqual(chains);
    await world.clock.pass(1);
    expect((await world.chains()).client?.[3]).toContain('ct count over 50');
    expect(world.limits.findings).toEqual([]);
    world.files['/proc/sys/net/netfilter/nf_conntrack_max'] = '0';
    expect(world.limits.findings).toMatchObject([
      { text: expect.stringContaining('no limit that could be shared') },
    ]);
  });

  it('by settings outlive a restart with the same ones, and no other', async () => {
    const first = new World();
    first.limits.choose({ ...none, namespaceConnections: 100 });
    await first.set('web', { max_connections: 3 });
    await first.limits.close();
    const commits = first.kernel.commits;
    const next = async (namespaceConnections: number): Promise<void> => {
      const world = new World(first.kernel);
      for (const [key, one] of first.services) world.services.set(key, one);
      for (const [key, one] of first.desired) world.desired.set(key, one);
      world.limits.choose({ ...none, namespaceConnections });
      await world.settled();
      await world.limits.close();
    };
    await next(100);
    // The lease alone.
    expect(first.kernel.commits).toBe(commits + 1);
    await next(200);
    expect(first.kernel.commits).toBe(commits + 2);
    expect(Object.keys(await first.chains()).sort()).toEqual([
      'bounded-limit-IPv4-3-0-0-0-default/web',
      'namespace-200-200-second-0-default',
    ]);
  });
});
