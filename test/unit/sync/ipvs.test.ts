/** The loop with the ipvs mode: batches that the kernel takes in part. */
import { describe, expect, it } from 'vitest';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/config.ts';
import { quiet } from './double.ts';
import { World } from './world.ts';

function worldOn(kernel: FakeKernel): World<FakeKernel> {
  return new World({}, kernel, (environment) => ipvsMode.planner(config, environment));
}

/** Virtual services that have an endpoint, by the last octet. */
function served({ ipvs }: FakeKernel): number[] {
  const found = ipvs.text().matchAll(/TCP 10\.96\.0\.(\d+):80 .*\n {2}-> /g);
  return [...found].map(([, octet]) => Number(octet)).sort((a, b) => a - b);
}

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
    await world.stop();
  });

  it("is repaired from the kernel's state if another program has changed it", async () => {
    const kernel = new FakeKernel();
    const world = worldOn(kernel);
    world.addServices(1, 4);
    await world.start();
    const found = [...kernel.ipvs.text().matchAll(/TCP/g)].length;
    expect(found).toBe(3);
    await ipvsMode.cleanup(kernel);
    world.setEndpoints('web-2', '10.244.9.9');
    await quiet();
    await world.clock.pass(1000);
    expect(served(kernel)).toEqual([1, 2, 3]);
    expect(kernel.ipvs.text()).toContain('-> 10.244.9.9:8080 masq weight 1');
    await world.stop();
  });

  it('is followed by no writes after a restart', async () => {
    const kernel = new FakeKernel();
    const before = worldOn(kernel);
    before.addServices(1, 20);
    await before.start();
    await before.stop();
    const { writes } = kernel;
    const after = worldOn(kernel);
    after.addServices(1, 20);
    await after.start();
    expect(kernel.writes).toBe(writes);
    expect(after.kinds('drift')).toEqual([]);
    await after.stop();
  });
});
