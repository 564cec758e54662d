/** What is in force is counted against what the kernel counts. */
import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import type { NftSet } from '../../fake/nft-state.ts';
import { address } from '../state/build.ts';
import { type NFTablesWorld, nftablesWorld } from './nftables-world.ts';
import { webService } from './world.ts';

async function running(kernel = new FakeKernel()): Promise<NFTablesWorld> {
  const world = nftablesWorld(kernel);
  world.addServices(0, 30);
  world.setService(webService('web-29', 29, { affinityTimeoutSeconds: 60 }));
  await world.start();
  await world.clock.pass(2000);
  return world;
}

function setOf(kernel: FakeKernel, name: string): NftSet {
  return kernel.table(NFPROTO.IPv4, 'fairlead')!.sets.get(name)!;
}

/** As if a batch of ours had deleted too much: the generation does not show it. */
function loseElement(kernel: FakeKernel, set: string): void {
  const { elements } = setOf(kernel, set);
  const [first] = elements.keys();
  elements.delete(first!);
}

describe('the count of elements', () => {
  it.each(['services', 'cluster-ips', 'endpoints-a', 'sticky-services', 'learn-tcp'])(
    'detects within seconds that %s lacks one, and blames no other program',
    async (set) => {
      const world = await running();
      const before = setOf(world.kernel, set).elements.size;
      loseElement(world.kernel, set);
      await world.clock.pass(11_000);
      expect(setOf(world.kernel, set).elements.size).toBe(before);
      expect(world.kinds('miscounted')).toMatchObject([
        { miscounts: [{ object: `map ${set}`, expected: before, counted: before - 1 }] },
      ]);
      expect(world.kinds('drift').at(-1)).toMatchObject({ purpose: 'audit', writers: 'only us' });
      await world.stop();
    },
  );

  it('finds within seconds that an address which accepts node ports is missing', async () => {
    const world = nftablesWorld(new FakeKernel());
    world.environment = { serviceCIDRs: [], nodePortAddresses: [address('192.168.0.1')] };
    await world.start();
    await world.clock.pass(2000);
    loseElement(world.kernel, 'nodeport-ips');
    await world.clock.pass(11_000);
    expect(setOf(world.kernel, 'nodeport-ips').elements.size).toBe(1);
  });

  it('blames other programs if they have written', async () => {
    const world = await running();
    const { kernel } = world;
    const services = { family: NFPROTO.IPv4, table: 'fairlead', set: 'services' };
    kernel.foreign(batch({ kind: 'setFlush', ...services }));
    await world.clock.pass(11_000);
    expect(world.kinds('drift').at(-1)).toMatchObject({ purpose: 'audit', writers: 'others' });
  });
});
