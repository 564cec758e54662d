import { beforeEach, describe, expect, it } from 'vitest';
import { Runner } from '../../../src/time/runner.ts';
import { ToyClock } from '../sync/double.ts';

/** Work that takes a time, and is followed by a rest of four times that. */
class World {
  readonly clock = new ToyClock();
  readonly began: number[] = [];
  takesMs = 10;
  restFactor = 4;
  atOnce = 0;
  mostAtOnce = 0;
  readonly runner = new Runner({
    clock: this.clock,
    work: () => this.#work(),
    restMs: (tookMs) => this.restFactor * tookMs,
  });

  async #work(): Promise<void> {
    this.began.push(this.clock.now());
    this.atOnce += 1;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.atOnce);
    await new Promise<void>((resolve) => void this.clock.after(this.takesMs, resolve));
    this.atOnce -= 1;
  }
}

let world: World;
beforeEach(() => {
  world = new World();
});

describe('Runner', () => {
  it('runs once for all who ask before the run begins', async () => {
    world.runner.soon();
    world.runner.soon();
    expect(world.began).toEqual([]);
    await world.clock.pass(1000);
    expect(world.began).toEqual([0]);
  });

  it('rests after a run, for as long as the run took times a factor', async () => {
    world.runner.soon();
    await world.clock.pass(5);
    expect(world.runner.isRunning).toBe(true);
    world.runner.soon();
    world.runner.soon();
    await world.clock.pass(1000);
    expect(world.began).toEqual([0, 50]);
    expect(world.runner.isRunning).toBe(false);
  });

  it('spends a fifth of the time, one run at a time, when it is asked all the time', async () => {
    for (let i = 0; i < 999; i += 1) {
      if (i % 2 === 0) world.runner.soon();
      else world.runner.now();
      await world.clock.pass(1);
    }
    expect(world.began).toEqual(Array.from({ length: 20 }, (_, i) => 50 * i));
    expect(world.mostAtOnce).toBe(1);
  });

  it('does not put off a run that is planned, and brings it forward', async () => {
    world.runner.soon(100);
    world.runner.soon(500);
    await world.clock.pass(50);
    world.runner.soon(20);
    await world.clock.pass(1000);
    expect(world.began).toEqual([70]);
  });

  it('begins a run immediately, unless one is under way or its rest is not over', async () => {
    world.runner.soon(100);
    world.runner.now();
    expect(world.began).toEqual([0]);
    await world.clock.pass(5);
    world.runner.now();
    await world.clock.pass(44);
    expect(world.began).toEqual([0]);
    await world.clock.pass(1000);
    expect(world.began).toEqual([0, 50]);
  });

  it('asks how long the rest is when a run is planned', async () => {
    world.runner.now();
    await world.clock.pass(20);
    world.runner.soon();
    world.restFactor = 0;
    world.runner.now();
    expect(world.began).toEqual([0, 20]);
  });

  it('stops when the current run is over, and begins none', async () => {
    world.runner.now();
    world.runner.now();
    let isOver = false;
    const stopped = world.runner.stop().then(() => {
      isOver = true;
    });
    await world.clock.pass(9);
    expect(isOver).toBe(false);
    await world.clock.pass(1);
    await stopped;
    world.runner.now();
    world.runner.soon();
    await world.clock.pass(1000);
    expect(world.began).toEqual([0]);
  });
});
