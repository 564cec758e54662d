/** A node that cannot try connections: it says nothing about endpoints, and still sees silence. */
import { describe, expect, it } from 'vitest';
import type { Detection } from '../../../src/state/detection.ts';
import { byAnnotation, World } from './world.ts';

const probing: Detection = { mode: 'eject', probes: true };
const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
const [dead, ...others] = endpoints as [string, ...string[]];

/** All endpoints have answered probes and clients. */
async function proven(): Promise<World> {
  const world = new World();
  world.detection.choose(byAnnotation);
  world.say('web', endpoints, probing);
  await world.traffic(endpoints, 8);
  return world;
}

describe('a node without descriptors', () => {
  it('keeps an endpoint that only it cannot try', async () => {
    const world = await proven();
    world.exhausted = 'EMFILE';
    const { failed, notTried } = world.detection.totals.probes;
    await world.traffic(others, 120);
    const after = world.detection.totals.probes;
    expect(after.notTried - notTried).toBeGreaterThan(20);
    expect(after.failed).toBe(failed);
    expect(world.events).toEqual([]);
    expect(world.detection.totals).toMatchObject({ out: 0, silent: 0 });
  });

  it('logs each reason once', async () => {
    const world = await proven();
    const words = 'Failed to try a connection to an endpoint, which says nothing about it';
    const told = () => world.lines.filter((line) => line === words).length;
    for (const code of ['EMFILE', 'EADDRNOTAVAIL', 'EMFILE']) {
      world.exhausted = code;
      await world.clock.pass(10_000);
    }
    expect(told()).toBe(2);
  });

  it('leaves out one that answers no client, as soon as a node that has some', async () => {
    const turns: number[] = [];
    for (const code of [undefined, 'EMFILE']) {
      const world = await proven();
      world.exhausted = code;
      // A probe of each turn that was not sent would hide the client of that turn.
      await world.traffic(others, 40);
      world.deaf.add(dead);
      let count = 0;
      for (; world.events.length === 0 && count < 100; count += 1) {
        world.add('attempts', dead, 1);
        await world.traffic(others, 1);
      }
      expect(world.events).toMatchObject([{ endpoint: `${dead}:8080` }]);
      turns.push(count);
    }
    expect(turns[1]).toBeLessThanOrEqual(turns[0]! + 8);
  });
});
