import { expect, it } from 'vitest';
import { RecentCosts } from '../../../src/sync/recent-costs.ts';

/** Syncs of one change each, of `namespace/name`. */
function syncs() {
  const clock = { nowMs: 1e6, now: () => clock.nowMs };
  const costs = new RecentCosts(clock);
  return {
    clock,
    costs,
    sync(service: string, costMs: number): void {
      const beganMs = clock.nowMs;
      costs.planned(service, 3, costs.goesFirst(service));
      clock.nowMs += costMs;
      costs.spent(costMs, beganMs);
    },
  };
}

it('lets a Service go first again when it has taken a fifth of the time', () => {
  const { clock, costs, sync } = syncs();
  sync('ns/web', 100);
  for (const [afterMs, isLow] of [
    [399, false],
    [2, true],
  ] as const) {
    clock.nowMs += afterMs;
    expect(costs.isLow('ns/web')).toBe(isLow);
  }
});

it('lets Services of a namespace go first for a twentieth of the time, and 0.2 s in advance', () => {
  const { clock, costs, sync } = syncs();
  let [count, first] = [0, 0];
  const run = (milliseconds: number, restMs: number): number => {
    first = 0;
    for (const endMs = clock.nowMs + milliseconds; clock.nowMs < endMs; count += 1) {
      first += costs.goesFirst(`ns/web-${count}`) ? 1 : 0;
      sync(`ns/web-${count}`, 10);
      clock.nowMs += restMs;
    }
    return first;
  };
  expect(run(1000, 0)).toBe(25);
  expect(run(100_000, 30)).toBe(500);
  expect(costs.goesFirst('other/web')).toBe(true);
});

it('counts what a sync cost by the elements of each of its Services', () => {
  const { clock, costs } = syncs();
  costs.planned('ns/large', 990, false);
  costs.planned('ns/small', 10, false);
  clock.nowMs += 100;
  costs.spent(100, clock.nowMs - 100);
  expect([costs.isLow('ns/large'), costs.isLow('ns/small')]).toEqual([false, true]);
});

it('keeps the costs of 4,096 Services of a sync, and of the last ones', () => {
  const { clock, costs, sync } = syncs();
  for (let i = 0; i < 4097; i += 1) costs.planned(`ns/web-${i}`, 1, false);
  clock.nowMs += 1e9;
  costs.spent(1e9, clock.nowMs);
  const low = () => [0, 1, 4095, 4096].map((i) => costs.isLow(`ns/web-${i}`));
  expect(low()).toEqual([false, false, false, true]);
  sync('ns/web-0', 100);
  sync('other/web', 100);
  expect(low()).toEqual([false, true, false, true]);
});
