import { expect, it } from 'vitest';
import { FrontendOwners } from '../../../src/state/frontend-owners.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Service } from '../../../src/state/types.ts';
import { context, portsOf, service } from './build.ts';
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

it('a range of ports costs the same to set and to take away, however many ports others have there', () => {
  const work = (count: number) => {
    const owners = new FrontendOwners();
    const at = { clusterIPs: ['10.96.0.1'], externalIPs: ['203.0.113.1'] };
    const ports = portsOf(count, {}, 1000);
    const range = service({ ...at, name: 'range', ports: portsOf(1, {}, 999) });
    const ranges = [{ first: 999, last: 65_535 }, undefined].map((portRange) => ({
      ...range,
      portRange,
    }));
    const set = (of: Service) => finish(owners.set(of, resolve(of, [], context)));
    for (const of of [service({ ...at, name: 'many', createdMs: 1, ports }), ...ranges]) set(of);
    return () => {
      for (const of of ranges) set(of);
    };
  };
  expect(growth(work, 1000)).toBeLessThan(1.5);
});
