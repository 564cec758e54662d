import { expect, it } from 'vitest';
import type { RepairPart } from '../../../../src/modes/backend.ts';
import { IptablesBackend, type IptablesTypes } from '../../../../src/modes/iptables/backend.ts';
import { RuleTraffic } from '../../../../src/modes/iptables/traffic.ts';
import { ModePlanner } from '../../../../src/modes/planner.ts';
import { noPause } from '../../../../src/time/pacer.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { ready, resolveOne, service, slice } from '../../state/build.ts';
import { config } from '../config.ts';

/** Shows what the comparison notes of batches. */
class OpenBackend extends IptablesBackend {
  touched: ReadonlySet<string> = new Set();

  override repairFixed(found: IptablesTypes['found'], repair: RepairPart<IptablesTypes>) {
    this.touched = repair.touched;
    return super.repairFixed(found, repair);
  }
}

it.each(['compared', 'abandoned'])(
  'an iptables comparison ignores later batches once it is %s',
  async (end) => {
    const kernel = new FakeKernel();
    const backend = new OpenBackend(config, new RuleTraffic());
    const planner = new ModePlanner<IptablesTypes>({
      family: config.family,
      backend: () => backend,
      environment: { serviceCIDRs: [], nodePortAddresses: 'all' },
    });
    const wanted = resolveOne(service(), [slice({ '10.244.1.1': ready })]);
    const apply = (): void => {
      const batch = planner.take();
      if (batch === undefined) return;
      const result = kernel.applyNow(batch.ops);
      expect(result.kind).toBe('applied');
      if (result.kind === 'applied') batch.committed(result);
    };

    const observation = await planner.observe(kernel, noPause);
    const repair = await observation.restore([wanted], noPause);
    repair.compare(wanted);
    // What changes before the comparison is over is noted: nothing is to be deleted twice.
    apply();
    planner.change(wanted, undefined);
    apply();
    expect([...backend.touched]).toContainEqual(expect.stringMatching(/^nat #/));
    if (end === 'compared') await repair.finish(noPause);
    else observation.drop();
    apply();
    const { size } = backend.touched;

    planner.change(undefined, wanted);
    apply();
    planner.change(wanted, undefined);
    apply();
    expect(backend.touched.size).toBe(size);
  },
);
