import { describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/time/clock.ts';
import { Pacer } from '../../../src/time/pacer.ts';

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

  it('is due once its budget is spent, and not right after a rest', async () => {
    const pacer = new Pacer(systemClock, 5);
    await pacer.rest();
    const start = performance.now();
    while (performance.now() - start < 6);
    expect(pacer.due).toBe(true);
    await pacer.rest();
    expect(new Pacer(systemClock, 10_000).due).toBe(false);
  });
});
