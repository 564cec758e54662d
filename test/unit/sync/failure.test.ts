import { describe, expect, it } from 'vitest';
import type { SyncEvent } from '../../../src/sync/events.ts';
import { isMostlyRefused } from '../../../src/sync/family.ts';
import { ips } from '../state/build.ts';
import { quiet, refusal, type ToyOp } from './double.ts';
import { port, started, World, webService } from './world.ts';

/** Refuses every batch that writes the Service, and says which op it was. */
function refuseService(name: string, code = 'EINVAL') {
  return (ops: readonly ToyOp[]) => {
    const op = ops.findIndex(({ object, is }) => object === `f ${port(name)}` && is !== undefined);
    return op < 0 ? undefined : refusal(code, op);
  };
}

function delays(world: World): (number | undefined)[] {
  return world.events.flatMap((event: SyncEvent) =>
    event.kind === 'quarantined' || event.kind === 'failed' ? [event.retryMs] : [],
  );
}

describe('a Service that the kernel refuses', () => {
  it.each([
    [0, 0, false],
    [1, 1, true],
    [4, 5, false],
    [9, 10, false],
    [10, 20, false],
    [11, 20, true],
    [9999, 10_000, true],
  ])(
    'does or does not make the node unhealthy, %i of %i refused Service ports: %s',
    (refused, all, unhealthy) => {
      expect(isMostlyRefused(refused, all)).toBe(unhealthy);
    },
  );

  it.each([
    ['stays as it is', 'damaged'],
    ['is not in force', undefined],
  ])('%s where a repair can write no form of it, and is tried again', async (_what, held) => {
    const world = await started(3);
    const { kernel } = world;
    kernel.refuse = refuseService('web-1');
    kernel.meddle((objects) => {
      if (held === undefined) objects.delete(`f ${port('web-1')}`);
      else objects.set(`f ${port('web-1')}`, held);
    });
    for (const watch of kernel.watches) watch.changed();
    await world.clock.pass(400);
    world.setEndpoints('web-2', '10.244.9.9');
    await world.clock.pass(100_000);
    expect(kernel.objects.get(`f ${port('web-1')}`)).toBe(held);
    expect(world.forwarded[port('web-2')]).toBe('0af409091f900000');
    expect(kernel.reads).toBeLessThan(20);
    expect([...world.sync.quarantined]).toMatchObject([{ key: port('web-1') }]);
    kernel.refuse = () => undefined;
    await world.clock.pass(60_000);
    expect(world.forwarded).toEqual(world.wanted);
    expect([...world.sync.quarantined]).toEqual([]);
  });

  it('goes when it is deleted, also where a repair has left it', async () => {
    const world = await started(3);
    world.kernel.refuse = refuseService('web-1');
    world.kernel.meddle((objects) => objects.set(`f ${port('web-1')}`, 'damaged'));
    for (const watch of world.kernel.watches) watch.changed();
    await world.clock.pass(10_000);
    world.removeService('web-1');
    await world.clock.pass(1000);
    expect(world.forwarded).toEqual(world.wanted);
    expect([...world.sync.quarantined]).toEqual([]);
  });

  it('is healthy again when its desired state is in force, in any order of endpoints', async () => {
    const world = new World();
    world.addServices(0, 1);
    world.setEndpoints('web-0', '10.244.0.9', '10.244.0.5');
    await world.start();
    world.kernel.refuse = refuseService('web-0');
    world.setEndpoints('web-0', '10.244.0.9', '10.244.0.7', '10.244.0.5');
    await quiet();
    expect([...world.sync.quarantined]).toHaveLength(1);
    world.kernel.refuse = () => undefined;
    await world.clock.pass(1000);
    expect(world.forwarded).not.toEqual(world.wanted);
    expect(world.kinds('restored')).toHaveLength(1);
    expect(world.sync.statusOf(port('web-0'))).toMatchObject({ status: 'in force' });
    expect([...world.sync.quarantined]).toEqual([]);
  });

  it('was in step until it changed, or until the kernel refused all', async () => {
    const world = await started(1);
    await world.clock.pass(65_000);
    expect(world.sync.inStepAtMs).toBe(65_000);
    const release = world.kernel.hold();
    world.setEndpoints('web-0', '10.244.9.9');
    await world.clock.pass(1000);
    // An audit had its step then.
    expect(world.sync.inStepAtMs).toBe(60_000);
    world.kernel.refuse = refuseService('web-0');
    release();
    await world.clock.pass(100);
    expect(world.sync.inStepAtMs).toBe(60_000);
  });

  it('is the only one in quarantine when others are planned as the refusal arrives', async () => {
    // A slice is one Service here, so that batches land between two of them.
    const world = new World({ batchBytesMax: 300, sliceMs: 0 });
    const settled = async (): Promise<void> => {
      for (let i = 0; i < 10; i += 1) await quiet();
    };
    world.addServices(0, 20);
    await world.start();
    await settled();
    world.kernel.refuse = refuseService('web-1');
    for (let i = 0; i < 20; i += 1) world.setEndpoints(`web-${i}`, `10.244.9.${i}`);
    await settled();
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual([port('web-1')]);
    expect(world.kinds('failed')).toMatchObject([{ failures: [{ code: 'EINVAL' }] }]);
    const behind = Object.entries(world.wanted).filter(([key, is]) => world.forwarded[key] !== is);
    expect(behind.map(([key]) => key)).toEqual([port('web-1')]);
  });

  it('is the only one in quarantine when one of many elements is to be planned after it', async () => {
    const world = await started(3);
    world.kernel.refuse = refuseService('web-1');
    world.setEndpoints('web-1', '10.244.9.1');
    world.setEndpoints('web-2', ...ips(1100));
    await world.clock.pass(100);
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual([port('web-1')]);
    expect(world.forwarded[port('web-2')]).toBe(world.wanted[port('web-2')]);
  });

  it('is retried with growing, bounded delays', async () => {
    const world = new World();
    world.kernel.refuse = refuseService('web-0');
    world.addServices(0, 2);
    await world.start();
    await world.clock.pass(600_000);
    const waits = world.events.flatMap((e) => (e.kind === 'quarantined' ? [e.retryMs] : []));
    expect(waits.slice(0, 7)).toEqual([1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]);
    expect(waits.length).toBeLessThan(20);
  });

  it('is retried soon after it changed, but not at each change', async () => {
    const world = new World();
    world.kernel.refuse = refuseService('web-0');
    world.addServices(0, 2);
    await world.start();
    await world.clock.pass(100_000);
    const before = world.kinds('quarantined').length;
    for (let i = 0; i < 50; i += 1) {
      world.setEndpoints('web-0', `10.244.8.${i}`);
      await world.clock.pass(100);
    }
    const tries = world.kinds('quarantined').length - before;
    expect(tries).toBeGreaterThanOrEqual(4);
    expect(tries).toBeLessThanOrEqual(6);
  });

  it('does not block the others if it cannot even be translated', async () => {
    const world = new World();
    world.addServices(0, 3);
    const beast = {
      healthCheckNodePort: 666,
      type: 'LoadBalancer',
      externalTrafficPolicy: 'Local',
    };
    await world.start();
    world.setService(webService('web-1', 1, beast as Parameters<typeof webService>[2]));
    world.setEndpoints('web-2', '10.244.9.8');
    await quiet();
    expect(world.forwarded[port('web-2')]).toBe('0af409081f900000');
    expect(world.kinds('quarantined')).toMatchObject([
      { quarantined: { key: port('web-1'), failure: { message: 'a port of the beast' } } },
    ]);
  });

  it('does not block the others if it cannot be put into a batch', async () => {
    const world = new World();
    world.addServices(0, 30);
    const ports = [{ name: 'http', protocol: 'TCP', port: 6666, nodePort: 0 } as const];
    world.setService(webService('web-7', 7, { ports }));
    await world.start();
    await world.clock.pass(10_000);
    expect(Object.keys(world.forwarded)).toHaveLength(29);
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual([port('web-7')]);
  });
});

describe('a kernel whose state differs from the expected one', () => {
  it('is read immediately and repaired, writing only the difference', async () => {
    const world = await started(50);
    const { writes } = world.kernel;
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    world.setEndpoints('web-7', '10.244.9.9');
    await quiet();
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kernel.writes).toBe(writes + 1);
    expect(delays(world)).toEqual([0]);
  });

  it('is not said to differ if it only lacks what it has refused', async () => {
    const world = await started(5);
    let left = 1;
    world.kernel.refuse = () => {
      left -= 1;
      return left < 0 ? undefined : refusal('ENOMEM');
    };
    world.setEndpoints('web-2', '10.244.9.9');
    await world.clock.pass(0);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kinds('drift').filter(({ purpose }) => purpose !== 'start')).toEqual([]);
    expect(world.kinds('completed')).toMatchObject([{ drift: { wrong: 1 } }]);
  });

  it('does not block others if one Service contradicts it again and again', async () => {
    const world = await started(5);
    world.kernel.refuse = refuseService('web-1', 'ENOENT');
    const lateMs: number[] = [];
    for (let n = 0; n < 60; n += 1) {
      world.setEndpoints('web-1', `10.244.8.${n}`);
      world.setEndpoints('web-2', `10.244.9.${n}`);
      await world.clock.pass(500);
      if (world.forwarded[port('web-2')] !== world.wanted[port('web-2')]) lateMs.push(n);
    }
    expect(lateMs).toEqual([]);
    expect([...world.sync.quarantined].map(({ key }) => key)).toEqual([port('web-1')]);
  });

  it.each([
    { moves: 50, isMoved: true, aside: 0 },
    { moves: 50, isMoved: true, aside: 0, code: 'ENFILE' },
    { moves: 51, isMoved: true, aside: 1 },
    { moves: 1, isMoved: false, aside: 0 },
    { moves: 2, isMoved: false, aside: 1 },
  ])(
    'is not blamed on a Service, unless that happens again and again: %o',
    async ({ moves, isMoved, aside, code = 'ENOENT' }) => {
      const world = await started(10);
      let left = moves;
      world.kernel.refuse = (ops) => {
        const op = ops.findIndex(({ object }) => object === `f ${port('web-7')}`);
        if (op < 0 || left === 0) return undefined;
        left -= 1;
        if (isMoved) world.kernel.generationNow += 1;
        return refusal(code, op);
      };
      world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
      for (const watch of world.kernel.watches) watch.changed();
      await world.clock.pass(0);
      expect(world.kinds('quarantined')).toHaveLength(aside);
      if (aside === 0) expect(world.forwarded).toEqual(world.wanted);
      await world.clock.pass(120_000);
      expect(world.forwarded).toEqual(world.wanted);
    },
  );

  it('is retried less often while it refuses everything, with a bound, which no Service is blamed for', async () => {
    const world = new World();
    world.kernel.refuse = () => refusal('EPERM');
    world.addServices(0, 50);
    await world.start();
    await world.clock.pass(600_000);
    expect(delays(world).slice(0, 6)).toEqual([0, 250, 500, 1000, 2000, 2000]);
    expect(world.kernel.reads).toBeLessThan(310);
    expect(world.kinds('done').filter((e) => e.kind === 'done' && e.ok)).toEqual([]);
    expect(world.kinds('quarantined')).toEqual([]);

    world.kernel.refuse = () => undefined;
    await world.clock.pass(2000);
    expect(world.forwarded).toEqual(world.wanted);
    expect(Object.keys(world.forwarded)).toHaveLength(50);
  });
});

describe('housekeeping', () => {
  it('deletes such state also during continuous syncs, with a delay', async () => {
    const world = await started(2);
    world.kernel.meddle((objects) => objects.set('binding 1', 'b'));
    world.kernel.bindings.set('binding 1', 'web-1');
    const boundAt: number[] = [];
    let release = world.kernel.hold();
    world.setEndpoints('web-1', '10.244.8.8');
    await world.clock.pass(0);
    for (let n = 0; n < 20; n += 1) {
      world.setEndpoints('web-1', `10.244.9.${n}`);
      await world.clock.pass(100);
      // The next change is there before the batch under way is over.
      const last = release;
      release = world.kernel.hold();
      last();
      await quiet();
      if (world.kernel.objects.has('binding 1')) boundAt.push(n);
    }
    expect(boundAt).toContain(5);
    expect(boundAt).not.toContain(15);
    release();
  });
});
