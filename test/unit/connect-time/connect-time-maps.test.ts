/** Maps that follow the rules, with little room, in a kernel in memory. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ConnectTimeMaps } from '../../../src/connect-time/family-maps.ts';
import { Admission } from '../../../src/connect-time/maps/admission.ts';
import type { ConnectTimeEvent } from '../../../src/connect-time/maps/events.ts';
import { objectsOf, sizeOf } from '../../../src/connect-time/maps/frontends.ts';
import {
  frontendKey,
  groupCount,
  groupSize,
  mapNames,
  packedGroup,
} from '../../../src/connect-time/maps/layout.ts';
import { type Room, standardRoom } from '../../../src/connect-time/maps/placement.ts';
import { poolIdBytes, poolIds } from '../../../src/connect-time/maps/pool-ids.ts';
import type { Environment } from '../../../src/modes/mode.ts';
import type { Forwarding } from '../../../src/state/types.ts';
import type { FamilyEvent } from '../../../src/sync/events.ts';
import { hex } from '../../fake/bpf.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/config.ts';
import { address, ready, resolveOne, service, slice } from '../state/build.ts';
import { quiet, ToyClock } from '../sync/double.ts';
import { testSettings } from '../sync/world.ts';

const nodeAddress = '192.168.0.1';
const environment: Environment = {
  serviceCIDRs: [],
  nodePortAddresses: 'all',
  connectTimeAddresses: [address(nodeAddress)],
};
const placement = {
  directory: '/bpf/fairlead',
  cgroup: '/cgroup',
  reach: 'all',
  excludes: false,
  /** A namespace may have half. */
  room: { frontends: 64, endpoints: 80 },
  secret: new Uint8Array(16).fill(7),
  leaseMs: 300_000,
} as const;
const setting = { config, reach: placement.reach, poolId: poolIds(placement.secret) };
const auditMs = 30_000;
const settings = { ...testSettings, audit: { checkMs: 5000, fullMs: auditMs, restFactor: 20 } };

let kernel: FakeKernel;
let clock: ToyClock;
let maps: ConnectTimeMaps;
let running: Promise<void>;
let events: ConnectTimeEvent[];
/** By `namespace/name`: the rules that are in force. */
let rules: Map<string, Forwarding>;

interface Life {
  readonly room?: Room;
  readonly kernel?: FakeKernel;
}

/** A process starts, and has the rules in force. */
async function start(life: Life = {}): Promise<void> {
  kernel = life.kernel ?? new FakeKernel();
  clock = new ToyClock();
  events = [];
  maps = new ConnectTimeMaps({
    ...{ config, environment, kernel, clock, settings },
    placement: { ...placement, room: life.room ?? placement.room },
    observer: (event) => events.push(event),
    rulesInStepAtMs: () => clock.now(),
  });
  running = maps.run();
  for (const one of rules.values()) maps.changed(undefined, one);
  maps.settled(environment);
  await quiet();
  maps.listed();
  await quiet();
}

async function end(): Promise<void> {
  const stopped = maps.stop();
  await clock.pass(5000);
  await stopped;
  await running;
}

beforeEach(async () => {
  rules = new Map();
  await start();
});
afterEach(end);

/** The rules of a Service are in force from now on. */
function change(key: string, next: Forwarding | undefined): void {
  const previous = rules.get(key);
  if (next === undefined) rules.delete(key);
  else rules.set(key, next);
  maps.changed(previous, next);
}

/** All that is in force was passed on. */
async function settle(): Promise<void> {
  maps.settled(environment);
  await quiet();
}

async function want(key: string, count: number, frontends?: number): Promise<void> {
  change(key, sized(key, count, frontends));
  await settle();
}

type OfKind<K> = Extract<ConnectTimeEvent, { kind: K }>;

function reported<K extends ConnectTimeEvent['kind']>(kind: K): OfKind<K>[] {
  return events.filter((event): event is OfKind<K> => event.kind === kind);
}

/** The events of this kind by the sync of the maps. */
function reportedOfMaps(kind: FamilyEvent['kind']): FamilyEvent[] {
  return reported('connect-time').flatMap(({ of }) => (of.kind === kind ? [of] : []));
}

function left(): Pick<OfKind<'left-to-rules'>, 'service' | 'isLeft'>[] {
  const reports = reported('left-to-rules').map(({ family: _, kind: __, ...one }) => one);
  events = [];
  return reports;
}

const numbers = new Map<string, number>();

/** Each Service has addresses of its own, which begin with this. */
function numberOf(key: string): number {
  const number = numbers.get(key) ?? numbers.size + 1;
  numbers.set(key, number);
  return number;
}

/** With a ClusterIP, `count` endpoints, and a number of external addresses. */
function sized(key: string, count: number, frontends = 0, first?: string): Forwarding {
  const [namespace, name] = key.split('/') as [string, string];
  const number = numberOf(key);
  const externalIPs = Array.from({ length: frontends }, (_, i) =>
    i === 0 && first !== undefined ? first : `198.${51 + (i >> 8)}.${number}.${i & 255}`,
  );
  const of = service({ namespace, name, clusterIPs: [`10.96.0.${number}`], externalIPs });
  const endpoints = Array.from({ length: count }, (_, i) => [`10.244.${number}.${i + 1}`, ready]);
  return resolveOne(of, [slice(Object.fromEntries(endpoints), { service: key, key: `${key}-1` })]);
}

function elements(): Record<'frontends4' | 'endpoints4', string[]> {
  const keys = (map: string) => [...kernel.bpf.maps.get(`${placement.directory}/${map}`)!.keys()];
  return { frontends4: keys('frontends4').sort(), endpoints4: keys('endpoints4').sort() };
}

/** The Services that are in the maps. */
function held(): string[] {
  const out = ['no room', 'refused'];
  return [...rules].flatMap(([key, one]) => (out.includes(maps.reasonOf(one) ?? '') ? [] : [key]));
}

describe('a Service that does not fit', () => {
  it('is handled by rules only, and no other Service is', async () => {
    await want('a/large', 50);
    await want('b/small', 3);
    expect(held()).toEqual(['b/small']);
    expect(elements().endpoints4).toHaveLength(1);
    expect(maps.describe(rules.get('a/large')!)).toEqual([]);
    expect(maps.describe(rules.get('b/small')!)).toHaveLength(1);
    expect(maps.use).toEqual({
      used: { frontends: 1, endpoints: 4 },
      limit: placement.room,
      left: 1,
    });
  });

  it('is reported once, and again when it is added to the maps', async () => {
    await want('a/large', 50);
    const size = { service: 'a/large', frontends: 1, endpoints: 52 };
    expect(left()).toEqual([{ ...size, isLeft: true }]);
    await want('b/small', 3);
    await want('a/large', 51);
    expect(left()).toEqual([]);
    await want('a/large', 10);
    expect(left()).toEqual([{ ...size, endpoints: 12, isLeft: false }]);
  });

  it('is added by the comparison after another Service is deleted', async () => {
    await want('a/zero', 36);
    await want('b/one', 32);
    await want('c/two', 15);
    await want('d/three', 3);
    expect(held()).toEqual(['a/zero', 'b/one', 'd/three']);
    change('b/one', undefined);
    await settle();
    expect(held()).toEqual(['a/zero', 'd/three']);
    await clock.pass(2 * auditMs);
    expect(held()).toEqual(['a/zero', 'c/two', 'd/three']);
    expect(elements().endpoints4).toHaveLength(9 + 4 + 1);
  });

  it('is tried again once when elements that left during its change have left', async () => {
    await want('a/zero', 36);
    await want('b/one', 32);
    await want('c/two', 15);
    await want('d/three', 3);
    change('d/three', undefined);
    change('c/two', sized('c/two', 14));
    await settle();
    expect(held()).toEqual(['a/zero', 'b/one']);
    change('b/one', undefined);
    await settle();
    expect(held()).toEqual(['a/zero']);
    await want('b/one', 32);
    change('b/one', undefined);
    change('c/two', sized('c/two', 13));
    await settle();
    expect(held()).toEqual(['a/zero', 'c/two']);
    expect(left()).toContainEqual(expect.objectContaining({ service: 'c/two', isLeft: false }));
  });

  it('is tried again until all that was leaving has left, in several batches', async () => {
    const release = kernel.hold();
    await want('a/zero', 36);
    change('a/zero', undefined);
    change('a/new', sized('a/new', 36));
    release();
    await settle();
    expect(held()).toEqual(['a/new']);
  });

  it('is not tried again once the maps are stopped', async () => {
    const { room } = placement;
    const admission = new Admission({ room, setting, desire: () => {} });
    const large = sized('a/large', 40);
    for (const one of [large, sized('c/large', 40)]) admission.changed(one, one);
    for (const key of ['b/1', 'b/2', 'b/3']) admission.changed(sized(key, 1), sized(key, 1));
    admission.changed(large, undefined);
    admission.settled(new Map());
    expect(admission.use.left).toBe(3);
    const stop = new AbortController();
    const pause = (): undefined => void stop.abort();
    admission.compared();
    await admission.retry(pause, stop.signal);
    expect(admission.use.left).toBe(2);
  });

  it('does not make node ports available at an address that is its own', async () => {
    const nodePortsAt = (): number =>
      elements().frontends4.filter((key) => key.endsWith('00000002')).length;
    expect(nodePortsAt()).toBe(1);
    change('a/large', sized('a/large', 50, 1, nodeAddress));
    await settle();
    expect(nodePortsAt()).toBe(0);
    await want('a/large', 1);
    expect(nodePortsAt()).toBe(1);
  });

  it('has its external frontends in the maps again before node ports are available there', async () => {
    change('a/large', sized('a/large', 50, 1, nodeAddress));
    await settle();
    const { port } = sized('a/large', 1).frontends[0]!;
    const own = hex(frontendKey(address(nodeAddress), port));
    const states = new Set<string>();
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async (ops) => {
      const result = await apply(ops);
      const { frontends4 } = elements();
      const isNodePortFound = frontends4.some((key) => key.endsWith('00000002'));
      states.add(`${frontends4.includes(own)} ${isNodePortFound}`);
      return result;
    };
    change('a/large', sized('a/large', 4, 1, nodeAddress));
    await settle();
    expect([...states]).toEqual(['true false', 'true true']);
  });
});

describe('a tenant', () => {
  it('cannot fill the maps with one Service, however large the maps are', async () => {
    await end();
    await start({ room: standardRoom });
    const most = 512 - 1; // The ClusterIP is one more.
    await want('a/web', 1, 100);
    await want('b/web', 1, 3);
    for (const [frontends, isIn] of [
      [most, true],
      [most + 1, false],
      [most, true],
      [most + 1, false],
      [400, true],
    ] as const) {
      await want('a/web', 1, frontends);
      expect([frontends, held().includes('a/web')]).toEqual([frontends, isIn]);
      expect(elements()).toEqual(expected());
    }
    expect(held()).toContain('b/web');
  });

  it.each([
    ['endpoints', 4, 1, 10],
    ['frontends', 1, 4, 6],
  ] as const)(
    'gets half of the map of %s with many Services, and leaves the rest to others',
    async (sort, endpoints, frontends, most) => {
      for (let i = 0; i < 100; i += 1) await want(`greedy/${i}`, endpoints, frontends);
      const first = Array.from({ length: most }, (_, i) => `greedy/${i}`);
      expect(held()).toEqual(first);
      expect(maps.use.used[sort]).toBeLessThanOrEqual(maps.use.limit[sort] / 2);
      expect(maps.reasonOf(rules.get('greedy/99')!)).toBe('no room');
      await want('modest/late', endpoints, frontends);
      expect(held()).toEqual([...first, 'modest/late']);
      expect(reportedOfMaps('failed')).toEqual([]);
      change('greedy/1', undefined);
      await settle();
      await clock.pass(2 * auditMs);
      expect(held()).toHaveLength(most + 1);
    },
  );
});

describe('a kernel without memory', () => {
  it('gets maps of half the size, and larger ones in later audits', async () => {
    for (const name of ['a', 'b', 'c', 'd']) await want(`${name}/web`, 2);
    kernel.bpf.elementsMax = 5;
    await want('e/web', 2);
    await clock.pass(5000);
    expect(reportedOfMaps('failed').length).toBeGreaterThan(0);
    expect(left().some(({ isLeft }) => isLeft)).toBe(true);
    expect(elements().frontends4.length).toBeLessThanOrEqual(5);
    expect(elements()).toEqual(expected());
    kernel.bpf.elementsMax = Number.POSITIVE_INFINITY;
    await clock.pass(5 * auditMs);
    expect(held()).toHaveLength(5);
    expect(elements()).toEqual(expected());
  });
});

describe('connect-time maps that follow the rules', () => {
  it.each([
    ['lacks an element', (map: Map<string, string>, key: string) => void map.delete(key)],
    [
      'detect an element of another program',
      (map: Map<string, string>, key: string) => void map.set(key.replace(/^../, 'ab'), '00'),
    ],
  ])('are repaired within seconds where the kernel %s', async (_, meddle) => {
    for (const key of ['a/web', 'b/web']) await want(key, 5, 2);
    for (const name of ['frontends4', 'endpoints4']) {
      events = [];
      const map = kernel.bpf.maps.get(`${placement.directory}/${name}`)!;
      meddle(map, [...map.keys()].at(-1)!);
      expect(elements()).not.toEqual(expected());
      await clock.pass(settings.audit.checkMs + 1000);
      expect(elements()).toEqual(expected());
      expect(reportedOfMaps('miscounted')).toMatchObject([
        { miscounts: [{ object: `bpf map ${placement.directory}/${name}` }] },
      ]);
      // A comparison is followed by a rest.
      await clock.pass(1000);
    }
  });

  it('delete a removed endpoint without waiting for a timer', async () => {
    await want('a/web', 3);
    const [before] = [...endpointValues()];
    change('a/web', sized('a/web', 1));
    await quiet();
    expect([...endpointValues()]).not.toEqual([before]);
    expect(reachedFrom('a/web')).toEqual([`10.244.${numberOf('a/web')}.1`]);
  });

  it('contain the last change of the rules when they are stopped just after it', async () => {
    await want('a/web', 1);
    const apply = kernel.apply.bind(kernel);
    const gate = Promise.withResolvers<void>();
    kernel.apply = async (ops) => {
      await gate.promise;
      return apply(ops);
    };
    change('a/web', sized('a/web', 2));
    await quiet();
    change('a/web', sized('a/web', 0));
    const stopped = maps.stop();
    await quiet();
    gate.resolve();
    await stopped;
    await running;
    expect(elements().endpoints4).toEqual([]);
    await start({ kernel });
  });

  it('stop where the kernel refuses everything', async () => {
    await want('a/web', 1);
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async () => {
      const failure = { op: undefined, entry: undefined, code: 'EIO', message: 'broken' };
      return { kind: 'failed', failures: [failure], partly: false };
    };
    change('a/web', sized('a/web', 2));
    await end();
    kernel.apply = apply;
    await start({ kernel });
    expect(elements()).toEqual(expected());
  });

  it('are written after a restart only where they differ', async () => {
    for (const key of ['a/web', 'b/web']) await want(key, 5, 2);
    await end();
    await start({ kernel });
    expect(reportedOfMaps('committed')).toEqual([]);
    await end();
    rules.delete('a/web');
    await start({ kernel });
    expect(elements()).toEqual(expected());
  });

  it('keep the state of an earlier process until the rules are in force', async () => {
    await want('a/web', 5);
    await end();
    const before = kernel.bpf.text();
    const later = new ConnectTimeMaps({
      ...{ config, environment, kernel, clock, placement, settings },
      observer: () => {},
      rulesInStepAtMs: () => undefined,
    });
    const run = later.run();
    later.changed(undefined, sized('a/web', 1));
    await clock.pass(60_000);
    expect(kernel.bpf.text()).toBe(before);
    await later.stop();
    await run;
    await start({ kernel });
  });
});

function* endpointValues(): Generator<string> {
  yield* kernel.bpf.maps.get(`${placement.directory}/endpoints4`)!.values();
}

const keys = ['a/1', 'a/2', 'a/3', 'b/1', 'b/2', 'c/1'] as const;
const deeds = fc.array(
  fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        key: fc.constantFrom(...keys),
        endpoints: fc.nat(24),
        frontends: fc.nat(20),
      }),
    },
    { weight: 3, arbitrary: fc.record({ gone: fc.constantFrom(...keys) }) },
    { weight: 4, arbitrary: fc.constantFrom('settle', 'refuse', 'audit', 'restart') },
  ),
  { maxLength: 40 },
);

/** The restart lets in others than were in the maps, which are full. */
const restartedFull: typeof deeds extends fc.Arbitrary<infer Deeds> ? Deeds : never = [
  { key: 'a/3', endpoints: 0, frontends: 0 },
  { key: 'a/1', endpoints: 0, frontends: 17 },
  { key: 'c/1', endpoints: 1, frontends: 14 },
  { key: 'a/3', endpoints: 1, frontends: 15 },
  'restart',
];

/** The map of frontends has exactly the room for them, but also an address of the node. */
const filled: typeof restartedFull = [
  { key: 'b/2', endpoints: 21, frontends: 10 },
  { key: 'a/2', endpoints: 10, frontends: 20 },
  'settle',
];

/** Frontends come and go while the map is full. */
const replacedFull: typeof restartedFull = [
  { key: 'a/3', endpoints: 21, frontends: 0 },
  { key: 'a/1', endpoints: 4, frontends: 4 },
  { key: 'b/1', endpoints: 12, frontends: 8 },
  { key: 'a/2', endpoints: 6, frontends: 6 },
  'settle',
  { key: 'a/1', endpoints: 20, frontends: 11 },
  { key: 'a/3', endpoints: 0, frontends: 6 },
  { key: 'b/2', endpoints: 0, frontends: 13 },
  'settle',
];

/** What is in force of Services that are in the maps. */
function expected(): ReturnType<typeof elements> {
  const all = { frontends4: [] as string[], endpoints4: [] as string[] };
  for (const key of held()) {
    for (const object of objectsOf(rules.get(key)!, setting)) {
      if (object.kind === 'frontend') all.frontends4.push(hex(object.key));
      else {
        for (let i = 0; i < groupCount(object.endpoints.length); i += 1) {
          const number = Buffer.alloc(8);
          number.writeUInt32LE(i);
          all.endpoints4.push(hex(object.pool) + hex(number));
        }
      }
    }
  }
  const node = elements().frontends4.filter((key) => key.endsWith('00000002'));
  return { frontends4: [...all.frontends4, ...node].sort(), endpoints4: all.endpoints4.sort() };
}

/** Where a connection to the Service's ClusterIP ends, as the programs choose; none: by rules. */
function reachedFrom(key: string): string[] {
  const inMemory = kernel.bpf.maps;
  const { address: at, port } = sized(key, 1).frontends[0]!;
  const { frontends, endpoints } = mapNames.IPv4;
  const path = `${placement.directory}/${frontends}`;
  const value = inMemory.get(path)?.get(hex(frontendKey(at, port)));
  if (value === undefined) return [];
  const pool = value.slice(0, 2 * poolIdBytes);
  const groups = [...inMemory.get(`${placement.directory}/${endpoints}`)!];
  return groups.flatMap(([id, group]) =>
    id.startsWith(pool)
      ? [[...packedGroup('IPv4', Buffer.from(group, 'hex')).subarray(0, 4)].join('.')]
      : [],
  );
}

describe('connect-time maps, after random changes', () => {
  it('contain each Service completely or not at all, and never exceed their capacity', () =>
    fc.assert(
      fc.asyncProperty(deeds, async (plot) => {
        await end();
        rules = new Map();
        await start();
        for (const deed of plot) {
          if (deed === 'refuse') kernel.failNext({ code: 'EIO' });
          else if (deed === 'audit') await clock.pass(2 * auditMs);
          else if (deed === 'restart') {
            await end();
            await start({ kernel });
          } else if (deed === 'settle') await settle();
          else if ('gone' in deed) {
            if (rules.has(deed.gone)) change(deed.gone, undefined);
            continue;
          } else {
            change(deed.key, sized(deed.key, deed.endpoints, deed.frontends));
            continue;
          }
          await settle();
          // A Service that was refused is tried again.
          await clock.pass(4 * auditMs);
          expect(elements()).toEqual(expected());
        }
        const isTroubled = plot.some((deed) => deed === 'refuse' || deed === 'restart');
        if (!isTroubled) expect(reportedOfMaps('failed')).toEqual([]);
      }),
      { numRuns: 60, examples: [[restartedFull], [filled], [replacedFull]] },
    ));

  it('have the number of elements that is counted', () => {
    for (const key of keys) {
      const forwarding = sized(key, 7, 3);
      const objects = objectsOf(forwarding, setting);
      const pools = objects.flatMap((one) => (one.kind === 'pool' ? [one.endpoints.length] : []));
      expect(sizeOf(forwarding, setting)).toEqual({
        frontends: objects.length - pools.length,
        endpoints: pools.reduce((sum, length) => sum + groupSize * groupCount(length), 0),
      });
    }
  });
});
