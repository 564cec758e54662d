/** Maps with little room, in a kernel in memory. */
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { ConnectTimeBackend } from '../../../../src/modes/connect-time/backend.ts';
import { BoundedPlanner } from '../../../../src/modes/connect-time/bounded-planner.ts';
import { objectsOf, sizeOf } from '../../../../src/modes/connect-time/frontends.ts';
import {
  frontendKey,
  groupCount,
  groupSize,
  mapNames,
  packedGroup,
} from '../../../../src/modes/connect-time/layout.ts';
import { type Room, standardRoom } from '../../../../src/modes/connect-time/placement.ts';
import { poolIdBytes, poolIds } from '../../../../src/modes/connect-time/pool-ids.ts';
import { ofServiceMax } from '../../../../src/modes/connect-time/shares.ts';
import { type Drift, type Environment, noPause } from '../../../../src/modes/mode.ts';
import type { Forwarding } from '../../../../src/state/types.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { address, ready, resolveOne, service, slice } from '../../state/build.ts';
import { config } from '../config.ts';

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
  room: { frontends: 32, endpoints: 40 },
  secret: new Uint8Array(16).fill(7),
  leaseMs: 300_000,
} as const;
const setting = { config, reach: placement.reach, poolId: poolIds(placement.secret) };

let kernel: FakeKernel;
let planner: BoundedPlanner;
/** By `namespace/name`. */
let inForce: Map<string, Forwarding>;

function newPlanner(room: Room = placement.room): BoundedPlanner {
  const where = { ...placement, room };
  const backend = new ConnectTimeBackend(config, where);
  return new BoundedPlanner({ backend, environment, placement: where, setting });
}

beforeEach(async () => {
  kernel = new FakeKernel();
  planner = newPlanner();
  inForce = new Map();
  await recover();
});

/** As `FamilySync` does at the start and after a failure. */
async function recover(): Promise<string> {
  const found = await planner.observe(kernel, noPause);
  await planner.reset(inForce.values(), noPause);
  return repair(found);
}

async function audit(): Promise<string> {
  return repair(await planner.observe(kernel, noPause));
}

async function repair(found: Awaited<ReturnType<BoundedPlanner['observe']>>): Promise<string> {
  const drifts: Drift[] = [await planner.repairFixed(found, noPause)];
  for (const one of inForce.values()) drifts.push(planner.repair(found, one));
  drifts.push(await planner.prune(found, noPause));
  const outcome = apply();
  const isRight = drifts.every((one) => one.missing + one.wrong + one.unwanted === 0);
  return isRight ? outcome : `drift, ${outcome}`;
}

/** Takes batches as long as there are any. */
function apply(): string {
  const outcomes = new Set<string>();
  do {
    const batch = planner.take();
    if (batch === undefined) continue;
    const result = kernel.applyNow(batch.ops);
    if (result.kind === 'applied') batch.committed?.(result);
    else outcomes.add(`refused, blameless: ${batch.refused?.(result.failures)}`);
    if (result.kind === 'failed') break;
  } while (planner.unfinished);
  return [...outcomes].join() || 'applied';
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

const numbers = new Map<string, number>();

/** Each Service has addresses of its own, which begin with this. */
function numberOf(key: string): number {
  const number = numbers.get(key) ?? numbers.size + 1;
  numbers.set(key, number);
  return number;
}

/** With a ClusterIP, `count` endpoints, and so many external addresses. */
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

function change(key: string, next: Forwarding | undefined): void {
  if (next === undefined && !inForce.has(key)) return;
  planner.change(inForce.get(key), next);
  if (next === undefined) inForce.delete(key);
  else inForce.set(key, next);
}

function want(key: string, count: number, frontends?: number): string {
  change(key, sized(key, count, frontends));
  return apply();
}

function elements(): Record<'frontends4' | 'endpoints4', string[]> {
  const keys = (map: string) => [...kernel.bpf.maps.get(`${placement.directory}/${map}`)!.keys()];
  return { frontends4: keys('frontends4').sort(), endpoints4: keys('endpoints4').sort() };
}

function held(): string[] {
  return [...inForce.keys()].filter((key) => planner.holds(key));
}

describe('a Service that does not fit', () => {
  it('is left to the rules, and no other is', () => {
    expect(want('a/large', 30)).toBe('applied');
    expect(want('b/small', 3)).toBe('applied');
    expect(held()).toEqual(['b/small']);
    expect(elements().endpoints4).toHaveLength(1);
    expect(planner.describe(inForce.get('a/large')!)).toEqual([]);
  });

  it('is told once, and when it comes in again', () => {
    want('a/large', 30);
    const size = { service: 'a/large', frontends: 1, endpoints: 32 };
    expect(planner.takeLeft()).toEqual([{ ...size, isLeft: true, isContested: false }]);
    want('b/small', 3);
    want('a/large', 31);
    expect(planner.takeLeft()).toEqual([]);
    want('a/large', 10);
    expect(planner.takeLeft()).toEqual([
      { ...size, endpoints: 12, isLeft: false, isContested: false },
    ]);
  });

  it('leaves no part of it behind when it has grown', () => {
    want('a/large', 20);
    expect(elements().endpoints4).toHaveLength(5);
    want('a/large', 21);
    expect(elements()).toEqual({ frontends4: [expect.any(String)], endpoints4: [] });
  });

  it('comes in when another has gone', () => {
    want('a/one', 12);
    want('b/two', 15);
    want('c/three', 3);
    expect(held()).toEqual(['a/one', 'c/three']);
    change('a/one', undefined);
    expect(apply()).toBe('applied');
    expect(held()).toEqual(['b/two', 'c/three']);
    expect(elements().endpoints4).toHaveLength(5);
  });

  it('does not let node ports be found at an address that is its own', () => {
    const nodePortsAt = (): number =>
      elements().frontends4.filter((key) => key.endsWith('00000002')).length;
    expect(nodePortsAt()).toBe(1);
    change('a/large', sized('a/large', 30, 1, nodeAddress));
    expect(apply()).toBe('applied');
    expect(nodePortsAt()).toBe(0);
    want('a/large', 1);
    expect(nodePortsAt()).toBe(1);
  });
});

it('keeps room for others, however many Services one namespace has', () => {
  for (let i = 0; i < 100; i += 1) want(`greedy/${i}`, 4);
  expect(elements().endpoints4).toHaveLength(5);
  for (let i = 0; i < 100; i += 1) want(`second/${i}`, 4);
  expect(want('modest/web', 4)).toBe('applied');
  expect(planner.holds('modest/web')).toBe(true);
});

it('counts frontends as it counts endpoints', () => {
  want('greedy/web', 1, 20);
  want('modest/web', 1, 3);
  expect(held()).toEqual(['modest/web']);
});

it('leaves a Service of very many frontends out, which would hold the event loop', async () => {
  kernel = new FakeKernel();
  planner = newPlanner(standardRoom);
  await recover();
  const most = ofServiceMax.frontends - 1; // The ClusterIP is one more.
  expect(want('a/web', 1, 100)).toBe('applied');
  expect(want('b/web', 1, 3)).toBe('applied');
  for (const [frontends, isIn] of [
    [most, true],
    [most + 1, false],
    [most, false],
    [400, true],
  ] as const) {
    expect(want('a/web', 1, frontends)).toBe('applied');
    expect([frontends, planner.holds('a/web')]).toEqual([frontends, isIn]);
    expect(elements()).toEqual(expected());
  }
  expect(held()).toEqual(['a/web', 'b/web']);
});

describe('a kernel without memory', () => {
  it('is asked for half, and for more by the audits that follow', async () => {
    for (const name of ['a', 'b', 'c', 'd']) want(`${name}/web`, 2);
    kernel.bpf.elementsMax = 5;
    expect(want('e/web', 2)).toBe('refused, blameless: true');
    expect(await recover()).toMatch(/applied$/);
    const left = planner.takeLeft().filter(({ isLeft }) => isLeft);
    expect(left.length).toBeGreaterThan(0);
    expect(elements().frontends4.length).toBeLessThanOrEqual(5);
    kernel.bpf.elementsMax = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 4; i += 1) expect(await audit()).toBe('applied');
    expect(held()).toHaveLength(5);
  });
});

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
    { weight: 4, arbitrary: fc.constantFrom('apply', 'lose', 'audit', 'restart') },
  ),
  { maxLength: 40 },
);

/** The restart lets in others than were in the maps, which are full. */
const restartedFull: typeof deeds extends fc.Arbitrary<infer Deeds> ? Deeds : never = [
  { key: 'a/3', endpoints: 0, frontends: 0 },
  { key: 'a/1', endpoints: 0, frontends: 7 },
  { key: 'c/1', endpoints: 1, frontends: 8 },
  { key: 'a/3', endpoints: 1, frontends: 15 },
  'restart',
];

/** What is in force of Services that are in the maps. */
function expected(): ReturnType<typeof elements> {
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  const all = { frontends4: [] as string[], endpoints4: [] as string[] };
  for (const key of held()) {
    for (const object of objectsOf(inForce.get(key)!, setting)) {
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
  const maps = kernel.bpf.maps;
  const { address: at, port } = sized(key, 1).frontends[0]!;
  const { frontends, endpoints } = mapNames.IPv4;
  const value = maps.get(`${placement.directory}/${frontends}`)?.get(hex(frontendKey(at, port)));
  if (value === undefined) return [];
  const pool = value.slice(0, 2 * poolIdBytes);
  const groups = [...maps.get(`${placement.directory}/${endpoints}`)!];
  return groups.flatMap(([id, group]) =>
    id.startsWith(pool)
      ? [[...packedGroup('IPv4', Buffer.from(group, 'hex')).subarray(0, 4)].join('.')]
      : [],
  );
}

describe('two pools of one id', () => {
  beforeEach(async () => {
    // Whatever the Service, as if all names had one digest.
    const one = new Uint8Array(poolIdBytes).fill(9);
    const backend = new ConnectTimeBackend(config, placement, () => one);
    planner = new BoundedPlanner({ backend, environment, placement, setting });
    await recover();
  });

  it('belong to the first, and the second is left to the rules', () => {
    want('a/first', 1);
    want('b/second', 1);
    expect(reachedFrom('a/first')).toEqual([`10.244.${numberOf('a/first')}.1`]);
    expect(reachedFrom('b/second')).toEqual([]);
    expect(planner.reasonOf(inForce.get('b/second')!)).toBe('pool id');
    expect(planner.takeLeft()).toEqual([
      { service: 'b/second', isLeft: true, isContested: true, frontends: 1, endpoints: 4 },
    ]);
  });

  it('stay with the first when endpoints of both change', () => {
    want('a/first', 1);
    want('b/second', 1);
    want('b/second', 2);
    want('a/first', 2);
    expect(reachedFrom('a/first')).toEqual([`10.244.${numberOf('a/first')}.1`]);
    expect(reachedFrom('b/second')).toEqual([]);
  });

  it('lead to the second only after a batch has removed the first', () => {
    want('a/first', 1);
    want('b/second', 1);
    change('a/first', undefined);
    const removing = planner.take()!;
    const result = kernel.applyNow(removing.ops);
    if (result.kind !== 'applied') throw new Error('refused');
    expect([reachedFrom('a/first'), reachedFrom('b/second')]).toEqual([[], []]);
    change('b/second', sized('b/second', 2));
    expect(planner.holds('b/second')).toBe(false);
    removing.committed?.(result);
    expect(apply()).toBe('applied');
    expect(reachedFrom('a/first')).toEqual([]);
    expect(reachedFrom('b/second')).toEqual([`10.244.${numberOf('b/second')}.1`]);
    expect(planner.reasonOf(inForce.get('b/second')!)).toBeUndefined();
  });

  it('keep their owner after a recovery and an audit', async () => {
    want('a/first', 1);
    want('b/second', 1);
    expect(await recover()).toMatch(/applied$/);
    expect(await audit()).toMatch(/applied$/);
    expect(reachedFrom('a/first')).toEqual([`10.244.${numberOf('a/first')}.1`]);
    expect(reachedFrom('b/second')).toEqual([]);
  });
});

describe('in any life', () => {
  it('has all of a Service or nothing, and never more than there is room for', () =>
    fc.assert(
      fc.asyncProperty(deeds, async (plot) => {
        kernel = new FakeKernel();
        planner = newPlanner();
        inForce = new Map();
        await recover();
        let before = new Map(inForce);
        for (const deed of plot) {
          if (deed === 'lose') {
            planner.take();
            inForce = new Map(before);
            await planner.reset(inForce.values(), noPause);
          } else if (deed === 'audit') {
            expect(apply()).toBe('applied');
            expect(await audit()).toBe('applied');
          } else if (deed === 'restart') {
            expect(apply()).toBe('applied');
            planner = newPlanner();
            // What the process before has left may have no room beside what is added first. Half
            // of it is tried then.
            let outcome = await recover();
            for (let tries = 1; tries < 4 && !outcome.endsWith('applied'); tries += 1) {
              outcome = await recover();
            }
            expect(outcome).toMatch(/applied$/);
          } else if (deed === 'apply') expect(apply()).toBe('applied');
          else if ('gone' in deed) {
            change(deed.gone, undefined);
            continue;
          } else {
            change(deed.key, sized(deed.key, deed.endpoints, deed.frontends));
            continue;
          }
          before = new Map(inForce);
          if (deed === 'lose') continue;
          expect(elements()).toEqual(expected());
        }
      }),
      { numRuns: 150, examples: [[restartedFull]] },
    ));

  it('counts what the maps hold', () => {
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
