/** Namespaces with more objects than the heap has room for. */
import { describe, expect, it } from 'vitest';
import { bytesOfService, bytesOfSlice, HeapGuard } from '../../../src/state/heap-guard.ts';
import { ClusterState } from '../../../src/state/store.ts';
import type { EndpointSlice, Service } from '../../../src/state/types.ts';
import { portsOf, ready, service, slice } from './build.ts';

const mebibyte = 1024 * 1024;
/** 80 % of the heap, less what an idle process takes, are 10 MiB. */
const heapBytesMax = (34 * mebibyte) / 0.8;
const roomBytes = 10 * mebibyte;

function large(namespace: string, name: string): Service {
  return service({ namespace, name, ports: portsOf(1000) });
}

const largeBytes = bytesOfService(large('tenant', 'web-00'));

class World {
  readonly state = new ClusterState();
  readonly reported: string[] = [];
  readonly guard: HeapGuard;

  constructor(bytesMax = heapBytesMax) {
    this.guard = new HeapGuard({
      state: this.state,
      heapBytesMax: bytesMax,
      leftOut: (key) => this.reported.push(key),
    });
  }

  set(...services: Service[]): string[] {
    return services.map((one) => this.guard.apply({ kind: 'service', service: one }));
  }

  setSlice(...slices: EndpointSlice[]): string[] {
    return slices.map((one) => this.guard.apply({ kind: 'slice', slice: one }));
  }

  gone(...keys: string[]): void {
    for (const key of keys) this.guard.apply({ kind: 'service-gone', key });
  }

  /** Names of the Services of a namespace that are there. */
  of(namespace: string): string[] {
    return [...this.state.serviceKeys()]
      .filter((key) => key.startsWith(`${namespace}/`))
      .map((key) => key.slice(namespace.length + 1))
      .sort();
  }
}

/** web-00, web-01, … */
function many(namespace: string, count: number, from = 0): Service[] {
  return Array.from({ length: count }, (_, i) =>
    large(namespace, `web-${String(i + from).padStart(2, '0')}`),
  );
}

const fitting = Math.floor(roomBytes / largeBytes);

describe('A namespace that holds most of the memory for objects', () => {
  it('keeps what it has, and gets nothing new', () => {
    const world = new World();
    const results = world.set(...many('tenant', fitting + 3));
    expect(results.filter((result) => result === 'changed')).toHaveLength(fitting);
    expect(results.slice(-3)).toEqual(['left out', 'left out', 'left out']);
    expect(world.of('tenant')).toHaveLength(fitting);
    expect(world.guard.leftOut.count).toBe(3);
    expect(world.guard.leftOut.namespaces(5)).toEqual([['tenant', 3]]);
    expect(world.reported).toEqual(
      [0, 1, 2].map((i) => `tenant/web-${String(fitting + i).padStart(2, '0')}`),
    );
    expect(world.guard.bytes).toEqual({ taken: fitting * largeBytes, max: roomBytes });
  });

  it('loses its newest Services to one of a smaller namespace, and their slices', () => {
    const world = new World();
    const slices = many('tenant', fitting).map(({ name }) => {
      const key = `tenant/${name}`;
      return slice({ '10.0.0.1': ready }, { key: `${key}-1`, service: key });
    });
    for (const [i, one] of many('tenant', fitting).entries()) {
      world.set(one);
      world.setSlice(slices[i]!);
    }
    const leftOut = world.guard.leftOut.count;
    const before = world.of('tenant');
    expect(world.set(large('victim', 'web'))).toEqual(['changed']);
    expect(world.of('victim')).toEqual(['web']);
    const after = world.of('tenant');
    expect(after).toEqual(before.slice(0, after.length));
    const dropped = before.slice(after.length);
    expect(dropped.length).toBeGreaterThan(0);
    for (const name of dropped) expect(world.state.slices(`tenant/${name}`)).toEqual([]);
    expect(world.guard.leftOut.count).toBe(leftOut + 2 * dropped.length);
    expect(world.guard.bytes.taken).toBeLessThanOrEqual(0.95 * roomBytes);
    // Not more than that needs.
    expect(world.guard.bytes.taken).toBeGreaterThan(0.95 * roomBytes - 2 * largeBytes);
  });

  it('gets changes of the Services that it has, and new slices of them', () => {
    const world = new World();
    world.set(...many('tenant', fitting + 1));
    const [first] = many('tenant', 1);
    expect(world.set({ ...first!, affinityTimeoutSeconds: 5 })).toEqual(['changed']);
    const endpoints = Object.fromEntries(manyIPs(8000).map((text) => [text, ready]));
    const own = slice(endpoints, { key: 'tenant/a', service: first!.key });
    const other = slice(endpoints, { key: 'tenant/b', service: `tenant/web-${fitting}` });
    const { length } = world.of('tenant');
    expect(world.setSlice(own)).toEqual(['changed']);
    expect(world.state.slices(first!.key)).toEqual([own]);
    expect(world.setSlice(own)).toEqual(['same']);
    expect(world.of('tenant').length).toBeLessThan(length);
    for (let i = 0; world.set(large('tenant', `more-${i}`))[0] !== 'left out'; i += 1);
    expect(world.setSlice(other)).toEqual(['left out']);
  });

  it('drops its newest ones when an old one grows', () => {
    const world = new World();
    world.set(...many('tenant', fitting));
    const [first] = many('tenant', 1);
    const grown = { ...first!, externalIPs: service({ externalIPs: manyIPs(400) }).externalIPs };
    for (let i = 0; world.reported.length === 0; i += 1) {
      world.set({ ...large('tenant', `web-${String(i).padStart(2, '0')}`), ports: portsOf(3000) });
    }
    expect(world.set(grown)).toEqual(['changed']);
    expect(world.of('tenant')).not.toContain(`web-${String(fitting - 1).padStart(2, '0')}`);
    expect(world.of('tenant')).toContain('web-00');
    expect(world.guard.bytes.taken).toBeLessThanOrEqual(roomBytes);
  });
});

function manyIPs(count: number): string[] {
  return Array.from({ length: count }, (_, i) => `192.${i >> 8}.0.${i & 255}`);
}

describe('What was left out', () => {
  const left = (world: World): number => world.guard.leftOut.count;

  it('is counted once however often it changes, and not after it is deleted', () => {
    const world = new World();
    const all = many('tenant', fitting + 2);
    world.set(...all, ...all.slice(-2));
    expect(left(world)).toBe(2);
    world.gone(all.at(-1)!.key);
    expect(left(world)).toBe(1);
    world.gone(all.at(-1)!.key);
    expect(left(world)).toBe(1);
    world.gone(all.at(-2)!.key);
    expect(world.guard.leftOut.namespaces(5)).toEqual([]);
  });

  it('is read again at 60 % of the heap, not before, and then counted again', () => {
    const world = new World();
    const all = many('tenant', fitting + 2);
    world.set(...all);
    const kept = Math.floor((0.75 * roomBytes) / largeBytes);
    world.gone(...all.slice(kept + 1, fitting).map(({ key }) => key));
    expect(world.guard.takeReading(0)).toBe(false);
    world.gone(all[kept]!.key);
    expect(world.guard.takeReading(0)).toBe(true);
    expect(left(world)).toBe(0);
    expect(world.guard.takeReading(1e9)).toBe(false);
    expect(world.set(...all.slice(-2))).toEqual(['changed', 'changed']);
  });

  it('is read again after a minute, and after twice as long each time, at most an hour', () => {
    const world = new World();
    world.set(...many('tenant', fitting + 1));
    world.gone(...world.of('tenant').map((name) => `tenant/${name}`));
    const at: number[] = [];
    for (let seconds = 0; seconds < 4 * 3600; seconds += 10) {
      // It does not fit whenever it is read.
      world.guard.apply({ kind: 'service', service: huge });
      if (world.guard.takeReading(seconds * 1000)) at.push(seconds);
    }
    expect(at.map((seconds, i) => seconds - (at[i - 1] ?? 0))).toEqual([
      0, 60, 120, 240, 480, 960, 1920, 3600, 3600,
    ]);
  });

  const huge = service({ namespace: 'tenant', name: 'huge', ports: portsOf(200_000) });
});

describe('The first list of millions of valid Services', () => {
  const tiny = (namespace: string, i: number): Service => service({ namespace, name: `s-${i}` });

  it('of one namespace leaves the same ones out on all nodes, and others are served', () => {
    const [a, b] = [new World(), new World()];
    for (const world of [a, b]) {
      for (let i = 0; i < 20_000; i += 1) world.set(tiny('hostile', i));
      expect(world.set(large('victim', 'web'))).toEqual(['changed']);
      for (let i = 20_000; i < 40_000; i += 1) world.set(tiny('hostile', i));
    }
    expect(a.of('hostile')).toEqual(b.of('hostile'));
    expect(a.of('victim')).toEqual(['web']);
    expect(a.guard.bytes.taken).toBeLessThanOrEqual(roomBytes);
    expect(a.guard.leftOut.count).toBe(40_000 - a.of('hostile').length);
  });

  it('of as many namespaces ends when there is no more room', () => {
    const world = new World();
    for (let i = 0; i < 40_000; i += 1) world.set(tiny(`n-${i}`, i));
    expect(world.guard.bytes.taken).toBeLessThanOrEqual(roomBytes);
    expect(world.guard.bytes.taken).toBeGreaterThan(0.9 * roomBytes);
    expect(world.guard.leftOut.namespaces(2000)).toHaveLength(1000);
    expect(world.guard.leftOut.count).toBe(40_000 - world.state.serviceCount);
  });

  it('drops each namespace to one level, and none below it', () => {
    const world = new World();
    const third = Math.floor(fitting / 3);
    world.set(...many('a', third), ...many('b', third), ...many('c', third));
    world.set(large('d', 'one'));
    while (world.of('d').length < 4) world.set(large('d', `more-${world.of('d').length}`));
    const sizes = ['a', 'b', 'c'].map((namespace) => world.of(namespace).length);
    expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(2);
    expect(Math.min(...sizes)).toBeGreaterThan(4);
  });
});

describe('A heap that is fuller than objects were taken to need', () => {
  const nowMs = 1e6;
  const filled = (): World => {
    const world = new World();
    world.set(...many('tenant', fitting), ...many('victim', 2));
    return world;
  };

  it('gets down to 70 %, by what its largest namespace has', () => {
    const world = filled();
    const before = world.guard.bytes.taken;
    world.guard.measured(0.79 * heapBytesMax, nowMs);
    expect(world.guard.bytes.taken).toBe(before);
    world.guard.measured(0.9 * heapBytesMax, nowMs);
    expect(world.guard.bytes.max).toBeCloseTo((before * 0.7) / 0.9);
    expect(world.guard.bytes.taken).toBeLessThanOrEqual(world.guard.bytes.max);
    expect(world.of('victim')).toHaveLength(2);
  });

  it('waits for the effect, and does not take objects to blame for all of it', () => {
    const world = filled();
    world.guard.measured(heapBytesMax, nowMs);
    const { max } = world.guard.bytes;
    world.guard.measured(heapBytesMax, nowMs + 29_999);
    expect(world.guard.bytes.max).toBe(max);
    world.guard.measured(heapBytesMax, nowMs + 30_000);
    expect(world.guard.bytes.max).toBeLessThan(max);
    for (let i = 2; i < 10; i += 1) world.guard.measured(heapBytesMax, nowMs + i * 30_000);
    expect(world.guard.bytes.max).toBe(roomBytes / 2);
  });

  it('takes as much as before once less than 60 % is in use', () => {
    const world = filled();
    world.guard.measured(heapBytesMax, nowMs);
    world.guard.measured(0.61 * heapBytesMax, nowMs + 60_000);
    expect(world.guard.bytes.max).toBeLessThan(roomBytes);
    world.guard.measured(0.59 * heapBytesMax, nowMs + 60_000);
    expect(world.guard.bytes.max).toBe(roomBytes);
  });
});

it('Objects that fill their room to the byte stay, and are read again at three quarters of it', () => {
  const [first, ...others] = many('tenant', 5);
  const worldOf = (services: number): World => {
    return new World((24 * mebibyte + services * largeBytes) / 0.8);
  };
  const world = worldOf(4);
  expect(world.set(first!, ...others).at(-1)).toBe('left out');
  expect(world.guard.bytes).toEqual({ taken: 4 * largeBytes, max: 4 * largeBytes });
  world.gone(first!.key);
  expect(world.guard.takeReading(0)).toBe(true);
  // They are not to blame for more than half.
  const half = worldOf(2);
  half.set(first!);
  half.guard.measured(Number.MAX_VALUE, 0);
  expect(half.guard.bytes).toEqual({ taken: largeBytes, max: largeBytes });
});

describe('The bytes of objects', () => {
  it('are those of what is there', () => {
    const world = new World();
    const one = large('tenant', 'web');
    const of = slice({ '10.0.0.1': ready }, { key: 'tenant/web-1', service: one.key });
    world.set(one);
    world.setSlice(of);
    expect(world.guard.bytes.taken).toBe(bytesOfService(one) + bytesOfSlice(of));
    world.set(large('tenant', 'web'));
    expect(world.guard.bytes.taken).toBe(bytesOfService(one) + bytesOfSlice(of));
    world.guard.apply({
      kind: 'service-unserved',
      unserved: { key: one.key, because: 'it is headless', addresses: [] },
    });
    world.guard.apply({ kind: 'service-gone', key: one.key });
    world.guard.apply({ kind: 'slice-gone', key: of.key });
    expect(world.guard.bytes.taken).toBe(0);
  });
});
