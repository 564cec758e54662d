import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { shards } from '../../../src/modes/nftables/layout.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { quiet } from './double.ts';
import { type NFTablesWorld, nftablesWorld } from './nftables-world.ts';
import { webService } from './world.ts';

const services = 6;

type Step =
  | { readonly kind: 'endpoints'; readonly service: number; readonly hosts: readonly number[] }
  | { readonly kind: 'remove'; readonly service: number }
  | { readonly kind: 'sticky'; readonly service: number; readonly seconds: number }
  | { readonly kind: 'foreign'; readonly what: 'element' | 'table' }
  | { readonly kind: 'fault'; readonly code: string; readonly service: number }
  | { readonly kind: 'lost-answer' }
  | { readonly kind: 'interrupted' }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'crash'; readonly listings: number };

const service = fc.nat(services - 1);
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('endpoints' as const),
      service,
      hosts: fc.uniqueArray(fc.nat(12), { maxLength: 8 }),
    }),
  },
  fc.record({ kind: fc.constant('remove' as const), service }),
  fc.record({
    kind: fc.constant('sticky' as const),
    service,
    seconds: fc.constantFrom(0, 600, 10_800),
  }),
  fc.record({
    kind: fc.constant('foreign' as const),
    what: fc.constantFrom('element' as const, 'table' as const),
  }),
  fc.record({
    kind: fc.constant('fault' as const),
    code: fc.constantFrom('EINVAL', 'ENOENT', 'ENOMEM'),
    service,
  }),
  fc.record({ kind: fc.constant('lost-answer' as const) }),
  fc.record({ kind: fc.constant('interrupted' as const) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.constantFrom(0, 1000, 11_000) }),
  fc.record({ kind: fc.constant('crash' as const), listings: fc.nat(2) }),
);

interface Web {
  hosts: readonly number[];
  affinityTimeoutSeconds: number;
}

function tell(cluster: ReadonlyMap<number, Web>, world: NFTablesWorld): void {
  for (const [i, { hosts, affinityTimeoutSeconds }] of cluster) {
    world.setService(webService(`web-${i}`, i + 1, { affinityTimeoutSeconds }));
    world.setEndpoints(`web-${i}`, ...hosts.map((host) => `10.244.0.${host + 1}`));
  }
}

async function start(
  cluster: ReadonlyMap<number, Web>,
  kernel: FakeKernel,
): Promise<NFTablesWorld> {
  const world = nftablesWorld(kernel);
  tell(cluster, world);
  world.synced();
  world.run();
  await quiet();
  return world;
}

/** A process that ends before it has received everything. */
async function dieListing(cluster: ReadonlyMap<number, Web>, kernel: FakeKernel): Promise<void> {
  const world = nftablesWorld(kernel);
  world.run();
  await quiet();
  world.addServices(100, 166);
  tell(cluster, world);
  await quiet();
  await world.stop();
}

function meddle(kernel: FakeKernel, what: 'element' | 'table'): void {
  const [element] = kernel.elements(NFPROTO.IPv4, 'fairlead', 'services');
  if (what === 'element' && element === undefined) return;
  const writer = new RecordWriter(nftOps);
  const table = { family: NFPROTO.IPv4, table: 'fairlead' };
  if (kernel.table(NFPROTO.IPv4, 'fairlead') === undefined) return;
  if (what === 'table') writer.write('tableDelete', table);
  else writer.write('setFlush', { ...table, set: 'services' });
  kernel.foreign(writer.finish());
}

async function take(
  step: Step,
  world: NFTablesWorld,
  cluster: Map<number, Web>,
  kernel: FakeKernel,
): Promise<NFTablesWorld> {
  switch (step.kind) {
    case 'endpoints': {
      const { affinityTimeoutSeconds = 0 } = cluster.get(step.service) ?? {};
      cluster.set(step.service, { hosts: step.hosts, affinityTimeoutSeconds });
      tell(cluster, world);
      return world;
    }
    case 'sticky': {
      const { hosts = [] } = cluster.get(step.service) ?? {};
      cluster.set(step.service, { hosts, affinityTimeoutSeconds: step.seconds });
      tell(cluster, world);
      return world;
    }
    case 'remove':
      if (cluster.delete(step.service)) world.removeService(`web-${step.service}`);
      return world;
    case 'foreign':
      meddle(kernel, step.what);
      return world;
    case 'fault': {
      const forKey = `10.96.0.${step.service + 1} . `;
      if (step.code === 'ENOMEM') kernel.failNext({ code: step.code });
      else kernel.failNext({ code: step.code, forSet: 'services', forKey });
      return world;
    }
    case 'lost-answer':
      kernel.unknownOutcome();
      return world;
    case 'interrupted':
      kernel.interruptDumps();
      return world;
    case 'wait':
      await world.clock.pass(step.ms);
      return world;
    case 'crash':
      await quiet();
      void world.stop();
      await quiet();
      for (let i = 0; i < step.listings; i += 1) await dieListing(cluster, kernel);
      return start(cluster, kernel);
  }
}

/** `10.96.0.1 . tcp . 80 → endpoints` for each Service that forwards. */
function forwarded(kernel: FakeKernel): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  const inShards = shards.flatMap((shard) =>
    kernel.elements(NFPROTO.IPv4, 'fairlead', `endpoints-${shard}`),
  );
  for (const element of inShards) {
    const [, frontend, endpoint] = /^(.*) \. \S+ : (.*)$/.exec(element) ?? [];
    found[frontend!] ??= [];
    found[frontend!]!.push(endpoint!);
  }
  for (const endpoints of Object.values(found)) endpoints.sort();
  return found;
}

function expected(cluster: ReadonlyMap<number, Web>): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const [i, { hosts }] of cluster) {
    const endpoints = hosts.map((host) => `10.244.0.${host + 1} . 8080`).sort();
    if (hosts.length > 0) found[`10.96.0.${i + 1} . tcp . 80`] = endpoints;
  }
  return found;
}

describe('the sync loop with mode nftables after random changes', () => {
  it('reaches the desired endpoints, and a restart then writes nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { maxLength: 20 }), async (steps) => {
        const kernel = new FakeKernel();
        const cluster = new Map<number, Web>();
        let world = await start(cluster, kernel);
        for (const step of steps) world = await take(step, world, cluster, kernel);
        kernel.heal();
        await world.clock.pass(240_000);
        expect(forwarded(kernel)).toEqual(expected(cluster));
        expect([...world.sync.quarantined]).toEqual([]);
        await world.stop();

        const { writes } = kernel;
        const next = await start(cluster, kernel);
        await next.clock.pass(5000);
        expect(kernel.writes).toBe(writes);
        await next.stop();
      }),
      { numRuns: 60 },
    );
  });
});
