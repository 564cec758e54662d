/**
 * Allocations that fail in a kernel with fault injection. Of the kernels of the VM suite only
 * `6.1-uml` has it.
 */
import { describe, expect, test } from 'vitest';
import { canFailMemory } from '../chaos/failing-memory.ts';
import { killedModes } from '../chaos/kills.ts';
import { starve } from '../chaos/starve.ts';
import { testSeed } from '../chaos/test-seed.ts';

describe.skipIf(!canFailMemory)('a kernel without memory for netlink', () => {
  test.each(killedModes)(
    'in mode %s keeps old connections working, and loses nothing',
    async (mode) => {
      const load = { services: 20, changesPerSecond: 50, seconds: 5 };
      const { attempts, changes } = await starve({
        mode,
        seed: testSeed(),
        ...load,
        form: 'built',
      });
      expect(attempts).toBeGreaterThan(0);
      expect(changes).toBeGreaterThan(20);
    },
  );
});
