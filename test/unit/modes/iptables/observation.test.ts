import { expect, it } from 'vitest';
import { iptablesMode } from '../../../../src/modes/iptables/mode.ts';
import type { IptablesObservation } from '../../../../src/modes/iptables/observation.ts';
import { noPause } from '../../../../src/modes/mode.ts';
import { FakeKernel } from '../../../fake/kernel.ts';
import { ready, resolveOne, service, slice } from '../../state/build.ts';
import { config } from '../config.ts';

it.each(['compared', 'abandoned'])('learns nothing more of batches once it is %s', async (end) => {
  const kernel = new FakeKernel();
  const planner = iptablesMode().planner(config, { serviceCIDRs: [], nodePortAddresses: 'all' });
  const wanted = resolveOne(service(), [slice({ '10.244.1.1': ready })]);
  const apply = (): void => {
    const batch = planner.take()!;
    const result = kernel.applyNow(batch.ops);
    expect(result.kind).toBe('applied');
    if (result.kind === 'applied') batch.committed?.(result);
  };

  const found = (await planner.observe(kernel, noPause)) as IptablesObservation;
  await planner.reset([wanted], noPause);
  await planner.repairFixed(found, noPause);
  planner.repair(found, wanted);
  // What changes before the comparison is over is noted: nothing is to be deleted twice.
  apply();
  planner.change(wanted, undefined);
  apply();
  const noted = found.deleted.size;
  expect(noted).toBeGreaterThan(0);
  if (end === 'compared') await planner.prune(found, noPause);
  else planner.abandon?.(found);

  planner.change(undefined, wanted);
  apply();
  planner.change(wanted, undefined);
  apply();
  expect(found.deleted.size).toBe(noted);
});
