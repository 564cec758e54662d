import { expect, it } from 'vitest';
import { Frontends } from '../../../src/conntrack/frontends.ts';
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
      const frontends = new Frontends();
      for (const [i, next] of lives.entries()) frontends.changed(lives[i - 1], next);
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
      const frontends = new Frontends();
      frontends.changed(undefined, before);
      frontends.changed(before, after);
      frontends.changed(after, undefined);
    };
  };
  expect(growth(work, 500)).toBeLessThan(5);
});
