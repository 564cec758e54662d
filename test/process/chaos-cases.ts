/** The short form of `npm run kills` and `npm run soak`; a failure names the seed that repeats it. */
import { expect, test } from 'vitest';
import { type KilledMode, killMany } from '../chaos/kills.ts';
import { freshSeed } from '../chaos/random.ts';
import type { Mode } from '../chaos/readers.ts';
import { soak } from '../chaos/soak.ts';

const form = 'source';

/** One round at least: a kill under churn, perhaps some in starts, and one at rest. */
export function killCase(mode: KilledMode, count: number): void {
  test(`mode ${mode}, killed at random moments under churn, converges and loses no connection`, async () => {
    const load = { services: 40, changesPerSecond: 100 };
    const tally = await killMany({ mode, count, seed: freshSeed(), ...load, form });
    expect(tally.kills).toBeGreaterThanOrEqual(count);
    expect(tally.connectionsAlive).toBe(4 * tally.rounds);
  });
}

export function soakCase(mode: Mode): void {
  test(`mode ${mode} keeps no descriptor, thread or kernel object of what has changed`, async () => {
    const load = { services: 40, changesPerSecond: 200, seconds: 8, sampleMs: 500 };
    const { changes, grown } = await soak({ mode, seed: freshSeed(), ...load, form });
    expect(changes).toBeGreaterThan(100);
    // In so short a time memory says nothing.
    expect(grown.filter((what) => !what.startsWith('rssMB'))).toEqual([]);
  });
}
