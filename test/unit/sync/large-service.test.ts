/** One Service with thousands of ports, together with others. */
import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import type { Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { ready, slice, slicePort } from '../state/build.ts';
import { turnsUntil } from '../turns.ts';
import { type NFTablesWorld, nftablesWorld } from './nftables-world.ts';
import { webService } from './world.ts';

/** Port `pN` is number `first + N`, all on one ClusterIP. */
function manyPorts(name: string, count: number, first: number, number = 4000): Service {
  const ports = Array.from({ length: count }, (_, p) => {
    return { name: `p${p}`, protocol: 'TCP', port: first + p, nodePort: 0 } as const;
  });
  return webService(name, number, { ports });
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
      changed: (_, next) => {
        if (beganAt === undefined && next?.frontends.some(({ port }) => port >= 3000)) {
          beganAt = kernel.commits;
          world.setEndpoints('web-0', '10.244.9.9');
        }
        if (!next?.cluster.texts().includes('10.244.9.9:8080')) return;
        const isOldThere = services(kernel).some((element) => element.includes('. 1999 comment'));
        then = { commits: kernel.commits, isOldThere };
      },
    });
    world.addServices(0, 1);
    world.setService(manyPorts('large', 1000, 1000));
    setEndpoints(world, 'large', 1000, 2);
    await world.start();
    await settled(world);
    kernel.delayTurns = 10;
    world.setService(manyPorts('large', 1000, 3000));
    await turnsUntil(() => then !== undefined);
    // Of some 25 in all: those under way when it came, and its own.
    expect(then!.commits - beganAt!).toBeLessThanOrEqual(6);
    expect(then!.isOldThere).toBe(true);
  });

  it('does not delay another one together with many others that have many slots', async () => {
    const kernel = new FakeKernel();
    const large = Array.from({ length: 20 }, (_, i) => `large-${i}`);
    /** Of the commits: when the small change came, and those until it is in force. */
    let begun: { readonly commits: number; readonly left: number } | undefined;
    let then: { readonly commits: number; readonly left: number } | undefined;
    const replaced = new Set<string>();
    const world = nftablesWorld(kernel, 16_000, {
      changed: (_, next) => {
        if (next === undefined || then !== undefined) return;
        if (next.cluster.texts().some((text) => text.startsWith('10.244.8.'))) {
          replaced.add(next.key);
        }
        const now = { commits: kernel.commits, left: 5 * large.length - replaced.size };
        if (replaced.size === 1 && begun === undefined) {
          begun = now;
          world.setEndpoints('web-0', '10.244.9.9');
        }
        if (next.cluster.texts().includes('10.244.9.9:8080')) then = now;
      },
    });
    /** Two endpoints, of which one has nearly all of 256 slots. */
    const setSlots = (name: string, address: string): void => {
      for (const [weight, of] of [
        [1, '10.244.7.1'],
        [1000, address],
      ] as const) {
        const ports = Array.from({ length: 5 }, (_, p) => slicePort(`p${p}`, 8000));
        const fields = { key: `default/${name}-${weight}`, service: `default/${name}`, ports };
        const record = { ...slice({ [of]: ready }, fields), weight };
        world.state.apply({ kind: 'slice', slice: record });
      }
      world.loop.wake();
    };
    world.addServices(0, 1);
    for (const [i, name] of large.entries()) {
      world.setService(manyPorts(name, 5, 1000, 4000 + i));
      setSlots(name, `10.244.6.${i}`);
    }
    await world.start();
    await settled(world);
    kernel.delayTurns = 10;
    for (const [i, name] of large.entries()) setSlots(name, `10.244.8.${i}`);
    await turnsUntil(() => then !== undefined);
    // The batch that is under way when it comes, the one that is planned, and its own.
    expect(then!.commits - begun!.commits).toBeLessThanOrEqual(3);
    expect(then!.left).toBeGreaterThan(80);
  });
});
