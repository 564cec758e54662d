/** A planner refuses calls that would build on what is not in force. */
import { beforeEach, describe, expect, it } from 'vitest';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import { noPause } from '../../../src/time/pacer.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { kernelWith } from '../../fake/kernel-with.ts';
import { ready, resolveOne, service, slice } from '../state/build.ts';
import { config } from './config.ts';
import { all, clusterIP, few, forwarding, guarded, pool } from './nftables/forwardings.ts';
import { Rig } from './nftables/rig.ts';

const web = resolveOne(service(), [slice({ '10.244.1.1': ready, '10.244.1.2': ready })]);
const grown = resolveOne(service(), [slice({ '10.244.1.1': ready, '10.244.1.3': ready })]);

let kernel: FakeKernel;
let planner: Planner;
beforeEach(async () => {
  kernel = new FakeKernel();
  planner = nftablesMode.planner(config, { serviceCIDRs: [], nodePortAddresses: 'all' });
  const repair = await (await planner.observe(kernel, noPause)).restore([web], noPause);
  repair.compare(web);
  await repair.finish(noPause);
  apply();
});

function apply(): void {
  const batch = planner.take()!;
  const result = kernel.applyNow(batch.ops);
  if (result.kind !== 'applied') throw new Error(JSON.stringify(result.failures));
  batch.committed(result);
}

describe('a planner', () => {
  it('gives no second batch before the first one is committed', () => {
    planner.change(web, grown);
    planner.take();
    planner.change(grown, undefined);
    expect(() => planner.take()).toThrow('neither committed nor refused');
  });

  it('plans no change upon a batch that was refused, until it gets the state in force', async () => {
    planner.change(web, grown);
    planner.take()!.refused();
    expect(() => planner.change(grown, undefined)).toThrow('refused');
    expect(() => planner.take()).toThrow('refused');
    await planner.resume([web], noPause);
    planner.change(web, grown);
    apply();
    const repair = await (await planner.observe(kernel, noPause)).repair(noPause);
    expect(repair.compare(grown)).toEqual({ missing: 0, wrong: 0, unwanted: 0 });
  });

  it('plans no change before the batch of a repair was taken', async () => {
    const repair = await (await planner.observe(kernel, noPause)).repair(noPause);
    repair.compare(web);
    expect(() => planner.change(web, grown)).toThrow('repair');
    planner.take();
    planner.change(web, grown);
  });

  it('compares with the observation that it made last, and only once', async () => {
    const old = await planner.observe(kernel, noPause);
    const observation = await planner.observe(kernel, noPause);
    await expect(old.repair(noPause)).rejects.toThrow('stale');
    const repair = await observation.repair(noPause);
    await repair.finish(noPause);
    expect(() => repair.compare(web)).toThrow('stale');
  });

  it('has a sweep to take only when the batch that made it due is in force', async () => {
    const sticky = { ...web, affinityTimeoutSeconds: 3600 };
    const fewer = { ...grown, affinityTimeoutSeconds: 3600 };
    planner.change(web, sticky);
    apply();
    expect(planner.takeSweep).toBeUndefined();
    planner.change(sticky, fewer);
    const batch = planner.take()!;
    expect(planner.takeSweep).toBeUndefined();
    const result = kernel.applyNow(batch.ops);
    if (result.kind === 'applied') batch.committed(result);
    expect(planner.takeSweep).toBeDefined();
    const other = { ...fewer, servicePort: { ...fewer.servicePort, name: 'other' } };
    const unswept = [fewer, other, grown].map((one) => planner.unswept?.(one));
    expect(unswept).toEqual([true, false, false]);
    expect(await planner.takeSweep?.(kernel)).toBeUndefined();
    expect(planner.unswept).toBeUndefined();
  });

  it.each([iptablesMode(), nftablesMode])(
    'of mode $name rests while it reads, as long as its pause says',
    async (mode) => {
      const hosts = Array.from({ length: 70 }, (_, i) => i + 1);
      const at = (i: number) => ({ frontends: [clusterIP(`10.96.0.${i}`)] });
      const environment = { serviceCIDRs: [], nodePortAddresses: [] };
      const rig = new Rig(config, environment, new FakeKernel(), mode);
      await rig.start(all(...hosts.map((i) => forwarding(`s${i}`, pool(1, 2), at(i)))));
      let isResting = false;
      let overlaps = 0;
      let rests = 0;
      const pause = async () => {
        if (isResting) overlaps += 1;
        isResting = true;
        rests += 1;
        await new Promise(setImmediate);
        isResting = false;
      };
      const found = await rig.planner.observe(rig.kernel, pause);
      expect(rests).toBeGreaterThan(1);
      expect([overlaps, isResting]).toEqual([0, false]);
      found.drop();
    },
  );

  it.each([
    [nftablesMode, true],
    [iptablesMode(), true],
    [ipvsMode, false],
  ] as const)('of mode $name leaves out base chains at first: %o', async (mode, isStaged) => {
    const empty = mode.planner(config, { serviceCIDRs: [], nodePortAddresses: [] });
    const observation = await empty.observe(new FakeKernel(), noPause);
    expect(observation.stage?.() !== undefined).toBe(isStaged);
  });

  it('that may not write while it reads knows when what it has read is stale', async () => {
    const environment = { serviceCIDRs: [], nodePortAddresses: [] };
    const rig = new Rig(config, environment, new FakeKernel(), iptablesMode());
    await rig.start(all(web));
    let during = (): void => {};
    const dump: Kernel['dump'] = (...args) => {
      during();
      during = () => {};
      return rig.kernel.dump(...args);
    };
    const isStale = async (act: () => void) => {
      during = act;
      const found = await rig.planner.observe(kernelWith(rig.kernel, { dump }), noPause);
      found.drop();
      return found.isStale;
    };
    expect(await isStale(() => {})).toBe(false);
    rig.plan(all(grown));
    expect(await isStale(() => {})).toBe(true);
    const batch = rig.planner.take()!;
    const commit = () => {
      const result = rig.kernel.applyNow(batch.ops);
      if (result.kind === 'applied') batch.committed(result);
    };
    expect(await isStale(commit)).toBe(true);
    expect(await isStale(() => {})).toBe(false);
    rig.plan(all(web));
    expect(await isStale(() => rig.take())).toBe(true);
  });

  it('counts no elements while changes are on their way', async () => {
    expect(await planner.miscounts?.(kernel)).toEqual([]);
    planner.change(web, grown);
    expect(await planner.miscounts?.(kernel)).toBeUndefined();
    apply();
    expect(await planner.miscounts?.(kernel)).toEqual([]);
  });
});

it.each([iptablesMode(), ipvsMode, nftablesMode])(
  'a planner of mode $name says about how many bytes a batch will have that creates or deletes Services',
  async (mode) => {
    const hosts = Array.from({ length: 10 }, (_, i) => i + 1);
    const named = (name: (i: number) => ReturnType<typeof forwarding>) => all(...hosts.map(name));
    const at = (i: number) => ({ frontends: [clusterIP(`10.96.0.${i}`)] });
    for (const [wanted, most] of [
      [named((i) => forwarding(`s${i}`, pool(1), at(i))), 3],
      [named((i) => forwarding(`s${i}`, pool(...hosts), at(i))), 2.5],
      [named((i) => few(`s${i}`, i, `192.0.2.${i}/32`)), 5],
      [named((i) => guarded(`s${i}`, i, `192.0.2.${i}/32`)), 5],
    ] as const) {
      const environment = { serviceCIDRs: [], nodePortAddresses: [] };
      const rig = new Rig(config, environment, new FakeKernel(), mode);
      await rig.start(new Map());
      const ratio = (next: typeof wanted): number => {
        rig.plan(next);
        const { pendingBytes } = rig.planner;
        const batch = rig.planner.take()!;
        const result = rig.kernel.applyNow(batch.ops);
        if (result.kind === 'applied') batch.committed(result);
        return pendingBytes / batch.ops.length;
      };
      const created = ratio(wanted);
      expect(created).toBeGreaterThan(0.9);
      expect(created).toBeLessThan(most);
      expect(ratio(new Map())).toBeGreaterThan(1);
    }
  },
);
