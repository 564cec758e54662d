import { constants, PerformanceObserver } from 'node:perf_hooks';
import v8, { getHeapCodeStatistics } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { ownHeap, QuietCollector } from '../../../src/host/garbage.ts';
import { loadAddon } from '../../../src/kernel/addon.ts';
import { systemClock } from '../../../src/time/clock.ts';

const mb = 1024 * 1024;

describe('the garbage of a start', () => {
  let usedBytes: number;
  let done: string[];
  let collector: QuietCollector;

  beforeEach(() => {
    vi.useFakeTimers();
    usedBytes = 20 * mb;
    done = [];
    collector = new QuietCollector({
      usedBytes: () => usedBytes,
      collect: () => {
        done.push('collect');
        usedBytes = 12 * mb;
      },
      startCollection: () => {
        done.push('start');
        systemClock.after(4999, () => {
          usedBytes *= 0.9;
        });
      },
      collected: () => done.push(`${usedBytes / mb} MB left`),
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
    expect(done).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(done).toEqual(['collect', '12 MB left']);
    vi.advanceTimersByTime(3_600_000);
    expect(done).toHaveLength(2);
  });

  it('is collected again after ten minutes, if later work has left some', () => {
    collector.worked();
    vi.advanceTimersByTime(10_000);
    usedBytes = 16 * mb;
    collector.worked();
    vi.advanceTimersByTime(599_000);
    expect(done).toHaveLength(2);
    collector.worked();
    vi.advanceTimersByTime(9000);
    expect(done).toHaveLength(2);
    vi.advanceTimersByTime(1000);
    expect(done).toHaveLength(4);
  });

  it('is not collected while it is small', () => {
    collector.worked();
    vi.advanceTimersByTime(10_000);
    usedBytes = 14 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(done).toHaveLength(2);
  });

  it('of a large heap is collected by other threads, and only if it is an eighth of it', () => {
    usedBytes = 100 * mb;
    collector.worked();
    vi.advanceTimersByTime(10_000);
    expect(done).toEqual(['start']);
    // Work that comes before its end does not hide the end.
    collector.worked();
    vi.advanceTimersByTime(5000);
    expect(done).toEqual(['start', '90 MB left']);
    usedBytes = 102 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(done).toHaveLength(2);
    usedBytes = 104 * mb;
    collector.worked();
    vi.advanceTimersByTime(3_600_000);
    expect(done).toHaveLength(4);
  });
});

describe('the heap of a thread', () => {
  it('is collected immediately, also where another thread takes the flag away nine times', async () => {
    // Flags of V8 belong to the process.
    const set = v8.setFlagsFromString;
    let left = 9;
    const other = vi.spyOn(v8, 'setFlagsFromString').mockImplementation((flag) => {
      set(flag);
      if (flag !== '--expose-gc') return;
      if (left > 0) set('--no-expose-gc');
      left -= 1;
    });
    onTestFinished(() => other.mockRestore());
    let held: WeakRef<object>;
    do {
      held = new WeakRef({});
      // It keeps its object until the end of the turn that made it; V8 may collect it at any time.
      await new Promise(setImmediate);
    } while (held.deref() === undefined);
    await new Promise(setImmediate);
    ownHeap.collect();
    expect(held.deref()).toBeUndefined();
  });

  it('is collected while the thread continues', async () => {
    const { NODE_PERFORMANCE_GC_FLAGS_ALL_EXTERNAL_MEMORY: pressure, NODE_PERFORMANCE_GC_MAJOR } =
      constants;
    let isStarted = false;
    const collected = new Promise<void>((resolve) => {
      const observer = new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) {
          const { flags, kind } = (entry as unknown as { detail: Record<string, number> }).detail;
          if (kind === NODE_PERFORMANCE_GC_MAJOR && (flags! & pressure) !== 0) resolve();
        }
      });
      observer.observe({ entryTypes: ['gc'] });
      onTestFinished(() => observer.disconnect());
    });
    let registry: FinalizationRegistry<undefined>;
    const gone = new Promise<boolean>((resolve) => {
      registry = new FinalizationRegistry(() => resolve(isStarted));
    });
    // Held until then: V8 may collect at any time.
    const holder: { held: object | undefined } = { held: {} };
    registry!.register(holder.held!, undefined);
    await new Promise(setImmediate);
    holder.held = undefined;
    loadAddon().startCollection();
    isStarted = true;
    await collected;
    expect(await gone).toBe(true);
    expect(registry!).toBeDefined();
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
