/** One Service with thousands of ports, together with others. */
import { describe, expect, it, vi } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { ready, slice, slicePort } from '../state/build.ts';
import { type NFTablesWorld, nftablesWorld } from './nftables-world.ts';
import { webService } from './world.ts';

vi.setConfig({ testTimeout: 60_000 });

/** Port `pN` is number `first + N`, all on one ClusterIP. */
function manyPorts(name: string, count: number, first: number): Service {
  const ports = Array.from({ length: count }, (_, p) => {
    return { name: `p${p}`, protocol: 'TCP', port: first + p, nodePort: 0 } as const;
  });
  return webService(name, 4000, { ports });
}

function setEndpoints(world: NFTablesWorld, name: string, count: number, hosts: number): void {
  const addresses = Array.from({ length: hosts }, (_, i) => [`10.244.7.${i + 1}`, ready] as const);
  const ports = Array.from({ length: count }, (_, p) => slicePort(`p${p}`, 8000));
  const fields = { key: `default/${name}-1`, service: `default/${name}`, ports };
  world.state.apply({ kind: 'slice', slice: slice(Object.fromEntries(addresses), fields) });
  world.loop.wake();
}

function services(kernel: FakeKernel): string[] {
  return kernel.elements(NFPROTO.IPv4, 'fairlead', 'services');
}

async function settled(world: NFTablesWorld): Promise<void> {
  for (let i = 0; i < 40; i += 1) await world.clock.pass(0);
}

describe('a Service with many ports', () => {
  it('keeps all of them if its port range moves by a part of itself', async () => {
    const kernel = new FakeKernel();
    const world = nftablesWorld(kernel, 16_000);
    world.setService(manyPorts('large', 2000, 1000));
    setEndpoints(world, 'large', 2000, 12);
    await world.start();
    await settled(world);
    const { commits } = kernel;
    world.setService(manyPorts('large', 2000, 1100));
    await settled(world);
    expect(kernel.commits - commits).toBeGreaterThan(10);
    const expected = Array.from({ length: 2000 }, (_, p) => {
      return `10.96.15.160 . tcp . ${1100 + p} comment "default/large:p${p}"`;
    });
    const found = services(kernel).map((element) => element.replace(/ : .*/, ''));
    expect(found.sort()).toEqual(expected.sort());
  });

  it('does not delay a change of another Service that arrives while it is written', async () => {
    const kernel = new FakeKernel();
    // By commits of the kernel, however fast it is: when the change came, and when it is in force.
    let beganAt: number | undefined;
    let then: { readonly commits: number; readonly isOldThere: boolean } | undefined;
    const world = nftablesWorld(kernel, 16_000, {
      moving: () => undefined,
      changed: (_, next) => {
        if (beganAt === undefined && next?.frontends.some(({ port }) => port >= 3000)) {
          beganAt = kernel.commits;
          world.setEndpoints('web-0', '10.244.9.9');
        }
        if (!next?.cluster.texts().includes('10.244.9.9:8080')) return;
        const isOldThere = services(kernel).some((element) => element.includes('. 1999 comment'));
        then = { commits: kernel.commits, isOldThere };
      },
      upToDate: () => undefined,
    });
    world.addServices(0, 1);
    world.setService(manyPorts('large', 1000, 1000));
    setEndpoints(world, 'large', 1000, 2);
    await world.start();
    await settled(world);
    kernel.delayMs = 1;
    world.setService(manyPorts('large', 1000, 3000));
    await vi.waitUntil(() => then !== undefined, { timeout: 30_000 });
    // Of some 25 in all: those under way when it came, and its own.
    expect(then!.commits - beganAt!).toBeLessThanOrEqual(6);
    expect(then!.isOldThere).toBe(true);
  });
});
