import { describe, expect, it } from 'vitest';
import { Pacer, readingSliceMs } from '../../../src/time/pacer.ts';

describe('Pacer', () => {
  it('resumes one resting task a turn of the event loop', async () => {
    const pacer = new Pacer();
    let turn = 0;
    let ended = false;
    const count = (): void => {
      turn += 1;
      if (!ended) setImmediate(count);
    };
    setImmediate(count);
    const turns = await Promise.all(Array.from({ length: 5 }, () => pacer.rest().then(() => turn)));
    ended = true;
    expect(new Set(turns).size).toBe(5);
  });

  it.each([
    ['of reading', readingSliceMs, 5],
    ['of anything else', undefined, 2],
  ])('is due once the slice %s is spent, and not after a rest', async (_, sliceMs, ms) => {
    let now = 1000;
    const clock = { now: () => now, turn: async () => {} };
    const pacer = new Pacer(clock, sliceMs);
    for (let i = 0; i < 2; i += 1) {
      now += ms - 0.001;
      expect(pacer.due).toBe(false);
      now += 0.001;
      expect(pacer.due).toBe(true);
      await pacer.rest();
    }
    expect(pacer.due).toBe(false);
  });

  it('has a new slice for work that waited, unless another task is at work', () => {
    let now = 1000;
    const pacer = new Pacer({ now: () => now, turn: async () => {} }, 5);
    now += 5;
    pacer.begin();
    now += 4.999;
    expect(pacer.due).toBe(false);
    now += 0.001;
    pacer.begin();
    expect(pacer.due).toBe(true);
    now += 4.999;
    pacer.begin();
    expect(pacer.due).toBe(true);
  });
});
