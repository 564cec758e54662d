/** Connections of Services that limit their age. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { ConnectionAges } from '../../../src/conntrack/ages.ts';
import type { ConntrackEvent } from '../../../src/conntrack/events.ts';
import type { ConntrackReconciler } from '../../../src/conntrack/reconciler.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import { Random } from '../../chaos/random.ts';
import { FakeConntrack, type FakeEntry, packedEntries } from '../../fake/conntrack.ts';
import { ToyClock } from '../sync/double.ts';
import { dns, nodeAddress, reconcilerOf } from './build.ts';

const minuteMs = 60_000;
const maxAgeMs = 4 * minuteMs;

class RandomClock extends ToyClock {
  readonly #random = new Random(1);

  override random(): number {
    return this.#random.next();
  }
}

function hosts(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `10.244.0.${i + 1}`);
}

/** `ms`: 0 = without an age. */
function aged(endpoints: number, ms = maxAgeMs): Forwarding {
  const endings = ms === 0 ? undefined : { maxAgeMs: ms };
  const ports = { protocol: 'TCP', nodePort: 30_000 } as const;
  return dns(hosts(endpoints), { ...ports, endings, type: 'NodePort' });
}

interface Ended {
  readonly atMs: number;
  readonly texts: readonly string[];
}

class World {
  readonly clock = new RandomClock();
  readonly conntrack = new FakeConntrack();
  readonly ended: Ended[] = [];
  /** Called with the number of connections that end. */
  onEnd: (count: number) => void = () => {};
  readonly #reconciler: ConntrackReconciler;
  #inForce: Forwarding | undefined;

  constructor(endsConnections = true) {
    this.#reconciler = reconcilerOf(this, {
      observer: (event) => this.#observe(event),
      endsConnections,
    });
    onTestFinished(() => this.#reconciler.stop());
  }

  #observe(event: ConntrackEvent): void {
    if (event.kind !== 'reconciled' || event.deleted.length === 0) return;
    const { deleted } = event;
    const texts = Array.from({ length: deleted.length }, (_, i) => deleted.text(i));
    this.ended.push({ atMs: this.clock.now(), texts });
    this.onEnd(deleted.length);
  }

  become(next: Forwarding): void {
    this.#reconciler.changed(this.#inForce, next);
    this.#inForce = next;
    this.#reconciler.settled({ nodePortAddresses: [] });
  }

  get endedCount(): number {
    return this.ended.reduce((sum, { texts }) => sum + texts.length, 0);
  }
}

/** The connection number `n` to one of some endpoints. */
function connection(n: number, endpoints: number, more: Partial<FakeEntry> = {}): FakeEntry {
  const answeredBy = `10.244.0.${(n % endpoints) + 1}:5353`;
  const from = `172.16.${(n >> 8) & 0xff}.${n & 0xff}:${4000 + (n >> 16)}`;
  return { protocol: 'TCP', from, to: '10.96.0.10:53', answeredBy, ...more };
}

function connections(count: number, endpoints: number): FakeEntry[] {
  return Array.from({ length: count }, (_, n) => connection(n, endpoints));
}

it('after scaling from 3 to 6 endpoints, connections are within 10 % of even in five minutes', async () => {
  const world = new World();
  const { clock, conntrack } = world;
  let [next, endpoints] = [600, 3];
  world.onEnd = (count) => {
    for (let i = 0; i < count; i += 1) conntrack.add(connection(next + i, endpoints));
    next += count;
  };
  conntrack.add(...connections(next, 3));
  world.become(aged(3));
  await clock.pass(10 * minuteMs);
  endpoints = 6;
  world.become(aged(6));
  const before = world.ended.length;
  await clock.pass(5 * minuteMs);
  const counts = hosts(6).map(
    (host) => conntrack.texts.filter((text) => text.includes(`reply ${host}:`)).length,
  );
  for (const count of counts) expect(Math.abs(count - 100)).toBeLessThanOrEqual(10);
  // At most a fiftieth of them in a second.
  const sizes = world.ended.slice(before).map(({ texts }) => texts.length);
  expect(Math.max(...sizes)).toBe(12);
  const times = world.ended.map(({ atMs }) => atMs);
  for (let i = 1; i < times.length; i += 1) {
    expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(1000);
  }
});

describe('a connection', () => {
  it('ends when it has its age, a tenth more or less', async () => {
    const world = new World();
    world.become(aged(1));
    await world.clock.pass(minuteMs);
    world.conntrack.add(...connections(40, 1));
    await world.clock.pass(0.5 * maxAgeMs);
    // Another endpoint makes none older.
    world.become(aged(2));
    await world.clock.pass(0.39 * maxAgeMs);
    expect(world.endedCount).toBe(0);
    // One in a second, and those of the last seconds have to wait.
    await world.clock.pass((1.1 + 2 / 40 - 0.89) * maxAgeMs + 5000);
    expect(world.endedCount).toBe(40);
    expect(world.ended.length).toBeGreaterThan(5);
    const { length } = world.conntrack.dumps;
    await world.clock.pass(minuteMs);
    // Each of ten passes reads the entries of two frontends.
    expect(world.conntrack.dumps).toHaveLength(length + 20);
  });

  it('that is there at the start counts as old as any, and so when the age changes', async () => {
    const world = new World();
    world.conntrack.add(...connections(200, 1));
    world.become(aged(1));
    await world.clock.pass(maxAgeMs / 2);
    expect(world.endedCount).toBeGreaterThan(60);
    expect(world.endedCount).toBeLessThan(140);
    await world.clock.pass(maxAgeMs * (0.5 + 2 / 40));
    expect(world.endedCount).toBe(200);
    world.conntrack.add(...connections(200, 1));
    world.become(aged(1, 24 * 60 * minuteMs));
    await world.clock.pass(10 * minuteMs);
    world.become(aged(1));
    await world.clock.pass(maxAgeMs * (1 + 2 / 40));
    expect(world.endedCount).toBe(400);
  });

  it('stays if it is of another Service or protocol, not answered, not translated or closed', async () => {
    const world = new World();
    const stay: readonly Partial<FakeEntry>[] = [
      { to: '10.96.0.11:53' },
      { to: '10.96.0.10:54' },
      { protocol: 'UDP' },
      { answered: false },
      { answeredBy: '10.96.0.10:53' },
      { tcpState: 7 },
      { tcpState: 8 },
      { zone: 1 },
      { to: `${nodeAddress}:30000` },
    ];
    const entries = stay.map((more, n) => connection(n, 1, more));
    world.conntrack.add(...entries, connection(99, 1));
    world.become(aged(1));
    await world.clock.pass(2 * maxAgeMs);
    expect(world.ended.flatMap(({ texts }) => texts)).toEqual([
      'TCP 172.16.0.99:4000 > 10.96.0.10:53, reply 10.244.0.1:5353 > 172.16.0.99:4000',
    ]);
    expect(world.conntrack.texts).toHaveLength(stay.length);
  });

  it('stays, and nothing is read, where no Service asks for it, or entries end none', async () => {
    for (const world of [new World(), new World(false)]) {
      world.conntrack.add(connection(1, 1));
      world.become(aged(1));
      await world.clock.pass(1000);
      const isAsked = world.conntrack.dumps.some(({ state }) => state === 'any');
      expect(isAsked).toBe(false);
      world.become(aged(1, 0));
      await world.clock.pass(10_000);
      const { length } = world.conntrack.dumps;
      await world.clock.pass(2 * maxAgeMs);
      expect(world.conntrack.dumps).toHaveLength(length);
      expect(world.conntrack.texts).toHaveLength(1);
    }
  });

  it('keeps its age when a reading fails', async () => {
    const world = new World();
    world.become(aged(1));
    await world.clock.pass(minuteMs);
    world.conntrack.add(connection(1, 1));
    await world.clock.pass(maxAgeMs / 2);
    world.conntrack.before = () => Promise.reject(new Error('busy'));
    await world.clock.pass(minuteMs);
    world.conntrack.before = () => {};
    await world.clock.pass(maxAgeMs * (1.1 + 2 / 40 - 0.5) - minuteMs + 32_000);
    expect(world.endedCount).toBe(1);
  });
});

it('passes are a 40th of the least age apart, at least a second and at most a minute', () => {
  const ages = new ConnectionAges(new ToyClock());
  const pauses = [10_000, maxAgeMs, 24 * 60 * minuteMs].map((ms) => {
    ages.changed(undefined, aged(1, ms));
    const { pauseMs } = ages;
    ages.changed(aged(1, ms), undefined);
    return pauseMs;
  });
  expect(pauses).toEqual([1000, 6000, minuteMs]);
});

it('at most 16,384 connections of a namespace are followed, and 65,536 of all', () => {
  /** Whether one more is, of the last namespace. */
  const followed = (others: number, namespaces = 1): boolean => {
    let nowMs = 0;
    const ages = new ConnectionAges({ now: () => nowMs, random: () => 0.5 });
    const of = (namespace: string, key: string): Forwarding => {
      const all = aged(1);
      return { ...all, key, servicePort: { ...all.servicePort, namespace } };
    };
    const many = Array.from({ length: namespaces }, (_, n) => of(`ns-${n}`, `ns-${n}/many`));
    const one = of(namespaces === 1 ? 'ns-0' : 'another', 'one');
    for (const all of [...many, one]) ages.changed(undefined, all);
    const entries = packedEntries('IPv4', connections(others + 1, 1));
    const pass = (): number[] => {
      ages.begin();
      const due = ages.due(entries, (index) => (index < others ? many[index % namespaces]! : one));
      ages.end();
      return Array.from({ length: due.length }, (_, i) => due.id(i));
    };
    expect(pass()).toEqual([]);
    nowMs = 2 * maxAgeMs;
    return pass().includes(entries.id(others));
  };
  expect(followed(16_383)).toBe(true);
  expect(followed(16_384)).toBe(false);
  expect(followed(65_535, 4)).toBe(true);
  expect(followed(65_536, 4)).toBe(false);
});
