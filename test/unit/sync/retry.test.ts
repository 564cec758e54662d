import { describe, expect, it } from 'vitest';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { Quarantine } from '../../../src/sync/quarantine.ts';
import { Ruleset, writersSince } from '../../../src/sync/ruleset.ts';
import { Backoff, backoffMs, requestBackoff } from '../../../src/time/backoff.ts';
import { Wakeup } from '../../../src/time/clock.ts';
import { forwarding, pool } from '../modes/nftables/forwardings.ts';
import { quiet, refusal, ToyClock, ToyKernel } from './double.ts';

const limits = { firstMs: 0, secondMs: 250, maxMs: 30_000 };

describe('the backoff', () => {
  it('doubles after the second failure, up to the longest delay', () => {
    const exact = [1, 2, 3, 4, 9, 10, 1000].map((failures) => backoffMs(limits, failures, 0.5));
    expect(exact).toEqual([0, 250, 500, 1000, 30_000, 30_000, 30_000]);
  });

  it('jitters by a fifth either way and never beyond the longest delay', () => {
    expect(backoffMs(limits, 4, 0)).toBe(800);
    expect(backoffMs(limits, 4, 0.999)).toBeCloseTo(1199.6);
    expect(backoffMs(limits, 9, 0.999)).toBe(30_000);
  });

  it('with full jitter waits for any time up to a delay that doubles, until it is reset', () => {
    const clock = { now: () => 0, random: () => 0.5 };
    const backoff = requestBackoff(800, 30_000, clock);
    const delays = Array.from({ length: 7 }, () => backoff.failed());
    expect(delays).toEqual([400, 800, 1600, 3200, 6400, 12_800, 15_000]);
    expect(backoff.failed(1000)).toBe(500);
    backoff.reset();
    expect(backoff.failed()).toBe(400);
  });

  it('starts again only after a quiet time of twice the longest delay', async () => {
    const clock = new ToyClock();
    const backoff = new Backoff(limits, clock);
    expect([backoff.failed(), backoff.failed()]).toEqual([0, 250]);
    await clock.pass(60_000);
    expect(backoff.failed()).toBe(500);
    await clock.pass(60_001);
    expect(backoff.failed()).toBe(0);
  });
});

it('what a repair has left is not tried by syncs before a repair tries it, however late', async () => {
  const [clock, web] = [new ToyClock(), forwarding('web', pool(1))];
  const quarantine = new Quarantine(limits, clock);
  quarantine.add(web.key, web, refusal('EINVAL'), { isLeft: true, inForce: web });
  await clock.pass(60_000);
  expect(quarantine.holds(web.key)).toBe(true);
  expect(quarantine.takeLeft(new Map([[web.key, web]]))).toBe(true);
  expect(quarantine.holds(web.key)).toBe(false);
});

describe('a wakeup', () => {
  it('keeps a ring for the next waiter, once', async () => {
    const clock = new ToyClock();
    const wakeup = new Wakeup(clock);
    wakeup.wake();
    wakeup.wake();
    await wakeup.wait();
    let woken = false;
    void wakeup.wait().then(() => {
      woken = true;
    });
    await quiet();
    expect(woken).toBe(false);
    wakeup.wake();
    await quiet();
    expect(woken).toBe(true);
  });

  it('ends the wait after the given time', async () => {
    const clock = new ToyClock();
    const wakeup = new Wakeup(clock);
    let woken = false;
    void wakeup.wait(100).then(() => {
      woken = true;
    });
    await clock.pass(99);
    expect(woken).toBe(false);
    await clock.pass(1);
    expect(woken).toBe(true);
  });
});

describe("the lock of a namespace's ruleset", () => {
  const applied: ApplyResult = { kind: 'applied' };

  it('makes a single reader wait for running commits, and commits wait for the reader', async () => {
    const ruleset = new Ruleset();
    const order: string[] = [];
    const first = Promise.withResolvers<ApplyResult>();
    const read = Promise.withResolvers<void>();
    const note = (what: string) => (): void => {
      order.push(what);
    };
    void ruleset.commit(() => first.promise).then(note('first commit'));
    void ruleset.readAlone(() => read.promise).then(note('read'));
    void ruleset.commit(async () => applied).then(note('second commit'));
    await quiet();
    expect(order).toEqual([]);
    read.resolve();
    await quiet();
    expect(order).toEqual([]);
    first.resolve(applied);
    await quiet();
    expect(order).toEqual(['first commit', 'read', 'second commit']);
  });

  it("distinguishes other programs' commits from ours", async () => {
    const kernel = new ToyKernel();
    const base = kernel.generationNow;
    kernel.generationNow += 1;
    kernel.commits += 1;
    expect(await writersSince(base, kernel)).toBe('only us');
    kernel.meddle(() => {});
    expect(await writersSince(base, kernel)).toBe('others');
    expect(await writersSince(undefined, kernel)).toBe('unknown');
  });

  it('permits commits after a reader that failed', async () => {
    const ruleset = new Ruleset();
    await expect(ruleset.readAlone(() => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await ruleset.commit(async () => applied)).toBe(applied);
  });
});
