/** Services of one namespace that ask for more than a namespace gets; here twice a Service's limits. */
import { describe, expect, it } from 'vitest';
import { noLimits } from '../../../src/state/budget.ts';
import type { Service } from '../../../src/state/types.ts';
import { portsOf } from '../state/build.ts';
import { ToyClock, type ToyKernel } from './double.ts';
import { endpointsOf, World, webService } from './world.ts';

const limits = { ...noLimits, frontends: 128 };

function world(): World {
  return new World<ToyKernel>({}, undefined, undefined, undefined, new ToyClock(), limits);
}

function large(number: number, fields: Partial<Service> = {}): Service {
  return webService(`web-${number}`, number, { ports: portsOf(128), ...fields });
}

/** How many ports of each Service the kernel forwards. */
function portsServed({ forwarded }: World): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const key of Object.keys(forwarded)) {
    const [service = ''] = key.split(':');
    counts[service] = (counts[service] ?? 0) + 1;
  }
  return counts;
}

const halves = Object.fromEntries([0, 1, 2, 3].map((n) => [`default/web-${n}`, 64]));

describe('Services that ask for more than their namespace gets', () => {
  it.each([
    ['ascending', [0, 1, 2, 3]],
    ['descending', [3, 2, 1, 0]],
  ])('get equal shares after a start in %s order, from the first batch on', async (_, numbers) => {
    const one = world();
    for (const number of numbers) {
      one.setService(large(number));
      one.setEndpoints(`web-${number}`, `10.244.0.${number + 1}`);
    }
    const written = new Set<string>();
    one.kernel.refuse = (ops) => {
      for (const { object } of ops) if (object.startsWith('f ')) written.add(object);
      return undefined;
    };
    await one.start();
    expect(portsServed(one)).toEqual(halves);
    expect(written.size).toBe(4 * 64);
  });

  it('lose and gain ports when others come and go, and neighbours do not', async () => {
    const one = world();
    const namespace = 'other';
    const other = { ...large(200), namespace, key: `${namespace}/web-200` };
    one.setService(other);
    const key = `${namespace}/web-200`;
    one.state.apply({
      kind: 'slice',
      slice: { ...endpointsOf('web-200', '10.244.9.9'), key: `${key}-1`, service: key },
    });
    for (const number of [0, 1]) {
      one.setService(large(number));
      one.setEndpoints(`web-${number}`, `10.244.0.${number + 1}`);
    }
    await one.start();
    expect(portsServed(one)).toEqual({
      'default/web-0': 128,
      'default/web-1': 128,
      'other/web-200': 128,
    });
    for (const number of [2, 3]) {
      one.setService(large(number));
      one.setEndpoints(`web-${number}`, `10.244.0.${number + 1}`);
    }
    await one.clock.pass(100);
    expect(portsServed(one)).toEqual({ ...halves, 'other/web-200': 128 });
    const notice = one.kinds('over-limit').find(({ service }) => service === 'default/web-0');
    expect(notice?.text).toBe(
      'asks for 128 IPv4 frontends, and 64 are the most while its namespace asks for more than 256',
    );
    one.removeService('web-0');
    one.removeService('web-2');
    await one.clock.pass(29_000);
    expect(portsServed(one)).toMatchObject({ 'default/web-1': 64, 'default/web-3': 64 });
    await one.clock.pass(2000);
    expect(portsServed(one)).toEqual({
      'default/web-1': 128,
      'default/web-3': 128,
      'other/web-200': 128,
    });
    expect(one.loop.overLimit).toBe(0);
  });
});
