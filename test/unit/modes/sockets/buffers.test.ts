import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadAddon } from '../../../../src/kernel/addon.ts';
import type { NoRoom } from '../../../../src/modes/sockets/bounds.ts';
import { Buffers } from '../../../../src/modes/sockets/buffers.ts';
import { quiet } from '../../sync/double.ts';
import { turnsUntil } from '../../turns.ts';
import { frontend, host, pool } from './peers.ts';

const mebibyte = 1024 ** 2;
/** All may have 8 MiB, a frontend 4 MiB, a client 2 MiB. */
const memory = 64 * mebibyte;

/** A socket without a descriptor. Its peer does not read: `bytes` wait to be written. */
class Stalled extends EventEmitter {
  readonly readableLength = 0;
  writableLength: number;
  readonly #asked: () => boolean;

  constructor(bytes: number, asked = () => true) {
    super();
    this.writableLength = bytes;
    this.#asked = asked;
  }

  isPaused(): boolean {
    return this.#asked();
  }

  resetAndDestroy(): void {
    this.emit('close');
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => Date.now());
  onTestFinished(() => {
    spy.mockRestore();
    vi.useRealTimers();
  });
});

/** Until it holds after one of the looks, which are due at their times. */
async function looked(holds: () => boolean): Promise<void> {
  await turnsUntil(() => {
    if (holds()) return true;
    vi.advanceTimersToNextTimer();
    return false;
  });
}

const served = [1, 2].map((n) => frontend(host(46, n), pool(host(46, 9))));

function stalled(
  buffers: Buffers,
  client: string,
  bytes: number,
  of = served[0]!,
  asked?: () => boolean,
): Stalled {
  const socket = new Stalled(bytes, asked);
  buffers.watch({ frontend: of, client }).add(socket as unknown as Socket);
  return socket;
}

describe('the bytes in buffers', () => {
  it('are bounded by a part of memory, and by what the kernel may have', () => {
    const of = (...sizes: readonly number[]) =>
      new Buffers(sizes[0]!, () => {}, sizes[1]).max.all / mebibyte;
    expect(of(1024 * mebibyte)).toBe(128);
    expect(of(1024 ** 4)).toBe(1024);
    expect(of(1024 ** 4, 700 * mebibyte)).toBe(700);
  });

  it('are freed by resets of a connection that holds much, of the client that holds most', async () => {
    const told: NoRoom[] = [];
    const buffers = new Buffers(memory, (one) => told.push(one));
    stalled(buffers, 'small', mebibyte);
    stalled(buffers, 'large', 0.9 * mebibyte);
    stalled(buffers, 'large', 1.5 * mebibyte);
    await looked(() => buffers.used === 1.9 * mebibyte);
    expect(told).toMatchObject([{ of: 'bytes', bound: 'client', client: 'large' }]);
    expect(buffers.ended).toEqual({ all: 0, frontend: 0, client: 1 });
    // Three clients of one frontend: none has too much, but all have.
    for (const client of ['large', 'third']) stalled(buffers, client, 0.9 * mebibyte);
    stalled(buffers, 'third', 0.6 * mebibyte);
    await looked(() => buffers.ended.frontend === 1);
    expect(told.at(-1)).toMatchObject({ bound: 'frontend', client: 'large' });
  });

  it('are no longer counted when a connection has ended', async () => {
    const buffers = new Buffers(memory, () => {});
    const one = stalled(buffers, 'a', mebibyte);
    vi.advanceTimersByTime(99);
    expect(buffers.used).toBe(0);
    vi.advanceTimersByTime(1);
    expect(buffers.used).toBe(mebibyte);
    one.resetAndDestroy();
    expect(buffers.used).toBe(0);
    stalled(buffers, 'a', 5, served[1]);
    await looked(() => buffers.used === 5);
  });

  it('are counted in slices, for no more than a fiftieth of the time', async () => {
    const buffers = new Buffers(memory, () => {});
    const startMs = performance.now();
    const askedMs: number[] = [];
    const perTurn = new Map<number, number>();
    let turn = 0;
    // To ask one takes a millisecond, and a slice is 2 ms, of which each eighth knows.
    const asked = (): boolean => {
      askedMs.push(performance.now() - startMs);
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
      vi.advanceTimersByTime(1);
      return true;
    };
    const count = 40;
    for (let i = 0; i < count; i += 1) stalled(buffers, String(i), 1, served[i % 2], asked);
    let isOver = false;
    const next = (): void => {
      turn += 1;
      if (!isOver) setImmediate(next);
    };
    next();
    await looked(() => askedMs.length === 2 * count);
    isOver = true;
    expect(Math.max(...perTurn.values())).toBe(8);
    expect([askedMs[0], askedMs[count]]).toEqual([100, 100 + count + 50 * count]);
  });

  it('are counted early when a quarter of what a client may have has moved', () => {
    const buffers = new Buffers(memory, () => {});
    const watch = buffers.watch({ frontend: served[0]!, client: 'a' });
    watch.add(new Stalled(5) as unknown as Socket);
    watch.moved(mebibyte / 2);
    vi.advanceTimersByTime(1);
    expect(buffers.used).toBe(0);
    watch.moved(1);
    vi.advanceTimersByTime(1);
    expect(buffers.used).toBe(5);
  });

  it.each([
    [16_384, 1],
    [16_385, 2],
  ])('are looked at again where more than a little waits: %i bytes', async (bytes, looks) => {
    const buffers = new Buffers(memory, () => {});
    let asked = 0;
    stalled(buffers, 'a', bytes, served[0], () => {
      asked += 1;
      return false;
    });
    await looked(() => buffers.used === bytes);
    await quiet();
    vi.advanceTimersByTime(100);
    expect(asked).toBe(looks);
  });

  it('get a limit where much is held, and a wider one if that is four times as wide', async () => {
    const limits: number[] = [];
    const spy = vi.spyOn(loadAddon(), 'limitBuffers');
    spy.mockImplementation((_, bytes) => void limits.push(bytes));
    onTestFinished(() => spy.mockRestore());
    const buffers = new Buffers(memory, () => {});
    const each = 300 * 1024;
    stalled(buffers, 'half of what a client may have', mebibyte, served[1]);
    const all = [1, 2, 3, 4].map(() => stalled(buffers, 'a', each));
    const hold = async (count: number, first: number): Promise<number[]> => {
      for (const gone of all.splice(count)) gone.resetAndDestroy();
      all[0]!.writableLength = first;
      await looked(() => buffers.used === mebibyte + first + (count - 1) * each);
      await quiet();
      return limits.splice(0);
    };
    expect(await hold(4, each)).toEqual(Array(4).fill(32_768));
    expect(await hold(2, 800 * 1024)).toEqual([]);
    expect(await hold(1, 1200 * 1024)).toEqual([131_072]);
  });
});
