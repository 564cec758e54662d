/** The loop with the ipvs mode: shares that grow, and batches that the kernel takes in part. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { defaultIPVSSettings } from '../../../src/modes/mode.ts';
import type { Balance } from '../../../src/state/deal.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/config.ts';
import { quiet } from './double.ts';
import { World, webService } from './world.ts';

function worldOn(kernel: FakeKernel, scheduler = 'rr'): World<FakeKernel> {
  const settings = { ...config, ipvs: { ...defaultIPVSSettings, scheduler } };
  const world = new World({}, kernel, (environment) => ipvsMode.planner(settings, environment));
  world.dealing = { ...ipvsMode.dealing, unknown: new Set() };
  return world;
}

/** Virtual services that have an endpoint, by the last octet. */
function served({ ipvs }: FakeKernel): number[] {
  const found = ipvs.text().matchAll(/TCP 10\.96\.0\.(\d+):80 .*\n {2}-> /g);
  return [...found].map(([, octet]) => Number(octet)).sort((a, b) => a - b);
}

/** `wrr: 122 122 12`: the scheduler of web-1, and the weights of its endpoints by address. */
function shares({ ipvs }: FakeKernel): string {
  const [, scheduler, servers] = /TCP 10\.96\.0\.1:80 (\S+).*\n((?: {2}-> .*\n)*)/.exec(
    ipvs.text(),
  )!;
  return `${scheduler}: ${[...servers!.matchAll(/weight (\d+)/g)].map(([, weight]) => weight).join(' ')}`;
}

describe('slow start', () => {
  const slowStartMs = 90_000;
  const stepMs = 10_000;
  const start = async (scheduler: string, balance: Balance | undefined) => {
    const kernel = new FakeKernel();
    const world = worldOn(kernel, scheduler);
    world.setService(webService('web-1', 1, { balancing: { balance, slowStartMs } }));
    world.setEndpoints('web-1', '10.244.0.1', '10.244.0.2');
    await world.start();
    onTestFinished(() => world.stop());
    await world.clock.pass(stepMs / 2);
    return { kernel, world };
  };

  it.each<[string, Balance | undefined, string, string]>([
    ['rr', undefined, 'rr', 'wrr'],
    ['rr', 'least-connections', 'lc', 'wlc'],
    ['rr', 'source-hash', 'sh', 'sh'],
    ['rr', 'maglev', 'mh', 'mh'],
    ['sed', undefined, 'sed', 'sed'],
  ])(
    'of scheduler %s and balance %s grows in ten steps: %s, %s',
    async (standard, balance, plain, weighted) => {
      const { kernel, world } = await start(standard, balance);
      expect(shares(kernel)).toBe(`${plain}: 1 1`);
      world.setEndpoints('web-1', '10.244.0.1', '10.244.0.2', '10.244.0.3');
      await world.clock.pass(0);
      for (let step = 1; step < 10; step += 1) {
        const [scheduler, ...weights] = shares(kernel).split(/:? /);
        expect(scheduler).toBe(weighted);
        const [one, other, grown] = weights.map(Number) as [number, number, number];
        expect(one + other + grown).toBe(256);
        expect(Math.abs(one - other)).toBeLessThan(2);
        expect(Math.abs(grown / 256 - step / (20 + step))).toBeLessThan(1 / 256);
        await world.clock.pass(stepMs);
      }
      expect(shares(kernel)).toBe(`${plain}: 1 1 1`);
    },
  );

  it('writes weights only, and removes no endpoint', async () => {
    const { kernel, world } = await start('rr', undefined);
    world.setEndpoints('web-1', '10.244.0.1', '10.244.0.2', '10.244.0.3');
    await world.clock.pass(0);
    const { writes } = kernel;
    await world.clock.pass(stepMs);
    expect(kernel.writes - writes).toBeLessThanOrEqual(3);
    expect(kernel.writes).toBeGreaterThan(writes);
  });
});

describe('a batch that the kernel applies in part', () => {
  it('causes the faulty Service to be set aside, and all others to be in force', async () => {
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    world.addServices(1, 4);
    await world.start();
    expect(served(kernel)).toEqual([1, 2, 3]);
    const times = Number.POSITIVE_INFINITY;
    kernel.failNext({ code: 'ENOMEM', forKey: 'TCP 10.96.0.5:80 -> ', times });
    world.addServices(4, 8);
    await quiet();
    await world.clock.pass(0);
    expect(served(kernel)).toEqual([1, 2, 3, 4, 6, 7]);
    expect(kernel.links.texts('kube-ipvs0')).toEqual(
      [1, 2, 3, 4, 6, 7].map((octet) => `10.96.0.${octet}/32`),
    );
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual(['default/web-5:http/TCP']);

    kernel.heal();
    await world.clock.pass(1000);
    expect(served(kernel)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect([...world.sync.quarantined]).toEqual([]);
  });
});
