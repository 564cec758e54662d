/** Slots that follow the connections which a node has open. */
import { expect, it, onTestFinished } from 'vitest';
import { EndpointList } from '../../../src/net/endpoint-list.ts';
import { dealInSteps, slotsOfEach } from '../../../src/state/deal.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { Random } from '../../chaos/random.ts';
import { FakeConntrack, type FakeEntry } from '../../fake/conntrack.ts';
import { ToyClock } from '../sync/double.ts';
import { dns, reconcilerOf } from './build.ts';

const hosts = (count: number) =>
  Array.from({ length: count }, (_, i) => `10.244.${i >> 8}.${i & 255}`);
const lasting = (count: number, fields: Parameters<typeof dns>[1] = {}) =>
  dns(hosts(count), { protocol: 'TCP', ...fields });
const [toFirst, toSecond] = hosts(2).map((host) => ({ answeredBy: `${host}:5353` }));

class World {
  readonly clock = new ToyClock();
  readonly conntrack = new FakeConntrack();
  readonly moved: string[] = [];
  readonly #random = new Random(1);
  readonly #inForce = new Map<string, Forwarding>();
  #made = 0;
  readonly #reconciler = reconcilerOf(this, {
    moved: (service) => {
      this.moved.push(service);
      this.become(this.#inForce.get(service)!);
    },
  });

  constructor(...forwardings: Forwarding[]) {
    for (const one of forwardings) this.become(one);
    onTestFinished(() => {
      for (const one of this.#inForce.values()) this.#reconciler.changed(one, undefined);
      return this.#reconciler.stop();
    });
  }

  /** It comes into force with the slots that it has by now. */
  become(of: Forwarding, asked: 'least-connections' | 'random' = 'least-connections'): void {
    const { cluster, key, servicePort } = of;
    const service = `${servicePort.namespace}/${servicePort.name}`;
    const open = this.#reconciler.open(key);
    const input = { asked, weights: undefined, open, slotsMax: 8192, here: undefined };
    const deal = finish(dealInSteps({ ...input, canRemember: true }, { cluster, local: cluster }));
    const [previous, next] = [this.#inForce.get(service), { ...of, deal }];
    this.#inForce.set(service, next);
    this.#reconciler.changed(previous, next);
    this.#reconciler.settled({ nodePortAddresses: [] });
  }

  /** New connections to `ns/dns` draw among its slots, or go to one endpoint. */
  connect(count: number, fields: Partial<FakeEntry> = {}): void {
    const { deal, servicePort } = this.#inForce.get('ns/dns')!;
    for (let i = 0; i < count; i += 1) {
      this.#made += 1;
      const from = `172.${this.#made >> 16}.${(this.#made >> 8) & 255}.${this.#made & 255}:4000`;
      const answeredBy = deal!.cluster.text(this.#random.below(deal!.cluster.length));
      const { protocol } = servicePort;
      this.conntrack.add({ protocol, from, to: '10.96.0.10:53', answeredBy, ...fields });
    }
  }

  /** Connections that end within a second. */
  async connectShortly(seconds: number, each: number): Promise<void> {
    for (let i = 0; i < seconds; i += 1) {
      this.conntrack.expire();
      this.connect(each);
      await this.clock.pass(1000);
    }
  }

  get slots(): number[] {
    const { cluster, deal } = this.#inForce.get('ns/dns')!;
    return slotsOfEach(cluster, deal!.cluster);
  }
}

it.each(['TCP', 'UDP', 'SCTP'] as const)('%s is even soon after scaling', async (protocol) => {
  const world = new World(lasting(3, { protocol }));
  world.connect(300);
  world.become(lasting(6, { protocol }));
  for (let i = 0; i < 60; i += 1) {
    world.connect(10);
    await world.clock.pass(1000);
  }
  const of = (host: string) => world.conntrack.texts.filter((text) => text.includes(`${host}:`));
  const counts = hosts(6).map((host) => of(host).length);
  // At random, the most would be twice the fewest.
  expect(Math.max(...counts) / Math.min(...counts)).toBeLessThan(1.4);
});

it('an endpoint with many gets a tenth, and slots are even when these have ended', async () => {
  const world = new World(lasting(2));
  expect(world.slots).toEqual([128, 128]);
  world.connect(99, toFirst);
  await world.clock.pass(3000);
  expect(world.slots).toEqual([23, 233]);
  world.conntrack.expire();
  // What is left of their mean counts for as long.
  await world.clock.pass(24_000);
  expect(world.slots).toEqual([128, 128]);
  // Entries are read as long as a Service asks for it.
  world.become(lasting(2), 'random');
  await world.clock.pass(5000);
  const { length } = world.conntrack.dumps;
  await world.clock.pass(5000);
  expect(world.conntrack.dumps).toHaveLength(length);
});

it('slots of local endpoints that followed counts are dealt again once the pool has one', async () => {
  const world = new World(lasting(2));
  world.connect(99, toFirst);
  await world.clock.pass(3000);
  world.moved.length = 0;
  world.become(lasting(1));
  await world.clock.pass(3000);
  expect(world.moved).toEqual(['ns/dns']);
  // Nothing is left of what was counted before.
  world.conntrack.expire();
  world.become(lasting(2));
  await world.clock.pass(3000);
  expect(world.moved).toEqual(['ns/dns']);
});

it('connections do not count that are closed, untranslated, or to others', async () => {
  const world = new World(lasting(2));
  for (const tcpState of [7, 8]) world.connect(99, { tcpState, ...toFirst });
  world.connect(99, { to: toFirst!.answeredBy, ...toFirst });
  world.connect(99, { answeredBy: '10.96.0.10:53' });
  world.connect(99, { to: '10.96.0.11:53', ...toFirst });
  await world.clock.pass(3000);
  expect(world.moved).toEqual([]);
  world.connect(40, toFirst);
  await world.clock.pass(1000);
  // A quarter of 40 counts after a pass, and slots go half of the way: 11.5 and 6.5, with 4 more.
  expect(world.slots).toEqual([39, 217]);
});

it.each([
  // With four more of each, 1.5 square roots of what it should be: 10.69 of 50.
  [56, 36, 60_000, false],
  [57, 35, 60_000, true],
  // A tenth.
  [1095, 897, 60_000, false],
  [1098, 894, 60_000, true],
  // A quarter counts after the first pass.
  [35, 0, 1000, false],
  [36, 0, 1000, true],
])(
  '%i connections at one endpoint, %i at another: in %i ms slots move: %s',
  async (a, b, ms, moves) => {
    const world = new World(lasting(2));
    world.connect(a, toFirst);
    world.connect(b, toSecond);
    await world.clock.pass(ms);
    expect(world.moved.length > 0).toBe(moves);
  },
);

it('short connections move no slots by chance, and let them rest after long ones', async () => {
  const world = new World(lasting(6));
  await world.connectShortly(100, 10);
  await world.connectShortly(100, 100);
  expect(world.moved).toEqual([]);
  world.connect(2000, toFirst);
  await world.clock.pass(9000);
  await world.connectShortly(60, 600);
  for (const count of world.slots) expect(Math.abs(count - 256 / 6)).toBeLessThan(16);
  const { length } = world.moved;
  await world.connectShortly(60, 600);
  expect(world.moved.length - length).toBeLessThan(12);
});

it('about 1,024 slots of frontends move after a pass, of each Service in its turn', async () => {
  const names = Array.from({ length: 10 }, (_, i) => `s${i}`);
  const of = (name: string, i: number) =>
    lasting(2, { name, clusterIPs: [`10.96.1.${i}`], externalIPs: [`203.0.113.${i}`] });
  const world = new World(lasting(2), ...names.map(of));
  for (const i of names.keys()) world.connect(99, { to: `10.96.1.${i}:53`, ...toFirst });
  await world.clock.pass(1000);
  expect(world.moved).toHaveLength(2);
  await world.clock.pass(4000);
  expect([...new Set(world.moved)].sort()).toEqual(names.map((name) => `ns/${name}`));
});

it.each([
  [1024, 1, []],
  [1023, 1, ['ns/dns']],
  [1024, 0, ['ns/dns']],
])(
  '1,024 endpoints that have connections are compared after a pass, or those of one Service: of %i with %i',
  async (count, connections, moved) => {
    const large = lasting(count, { name: 'large', clusterIPs: ['10.96.1.1'] });
    const world = new World(large, lasting(2));
    world.connect(connections, { to: '10.96.1.1:53', ...toFirst });
    world.connect(99, toFirst);
    await world.clock.pass(1000);
    expect(world.moved).toEqual(moved);
    await world.clock.pass(1000);
    expect(new Set(world.moved)).toEqual(new Set(['ns/dns']));
  },
);

it('connections count for one of two endpoints that have the same address', async () => {
  const runs = [5353, 5354].map((target) => lasting(1, { target }).cluster.latin1);
  const world = new World({ ...lasting(2), cluster: EndpointList.ofRuns('IPv4', runs) });
  world.connect(99, { answeredBy: `${hosts(1)[0]}:5354` });
  await world.clock.pass(3000);
  expect(world.slots).toEqual([233, 23]);
});

it('connections count for an endpoint at whichever port of a range', async () => {
  const world = new World(lasting(2, { portRange: { first: 53, last: 99 }, target: 53 }));
  for (let port = 53; port < 99; port += 1) {
    world.connect(2, { to: `10.96.0.10:${port}`, answeredBy: `${hosts(1)[0]}:${port}` });
  }
  await world.clock.pass(9000);
  expect(world.slots).toEqual([23, 233]);
});
