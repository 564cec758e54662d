/** The short form of `npm run kills`, `stop` and `soak`; FAIRLEAD_SEED repeats what failed. */
import { expect, test } from 'vitest';
import { type KilledMode, killMany } from '../chaos/kills.ts';
import type { Form } from '../chaos/program.ts';
import type { Mode } from '../chaos/readers.ts';
import { soak } from '../chaos/soak.ts';
import { stop } from '../chaos/stop.ts';
import { testSeed } from '../chaos/test-seed.ts';
import { paced } from '../lab/pace.ts';

/** The program starts several times in each: the machine may be busy or emulated. */
const longestMs = paced(180_000);

/** One round at least: a kill under churn, perhaps some in starts, and one at rest. */
export function killCase(
  mode: KilledMode,
  count: number,
  services: number,
  form: Form = 'source',
): void {
  const what = `mode ${mode}, killed at random moments under churn, loses nothing`;
  test(
    what,
    async () => {
      const load = { services, changesPerSecond: 100, nodes: 1 };
      const tally = await killMany({ mode, count, seed: testSeed(), ...load, form });
      expect(tally.kills).toBeGreaterThanOrEqual(count);
      expect(tally.connectionsAlive).toBe(4 * tally.rounds);
    },
    longestMs,
  );
}

/** Seconds that it is stopped: `npm run stop` takes minutes. */
const stoppedSeconds = 3;

export function stopCase(mode: Mode, services: number): void {
  const what = `mode ${mode}, stopped while the cluster changes, goes on where the cluster is by then`;
  test(
    what,
    async () => {
      const load = { services, changesPerSecond: 100, seconds: stoppedSeconds };
      const { changes } = await stop({ mode, seed: testSeed(), ...load, form: 'source' });
      expect(changes).toBeGreaterThan(20);
    },
    longestMs,
  );
}

export function soakCase(mode: Mode, services: number, form: Form = 'source'): void {
  const what = `mode ${mode} keeps no descriptor, thread or kernel object of what has changed`;
  test(
    what,
    async () => {
      const load = { services, changesPerSecond: 200, seconds: 8, sampleMs: 500 };
      const { changes, grown } = await soak({ mode, seed: testSeed(), ...load, form });
      expect(changes).toBeGreaterThan(20);
      // In so short a time memory says nothing, and Services that happen to have fewer endpoints
      // need more lines for each. At the end the kernel had as many as after a new start.
      const says = (name: string) => !/^(rssMB|linesForEachWanted):/.test(name);
      expect(grown.filter(says)).toEqual([]);
    },
    longestMs,
  );
}
