import { expect, it } from 'vitest';
import { ProblemIndex } from '../../../src/serve/ask/problem-index.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { usedMiB } from '../../used-memory.ts';
import { ToyClock } from '../sync/double.ts';

it('Services that came and went take no memory, also where no caller asks about problems', async () => {
  const quiet = { refresh: async () => {}, found: new Map() };
  const index = new ProblemIndex({
    clock: new ToyClock(),
    counters: { read: async () => undefined },
    engine: { families: [] },
    failureDetection: undefined,
    foreignRules: quiet,
    state: new ClusterState(),
    unrouted: quiet,
  } as unknown as ConstructorParameters<typeof ProblemIndex>[0]);
  // It was asked once, by a command.
  await index.catchUp();
  const beforeMiB = usedMiB();
  for (let i = 0; i < 200_000; i += 1) index.resolved(`tenant/job-${i}-of-a-pipeline`);
  // When their names waited for the next question, it was 20 MiB.
  expect(usedMiB() - beforeMiB).toBeLessThan(5);
  expect(index.counts.services).toBe(0);
});
