import { expect, it } from 'vitest';
import { IptablesBackend } from '../../../../src/modes/iptables/backend.ts';
import type { IptablesObservation } from '../../../../src/modes/iptables/observation.ts';
import { RuleTraffic } from '../../../../src/modes/iptables/traffic.ts';
import { noPause } from '../../../../src/modes/mode.ts';
import { ModePlanner } from '../../../../src/modes/planner.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { ready, resolveOne, service, slice } from '../../state/build.ts';
import { config } from '../config.ts';

/** Gives away what it has read last. */
class OpenBackend extends IptablesBackend {
  found: IptablesObservation | undefined;

  override async read(...args: Parameters<IptablesBackend['read']>): Promise<IptablesObservation> {
    this.found = await super.read(...args);
    return this.found;
  }
}

it.each(['compared', 'abandoned'])(
  'an iptables observation ignores later batches once it is %s',
  async (end) => {
    const kernel = new FakeKernel();
    const backend = new OpenBackend(config, new RuleTraffic());
    const planner = new ModePlanner(backend, { serviceCIDRs: [], nodePortAddresses: 'all' });
    const wanted = resolveOne(service(), [slice({ '10.244.1.1': ready })]);
    const apply = (): void => {
      const batch = planner.take();
      if (batch === undefined) return;
      const result = kernel.applyNow(batch.ops);
      expect(result.kind).toBe('applied');
      if (result.kind === 'applied') batch.committed(result);
    };

    const observation = await planner.observe(kernel, noPause);
    const found = backend.found!;
    const repair = await observation.restore([wanted], noPause);
    repair.compare(wanted);
    // What changes before the comparison is over is noted: nothing is to be deleted twice.
    apply();
    planner.change(wanted, undefined);
    apply();
    const noted = found.deleted.size;
    expect(noted).toBeGreaterThan(0);
    if (end === 'compared') await repair.finish(noPause);
    else observation.drop();
    apply();

    planner.change(undefined, wanted);
    apply();
    planner.change(wanted, undefined);
    apply();
    expect(found.deleted.size).toBe(noted);
  },
);
