import { expect, it } from 'vitest';
import { ProblemIndex } from '../../../src/serve/ask/problem-index.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { usedMiB } from '../../used-memory.ts';
import { ToyClock } from '../sync/double.ts';

const quiet = { refresh: async () => {}, found: new Map() };

function indexOf(
  state: object,
  foreignRules: object = quiet,
  clock = new ToyClock(),
): ProblemIndex {
  return new ProblemIndex({
    clock,
    engine: { families: [] },
    failureDetection: undefined,
    foreignRules,
    machine: quiet,
    secondProxy: quiet,
    sliceSurvey: quiet,
    state,
    stoppedClients: quiet,
    takenNodePorts: quiet,
    connectionLimits: { obstacleOf: () => undefined, refusals: { ...quiet, of: () => [] } },
    unanswered: { ...quiet, asked: () => {} },
    unrouted: quiet,
  } as unknown as ConstructorParameters<typeof ProblemIndex>[0]);
}

it.each([
  [500, [true, true, true]],
  [501, [false, false, true]],
])(
  'scrapes of %i Services that were never checked have counts, in half a second: %j',
  async (count, has) => {
    const state = { serviceCount: count, serviceKeys: () => [], serviceCIDRs: () => [] };
    const clock = new ToyClock();
    const index = indexOf(state, quiet, clock);
    const hasAfter = async (ms: number): Promise<boolean> => {
      await clock.pass(ms);
      return (await index.recentCounts()) !== undefined;
    };
    expect([await hasAfter(0), await hasAfter(499), await hasAfter(1)]).toEqual(has);
    expect(await index.recentCounts()).toEqual(index.counts);
  },
);

it('scrapes of five seconds share the checks of the first one', async () => {
  let checks = 0;
  const refresh = async (): Promise<void> => {
    checks += 1;
  };
  const state = { serviceCount: 0, serviceKeys: () => [], serviceCIDRs: () => [] };
  const clock = new ToyClock();
  const index = indexOf(state, { ...quiet, refresh }, clock);
  const checksAt = async (ms: number): Promise<number> => {
    await clock.pass(ms - clock.now());
    await index.recentCounts();
    return checks;
  };
  const start = clock.now();
  expect(await checksAt(start)).toBe(1);
  expect(await checksAt(start + 4999)).toBe(1);
  expect(await checksAt(start + 5000)).toBe(2);
  // A command shows what is true now.
  await index.catchUp();
  expect(checks).toBe(3);
});

it.each([
  [1800, 1],
  [1801, 2],
])(
  'with a kernel that is read in %i ms, 8,000 Services are checked %i times',
  async (ms, times) => {
    let leftMs = ms;
    const foreignRules = {
      found: new Map(),
      refresh: async (patienceMs = 100): Promise<void> => {
        if (leftMs > 0 && leftMs <= patienceMs) foreignRules.found = new Map();
        leftMs -= patienceMs;
      },
    };
    let checks = 0;
    const serviceKeys = () => {
      checks += 1;
      return [];
    };
    const [serviceCount, none]: [number, never[]] = [8000, []];
    const index = indexOf({ serviceCount, serviceKeys, serviceCIDRs: () => none }, foreignRules);
    for (let i = 0; i < 9; i += 1) await index.catchUp();
    expect(checks).toBe(times);
  },
);

it('Services that came and went take no memory, also where no caller asks about problems', async () => {
  const index = indexOf(new ClusterState());
  // It was asked once, by a command.
  await index.catchUp();
  const beforeMiB = usedMiB();
  for (let i = 0; i < 200_000; i += 1) index.resolved(`tenant/job-${i}-of-a-pipeline`);
  // When their names waited for the next question, it was 20 MiB.
  expect(usedMiB() - beforeMiB).toBeLessThan(5);
  expect(index.counts.services).toBe(0);
});
