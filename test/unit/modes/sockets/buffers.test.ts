import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { NoRoom } from '../../../../src/modes/sockets/bounds.ts';
import { Buffers } from '../../../../src/modes/sockets/buffers.ts';
import { turnsUntil } from '../../turns.ts';
import { frontend, host, pool } from './peers.ts';

const mebibyte = 1024 ** 2;
/** All may have 8 MiB, a frontend 4 MiB, a client 2 MiB. */
const memory = 64 * mebibyte;

/** A socket without a descriptor. Its peer does not read: `bytes` wait to be written. */
class Stalled extends EventEmitter {
  readonly readableLength = 0;
  readonly writableLength: number;
  readonly #asked: () => void;

  constructor(bytes: number, asked: () => void = () => {}) {
    super();
    this.writableLength = bytes;
    this.#asked = asked;
  }

  isPaused(): boolean {
    this.#asked();
    return true;
  }

  resetAndDestroy(): void {
    this.emit('close');
  }
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
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

function stalled(buffers: Buffers, client: string, bytes: number, of = served[0]!): Stalled {
  const socket = new Stalled(bytes);
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

  it('are counted in slices, between which the event loop serves others', async () => {
    const buffers = new Buffers(memory, () => {});
    let turn = 0;
    const perTurn = new Map<number, number>();
    // To ask one takes 20 µs at least, and a slice is 2 ms.
    const asked = (): void => {
      const endMs = performance.now() + 0.02;
      while (performance.now() < endMs);
      perTurn.set(turn, (perTurn.get(turn) ?? 0) + 1);
    };
    const count = 1000;
    for (let i = 0; i < count; i += 1) {
      const watch = buffers.watch({ frontend: served[i % 2]!, client: String(i) });
      watch.add(new Stalled(1, asked) as unknown as Socket);
    }
    let isOver = false;
    const next = (): void => {
      turn += 1;
      if (!isOver) setImmediate(next);
    };
    next();
    await looked(() => buffers.used === count);
    isOver = true;
    expect(Math.max(...perTurn.values())).toBeLessThan(120);
  });
});
