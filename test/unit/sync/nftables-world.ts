/** A world whose kernel is the fake one, in mode nftables. */
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import type { ForwardingFollower } from '../../../src/sync/follower.ts';
import type { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/nftables/forwardings.ts';
import type { ToyClock } from './double.ts';
import { World } from './world.ts';

export type NFTablesWorld = World<FakeKernel>;

export function nftablesWorld(
  kernel: FakeKernel,
  batchBytesMax = 2000,
  follower?: ForwardingFollower,
  clock?: ToyClock,
): NFTablesWorld {
  return new World(
    { batchBytesMax },
    kernel,
    (environment) => nftablesMode.planner(config, environment),
    follower,
    clock,
  );
}
