import { expect, it } from 'vitest';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import { context, service } from './build.ts';
import { growth } from './steps-taken.ts';

it('many Services with the same claim cost little more per Service than few', () => {
  const work = (count: number) => {
    const services = Array.from({ length: count }, (_, i) => {
      // The best come first in one half, last in the other.
      const createdMs = i % 2 === 0 ? i : 2 * count - i;
      const externalIPs = ['203.0.113.1', '203.0.113.2'];
      return service({ name: `s${i}`, createdMs, clusterIPs: ['10.0.0.1'], externalIPs });
    });
    const each = services.map((of) => [of, resolve(of, [], context)] as const);
    return () => {
      const owners = new FrontendOwners();
      for (const [of, forwardings] of each) finish(owners.set(of, forwardings));
      for (const { key } of services) owners.release(key);
    };
  };
  expect(growth(work, 200)).toBeLessThan(6);
});
