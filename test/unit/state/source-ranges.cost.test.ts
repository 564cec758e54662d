import { expect, it } from 'vitest';
import { resolveInSteps } from '../../../src/state/resolve.ts';
import { address, context, service } from './build.ts';
import { stepsTaken } from './steps-taken.ts';

/** /28 blocks in an order that is not theirs, of which each third continues the one before. */
function ranges(count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const at = (i * 7919) % count;
    const block = 2 * at - (at % 3 === 1 ? 1 : 0);
    return `20.${block >> 12}.${(block >> 4) & 0xff}.${(block & 0xf) << 4}/28`;
  });
}

/** The work of all steps, and of the longest one. */
function work(count: number): { readonly all: number; readonly longest: number } {
  const of = service({
    type: 'LoadBalancer',
    loadBalancerIPs: ['198.51.100.1'],
    loadBalancerSourceRanges: ranges(count),
  });
  const nodeAddresses = Array.from({ length: 50 }, (_, i) => address(`10.0.0.${i}`));
  const steps = resolveInSteps(of, [], { ...context, nodeAddresses });
  const each: number[] = [];
  for (let done: boolean | undefined; !done; ) {
    const step = (): void => {
      done = steps.next().done;
    };
    each.push(stepsTaken(step));
  }
  return { all: each.reduce((sum, one) => sum + one), longest: Math.max(...each) };
}

it('the work for source ranges grows with their number, and a step of it is a small part', () => {
  const [some, many] = [work(5000), work(20_000)];
  expect(many.all / some.all).toBeLessThan(5);
  expect(many.longest).toBeLessThan(many.all / 8);
});
