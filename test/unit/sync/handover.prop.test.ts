/**
 * Frontends change hands, shares of endpoints grow, and endpoints that do not answer are left out,
 * in every mode, however batches are cut and whatever fails.
 */
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ModePlanner } from '../../../src/modes/planner.ts';
import { UserspaceBackend, type UserspaceTypes } from '../../../src/modes/userspace/backend.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import type { WrittenSockets } from '../../fake/sockets.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { anyStep, expectSettled, Life, ruleSubjects, type Subject } from './handover-life.ts';

vi.setConfig({ testTimeout: 600_000 });

/** Random lives in all: `FAIRLEAD_HANDOVER_LIVES` makes it a longer search. */
const lives = Number(process.env.FAIRLEAD_HANDOVER_LIVES ?? 40);

const subjects: readonly Subject[] = [
  ...ruleSubjects,
  {
    name: 'userspace',
    dealing: { name: 'mode userspace', balances: new Set(['round-robin']), usesTables: true },
    planner: (environment, sockets) =>
      new ModePlanner<UserspaceTypes>({
        family: config.family,
        backend: () => new UserspaceBackend(config, sockets),
        environment,
        bindsAddresses: true,
      }),
  },
];

/** What a listening socket is and where it leads, whatever the order of its endpoints. */
function served(sockets: WrittenSockets): string[] {
  return [...sockets.frontends('IPv4')]
    .map(({ id, pools }) => `${id} ${pools.outside.texts().sort().join()}`)
    .sort();
}

describe.each(subjects)('frontends that change hands in mode $name', (subject) => {
  it('frontends have their desired owners after random changes, and a restart writes nothing', async () => {
    const property = fc.asyncProperty(fc.array(anyStep, { maxLength: 25 }), async (steps) => {
      const life = new Life(subject, new FakeKernel());
      // What the kernel can do is found out at the start.
      await life.world.clock.pass(0);
      for (const step of steps) await life.take(step);
      await life.settle();
      const sockets = served(life.sockets);
      await expectSettled(life);
      expect(served(life.sockets)).toEqual(sockets);
      await life.world.stop();
    });
    await fc.assert(property, { numRuns: lives });
  });
});
