import { describe, expect, it } from 'vitest';
import { serviceInSteps } from '../../../src/source/decode.ts';
import { Interner } from '../../../src/source/interner.ts';
import { noLimits } from '../../../src/state/budget.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import { context, ips, portsOf, ready, service, slice, slicePort } from './build.ts';
import { growth } from './steps-taken.ts';

describe('the cost of one Service', () => {
  it('is proportional to its ports', () => {
    const work = (count: number) => {
      const of = service({ ports: portsOf(count) });
      const ports = portsOf(count).map(({ name, port }) => slicePort(name, port));
      const slices = [slice({ '10.0.0.1': ready, '10.0.0.2': ready }, { ports })];
      return () => resolve(of, slices, context);
    };
    expect(growth(work, 500)).toBeLessThan(5);
  });

  it('is proportional to its external IPs', () => {
    const work = (count: number) => {
      const of = service({ ports: portsOf(2), externalIPs: ips(count) });
      return () => resolve(of, [], context);
    };
    expect(growth(work, 500)).toBeLessThan(5);
  });

  it('is proportional to its slices', () => {
    const of = service({ ports: portsOf(200) });
    const ports = portsOf(200).map(({ name, port }) => slicePort(name, port));
    const work = (count: number) => {
      const slices = Array.from({ length: count }, (_, i) => {
        return slice({ [`10.${i >> 8}.${i & 0xff}.1`]: ready }, { key: `ns/web-${i}`, ports });
      });
      return () => resolve(of, slices, context);
    };
    expect(growth(work, 50)).toBeLessThan(5);
  });

  it('is proportional to its ports when it is decoded', () => {
    const metadata = { name: 'web', namespace: 'ns' };
    const work = (count: number) => {
      const ports = portsOf(count).map(({ name, port }) => ({ name, port }));
      const raw = { metadata, spec: { clusterIP: '10.96.0.1', ports } };
      return () => finish(serviceInSteps(raw, new Interner()));
    };
    expect(growth(work, 500)).toBeLessThan(5);
  });

  it('does not grow beyond its limits', () => {
    const limits = { ...noLimits, frontends: 20_000 };
    const work = (count: number) => {
      const of = service({ ports: portsOf(2000), externalIPs: ips(count) });
      return () => resolve(of, [], { ...context, limits });
    };
    // What is asked for grows four times, what is done does not.
    expect(growth(work, 375)).toBeLessThan(1.5);
  });
});
