import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quiet, refusal, type ToyKernel } from './double.ts';
import { World, webService } from './world.ts';

const services = 8;

type Step =
  | { readonly kind: 'endpoints'; readonly service: number; readonly last: number }
  | { readonly kind: 'add' | 'remove'; readonly service: number }
  | { readonly kind: 'meddle'; readonly service: number; readonly how: 'delete' | 'change' | 'add' }
  | { readonly kind: 'refuse'; readonly service: number; readonly code: string }
  | { readonly kind: 'relent' }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'crash'; readonly lastBatch: 'applied' | 'lost' };

const service = fc.nat(services - 1);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('endpoints' as const), service, last: fc.nat(255) }),
  fc.record({ kind: fc.constantFrom('add' as const, 'remove' as const), service }),
  fc.record({
    kind: fc.constant('meddle' as const),
    service,
    how: fc.constantFrom('delete' as const, 'change' as const, 'add' as const),
  }),
  fc.record({
    kind: fc.constant('refuse' as const),
    service,
    code: fc.constantFrom('EINVAL', 'ENOENT', 'ENOMEM'),
  }),
  fc.record({ kind: fc.constant('relent' as const) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 1, 500, 3000, 15_000) }),
  fc.record({
    kind: fc.constant('crash' as const),
    lastBatch: fc.constantFrom('applied' as const, 'lost' as const),
  }),
);

/** The cluster as it is, whoever watches. */
class Cluster {
  readonly addresses = new Map<number, number>();

  tell(world: World): void {
    for (const [i, last] of this.addresses) {
      world.setService(webService(`web-${i}`, i));
      world.setEndpoints(`web-${i}`, `10.244.0.${last}`);
    }
  }

  /** Objects that the kernel should hold. */
  get objects(): Map<string, string> {
    const objects = new Map([['fixed', 'cidrs 0']]);
    for (const [i, last] of this.addresses) {
      const address = Buffer.from([10, 244, 0, last, 0x1f, 0x90, 0, 0]).toString('hex');
      objects.set(`f default/web-${i}:http/TCP`, `${address} clusterIP:80`);
      objects.set(`o default/web-${i}:http/TCP`, 'o');
    }
    return objects;
  }
}

async function restart(cluster: Cluster, kernel?: ToyKernel): Promise<World> {
  const world = new World({ batchBytesMax: 300 }, kernel);
  cluster.tell(world);
  world.synced();
  world.run();
  await quiet();
  return world;
}

function meddle(kernel: ToyKernel, i: number, how: 'delete' | 'change' | 'add'): void {
  const key = `f default/web-${i}:http/TCP`;
  kernel.meddle((objects) => {
    if (how === 'delete') objects.delete(key);
    else if (how === 'add') objects.set(`f default/ghost-${i}:http/TCP`, 'ff x');
    else if (objects.has(key)) objects.set(key, 'ee x');
  });
}

async function take(step: Step, world: World, cluster: Cluster): Promise<World> {
  switch (step.kind) {
    case 'endpoints':
      if (!cluster.addresses.has(step.service)) return world;
      cluster.addresses.set(step.service, step.last);
      cluster.tell(world);
      return world;
    case 'add':
      cluster.addresses.set(step.service, step.service);
      cluster.tell(world);
      return world;
    case 'remove':
      if (cluster.addresses.delete(step.service)) world.removeService(`web-${step.service}`);
      return world;
    case 'meddle':
      meddle(world.kernel, step.service, step.how);
      return world;
    case 'refuse':
      world.kernel.refuse = (ops) => {
        const op = ops.findIndex(({ object }) => object.includes(`web-${step.service}:`));
        return op < 0 ? undefined : refusal(step.code, step.code === 'ENOMEM' ? undefined : op);
      };
      return world;
    case 'relent':
      world.kernel.refuse = () => undefined;
      return world;
    case 'wait':
      await world.clock.pass(step.ms);
      return world;
    case 'crash': {
      const release = world.kernel.hold();
      await quiet();
      void world.stop();
      if (step.lastBatch === 'applied') release();
      await quiet();
      world.kernel.hold()();
      return restart(cluster, world.kernel);
    }
  }
}

describe('the sync after crashes at random moments', () => {
  it('reaches exactly the desired state', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { maxLength: 25 }), async (steps) => {
        const cluster = new Cluster();
        let world = await restart(cluster);
        for (const step of steps) world = await take(step, world, cluster);
        world.kernel.refuse = () => undefined;
        const { reads } = world.kernel;
        await world.clock.pass(240_000);
        expect([...world.kernel.objects].sort()).toEqual([...cluster.objects].sort());
        // Never a hot loop: the audit and a few recoveries, however much went wrong.
        expect(world.kernel.reads - reads).toBeLessThan(15);
        await world.stop();
      }),
      { numRuns: 150 },
    );
  });

  it('writes only the difference after a crash', async () => {
    const calm = anyStep.filter(({ kind }) => kind !== 'refuse' && kind !== 'relent');
    await fc.assert(
      fc.asyncProperty(fc.array(calm, { maxLength: 25 }), async (steps) => {
        const cluster = new Cluster();
        let world = await restart(cluster);
        for (const step of steps) world = await take(step, world, cluster);
        const release = world.kernel.hold();
        void world.stop();
        release();
        await quiet();
        const held = world.kernel.objects;
        const wanted = cluster.objects;
        const all = new Set([...held.keys(), ...wanted.keys()]);
        const different = [...all].filter((object) => held.get(object) !== wanted.get(object));

        const { writes } = world.kernel;
        const next = await restart(cluster, world.kernel);
        await next.clock.pass(0);
        expect(next.kernel.writes - writes).toBe(different.length);
        expect([...next.kernel.objects].sort()).toEqual([...wanted].sort());
        await next.stop();
      }),
      { numRuns: 150 },
    );
  });
});
