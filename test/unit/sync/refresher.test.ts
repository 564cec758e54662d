import { describe, expect, it } from 'vitest';
import { ClusterState } from '../../../src/state/store.ts';
import { Refresher } from '../../../src/sync/refresher.ts';
import { Pacer } from '../../../src/time/pacer.ts';
import { service } from '../state/build.ts';
import { SteppedClock } from './double.ts';

/** A millisecond for each step; each Service is recorded when it is resolved. */
class Rig {
  readonly over: string[] = [];
  readonly begun: string[] = [];
  readonly steps: string[] = [];
  readonly clock = new SteppedClock();
  readonly state = new ClusterState();
  readonly pacer = new Pacer(this.clock, 2);
  readonly refresher: Refresher;

  constructor(stepsOf: (name: string) => number, stepMs = 0.1) {
    const { begun, clock, over, state, steps } = this;
    state.markSynced('services');
    state.markSynced('endpointslices');
    this.refresher = new Refresher({
      clock,
      state,
      sliceMs: 2,
      *refresh(key) {
        const name = key.slice('ns/'.length);
        begun.push(name);
        for (let i = 0; i < stepsOf(name); i += 1) {
          clock.ms += stepMs;
          steps.push(name);
          yield;
        }
        over.push(name);
      },
    });
  }

  change(name: string): void {
    this.state.apply({ kind: 'service', service: service({ name }) });
    this.state.touch(`ns/${name}`);
  }

  async finish(): Promise<number> {
    let turns = 0;
    for (; !this.refresher.idle; turns += 1) {
      this.refresher.work(this.pacer);
      if (this.pacer.due) await this.pacer.rest();
    }
    return turns;
  }
}

describe('resolving Services', () => {
  it('permits short ones to overtake long ones', async () => {
    const rig = new Rig((name) => (name.startsWith('large') ? 5000 : 3));
    for (const name of ['large-1', 'a', 'large-2', 'b', 'c']) rig.change(name);
    await rig.finish();
    expect(rig.over.slice(0, 3)).toEqual(['a', 'b', 'c']);
    expect(rig.over.slice(3).sort()).toEqual(['large-1', 'large-2']);
  });

  it('finishes a long one although others arrive continuously', async () => {
    const rig = new Rig((name) => (name === 'large' ? 200 : 20));
    rig.change('large');
    for (let i = 0; !rig.over.includes('large'); i += 1) {
      expect(i).toBeLessThan(1000);
      rig.change(`small-${i}`);
      rig.refresher.work(rig.pacer);
      await rig.pacer.rest();
    }
  });

  it('lets a new one overtake those that took long when they were last refreshed', async () => {
    const rig = new Rig((name) => (name.startsWith('large') ? 100 : 3));
    const large = Array.from({ length: 50 }, (_, i) => `large-${i}`);
    const timeOf = async (): Promise<number> => {
      for (const name of large) rig.change(name);
      rig.refresher.work(rig.pacer);
      await rig.pacer.rest();
      rig.change('small');
      const startMs = rig.clock.now();
      rig.over.length = 0;
      while (!rig.over.includes('small')) {
        rig.refresher.work(rig.pacer);
        await rig.pacer.rest();
      }
      const tookMs = rig.clock.now() - startMs;
      await rig.finish();
      return tookMs;
    };
    // Each has a first turn of 4 steps. Those that had it have as much time together, and so have
    // those that had two.
    const firstMs = await timeOf();
    expect(firstMs).toBeGreaterThan(50 * 0.4);
    expect(firstMs).toBeLessThan(3 * 50 * 0.4 + 20);
    // A turn is 1 ms.
    expect(await timeOf()).toBeLessThan(5);
  });

  it('finishes a long one before it begins the next that is known to take as long', async () => {
    const rig = new Rig(() => 1000);
    const large = Array.from({ length: 20 }, (_, i) => `large-${i}`);
    for (const round of [1, 2]) {
      for (const name of large) rig.change(name);
      if (round === 1) await rig.finish();
    }
    rig.over.length = 0;
    rig.steps.length = 0;
    while (rig.over.length < 2) {
      rig.refresher.work(rig.pacer);
      await rig.pacer.rest();
    }
    expect(new Set(rig.steps).size).toBeLessThan(4);
  });

  it('gives a Service a full turn as soon as it is short again', async () => {
    let steps = 100;
    const rig = new Rig((name) => (name === 'large' ? steps : 3));
    rig.change('large');
    await rig.finish();
    steps = 3;
    rig.change('large');
    await rig.finish();
    for (let i = 0; i < 100; i += 1) rig.change(`small-${i}`);
    rig.change('large');
    for (let i = 100; i < 200; i += 1) rig.change(`small-${i}`);
    rig.over.length = 0;
    await rig.finish();
    expect(rig.over.indexOf('large')).toBe(100);
  });

  it('gives long ones half a second, and then a quarter of the time, once all is listed', async () => {
    const rig = new Rig(() => 63);
    rig.refresher.listed();
    let workedMs = 0;
    while (rig.clock.ms < 20_000) {
      for (let i = 0; i < 50; i += 1) rig.change(`large-${i}`);
      const startMs = rig.clock.ms;
      await rig.finish();
      workedMs += rig.clock.ms - startMs;
      rig.clock.ms += rig.refresher.restMs;
    }
    // The first time it is not known that they are long.
    const unknownMs = 50 * 63 * 0.1;
    const allowedMs = 0.25 * (20_000 - unknownMs) + 500;
    expect(workedMs - unknownMs).toBeGreaterThanOrEqual(allowedMs);
    expect(workedMs - unknownMs).toBeLessThan(allowedMs + 2);
  });

  it('does not hold up short ones while long ones rest', async () => {
    const rig = new Rig((name) => (name === 'short' ? 62 : 10_000));
    rig.refresher.listed();
    for (const name of ['large', 'short']) rig.change(name);
    await rig.finish();
    expect(rig.refresher.restMs).toBeGreaterThan(0);
    for (let i = 0; i < 3; i += 1) {
      rig.change('short');
      await rig.finish();
    }
    expect(rig.over).toEqual(['short', 'short', 'short', 'short']);
    rig.clock.ms += rig.refresher.restMs;
    expect(rig.refresher.idle).toBe(false);
  });

  it('uses the event loop for one slice at a time', async () => {
    const rig = new Rig(() => 5000);
    rig.change('large');
    const startMs = rig.clock.now();
    const turns = await rig.finish();
    // A slice is 2 ms, and may be over in the middle of a step.
    expect((rig.clock.now() - startMs) / turns).toBeLessThanOrEqual(2.1);
  });

  it('takes turns of half a slice, but for a tenth of it until a Service is known', async () => {
    const rig = new Rig(() => 50, 0.125);
    for (const name of ['a', 'b']) rig.change(name);
    await rig.finish();
    const turns = [...rig.steps.join('').matchAll(/a+|b+/g)].map(([{ length }]) => length);
    // Half a slice is 8 steps. Of those that are new, the clock is not asked before the fourth.
    // From 16 steps on both are known to take long, and `a` is finished first.
    expect(turns).toEqual([12, 4, 16, 8, 8, 8, 14, 30]);
  });

  it('ends a turn after one long step', async () => {
    const rig = new Rig(() => 5000, 3);
    rig.change('large');
    rig.refresher.work(rig.pacer);
    for (let turns = 0; turns < 20; turns += 1) {
      const startMs = rig.clock.now();
      await rig.pacer.rest();
      rig.refresher.work(rig.pacer);
      expect(rig.clock.now() - startMs).toBe(3);
    }
  });

  it('runs again, not concurrently, for a Service that changes in the meantime', async () => {
    const rig = new Rig(() => 100);
    rig.change('large');
    rig.refresher.work(rig.pacer);
    rig.change('large');
    rig.change('large');
    await rig.finish();
    expect(rig.begun).toEqual(['large', 'large']);
    expect(rig.over).toEqual(['large', 'large']);
  });
});
