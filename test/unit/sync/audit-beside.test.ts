import { expect, it } from 'vitest';
import type { DumpResult } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { Reply, Request } from '../../../src/kernel/ops.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { batch } from '../../conformance/ops.ts';
import { delivered, FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/nftables/forwardings.ts';
import { quiet } from './double.ts';
import { World } from './world.ts';

/** A commit during a dump spoils it, as in the real kernel. */
class BusyKernel extends FakeKernel {
  during: () => Promise<void> = async () => {};
  dumps = 0;

  override async dump(request: Request, take?: (record: Reply) => void): Promise<DumpResult> {
    const { records } = await super.dump(request);
    const before = await this.generation();
    this.dumps += 1;
    await this.during();
    const consistent = (await this.generation()) === before;
    return delivered({ records, consistent }, take);
  }
}

it('an audit ends and repairs although something changes during each dump', async () => {
  const kernel = new BusyKernel();
  const world = new World({}, kernel, (environment) => nftablesMode.planner(config, environment));
  world.addServices(0, 20);
  world.synced();
  world.run();
  await quiet();
  const set = { family: NFPROTO.IPv4, table: 'fairlead', set: 'services', shape: 0 };
  const entries = Uint8Array.of(10, 96, 0, 15, 6, 0, 0, 0, 0, 80, 0, 0);
  const entry = { keyLength: 12, dataLength: 0, count: 1, entries };
  kernel.foreign(batch({ kind: 'elementsDelete', ...set, ...entry }));
  const { commits } = kernel;
  kernel.dumps = 0;
  kernel.during = async () => {
    const host = kernel.dumps % 250;
    world.setEndpoints(`web-${kernel.dumps % 10}`, `10.245.0.${host}`, `10.245.1.${host}`);
    await quiet();
  };
  world.sync.audit.verify();
  for (let i = 0; i < 100 && world.kinds('audited').length === 0; i += 1) await quiet();
  kernel.during = async () => {};
  await quiet();
  expect(world.kinds('audited')).toHaveLength(1);
  // Changes in that time were written in that time; only the rest was left to repair.
  expect(kernel.commits - commits).toBeGreaterThan(20);
  expect(kernel.elements(NFPROTO.IPv4, 'fairlead', 'services')).toHaveLength(20);
  world.sync.audit.verify();
  await quiet();
  expect(world.kinds('failed')).toEqual([]);
  expect(world.kinds('drift')).toHaveLength(2);
});
