import { expect, it } from 'vitest';
import { Frontends } from '../../../src/conntrack/frontends.ts';
import { ips } from '../state/build.ts';
import { growth } from '../state/steps-taken.ts';
import { dns } from './build.ts';

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
