import { expect, it } from 'vitest';
import { SuspectFrontends } from '../../../src/conntrack/frontends.ts';
import { eachSuspect } from '../../../src/conntrack/policy.ts';
import { ips } from '../state/build.ts';
import { growth, stepsTaken } from '../state/steps-taken.ts';
import { dns } from './build.ts';

it('frontends that lose endpoints again and again share what they have lost', () => {
  const work = (count: number) => {
    const lives = [1, 2, 3, 4].map((net) => {
      const own = Array.from({ length: 100 }, (_, i) => `10.0.${net}.${i}`);
      return dns(own, { externalIPs: ips(count) });
    });
    return () => {
      const frontends = new SuspectFrontends();
      for (const [i, next] of lives.entries()) eachSuspect(lives[i - 1], next, frontends.suspect);
      const all = [...frontends.fresh.values()];
      expect([all.length, new Set(all).size, all[0]!.size]).toEqual([count + 1, 1, 300]);
    };
  };
  // A hundred endpoints more for each frontend would be thirty times as much.
  expect(stepsTaken(work(500)) / stepsTaken(work(50))).toBeLessThan(10);
});

it('the cost of suspect frontends is proportional to their number', () => {
  const work = (count: number) => {
    const before = dns(['10.0.0.1'], { externalIPs: ips(count) });
    const after = dns(['10.0.0.2'], { externalIPs: ips(count) });
    return () => {
      const frontends = new SuspectFrontends();
      eachSuspect(undefined, before, frontends.suspect);
      eachSuspect(before, after, frontends.suspect);
      eachSuspect(after, undefined, frontends.suspect);
    };
  };
  expect(growth(work, 500)).toBeLessThan(5);
});
