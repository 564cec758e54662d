import { getHeapCodeStatistics } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ownHeap, QuietCollector } from '../../../src/host/garbage.ts';

const mb = 1024 * 1024;

describe('the garbage of a start', () => {
  let usedBytes: number;
  let collections: number;
  let collector: QuietCollector;

  beforeEach(() => {
    vi.useFakeTimers();
    usedBytes = 20 * mb;
    collections = 0;
    collector = new QuietCollector({
      usedBytes: () => usedBytes,
      collect: () => {
        collections += 1;
        usedBytes = 12 * mb;
      },
    });
  });

  afterEach(() => {
    collector.close();
    vi.useRealTimers();
  });

  it('is collected once, after ten idle seconds', () => {
    collector.worked();
    vi.advanceTimersByTime(9000);
    collector.worked();
    vi.advanceTimersByTime(9000);
    expect(collections).toBe(0);
    vi.advanceTimersByTime(1000);
    expect(collections).toBe(1);
    vi.advanceTimersByTime(3_600_000);
    expect(collections).toBe(1);
  });

  it('is collected again after ten minutes, if later work has left some', () => {
    collector.worked();
    vi.advanceTimersByTime(10_000);
    usedBytes = 14 * mb;
    collector.worked();
    vi.advanceTimersByTime(599_000);
    usedBytes = 16 * mb;
    collector.worked();
    vi.advanceTimersByTime(9000);
    expect(collections).toBe(1);
    vi.advanceTimersByTime(1000);
    expect(collections).toBe(2);
  });

  it('is not collected while it is small', () => {
    collector.worked();
    vi.advanceTimersByTime(10_000);
    usedBytes = 14 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(collections).toBe(1);
  });

  it('of a large heap is collected only if it is an eighth of it', () => {
    usedBytes = 100 * mb;
    collector = new QuietCollector({
      usedBytes: () => usedBytes,
      collect: () => {
        collections += 1;
        usedBytes = 90 * mb;
      },
    });
    collector.worked();
    vi.advanceTimersByTime(10_000);
    expect(collections).toBe(1);
    usedBytes = 102 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(collections).toBe(1);
    usedBytes = 104 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(collections).toBe(2);
  });

  it('is not collected if that takes long', () => {
    usedBytes = 129 * mb;
    collector.worked();
    vi.advanceTimersByTime(10_000);
    expect(collections).toBe(0);
  });
});

describe('the heap of a thread', () => {
  it('is collected immediately', async () => {
    const held = new WeakRef({});
    // A WeakRef keeps its object until the end of the turn that made it.
    await new Promise(setImmediate);
    expect(held.deref()).toBeDefined();
    await new Promise(setImmediate);
    ownHeap.collect();
    expect(held.deref()).toBeUndefined();
  });

  it('lets go what was compiled, and compiles it again', () => {
    const words = Array.from(
      { length: 2000 },
      (_, i) => `(x) => { if (x > ${i}) x += ${i}; return x; }`,
    );
    const functions = runInNewContext(`[${words.join()}]`) as ((x: number) => number)[];
    const sum = () => functions.reduce((x, one) => one(x), 1);
    const result = sum();
    const compiled = getHeapCodeStatistics().bytecode_and_metadata_size;
    ownHeap.collect();
    const kept = getHeapCodeStatistics().bytecode_and_metadata_size;
    expect(compiled - kept).toBeGreaterThan(words.length * 20);
    expect(sum()).toBe(result);
  });
});
