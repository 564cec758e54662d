import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../src/kernel/errors.ts';
import type { Environment } from '../../../src/modes/mode.ts';
import type { Planner } from '../../../src/modes/planner.ts';
import { quiet, refusal, ToyKernel, ToyPlanner } from './double.ts';
import { port, World, webService } from './world.ts';

async function running(services: number, world = new World()): Promise<World> {
  world.addServices(0, services);
  await world.start();
  return world;
}

/** Another program deletes a rule of ours, and the kernel reports it. */
function damage(world: World): void {
  world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
  for (const watch of world.kernel.watches) watch.changed();
}

/** Makes each reading take this long. */
function readFor({ clock, kernel }: World, ms: number): void {
  kernel.readable = () => new Promise((resolve) => void clock.after(ms, resolve));
}

function comparingMs(world: World): number {
  return world
    .kinds('audited')
    .reduce((sum, one) => sum + (one.kind === 'audited' ? one.durationMs : 0), 0);
}

describe('the audit', () => {
  it('repairs within seconds what another program deleted, changed or added, and counts it', async () => {
    const world = await running(50);
    const before = world.kernel.writes;
    world.kernel.meddle((objects) => {
      objects.delete(`f ${port('web-7')}`);
      objects.set(`f ${port('web-8')}`, 'ffff x');
      objects.set('f default/ghost:http/TCP', 'aa');
    });
    await world.clock.pass(10_000);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kernel.writes).toBe(before + 3);
    expect(world.kinds('drift').at(-1)).toMatchObject({
      purpose: 'audit',
      drift: { missing: 1, wrong: 1, unwanted: 1 },
    });
  });

  it('repairs immediately what the kernel reports, and names the program', async () => {
    const world = await running(50);
    const [watch] = world.kernel.watches;
    expect(watch!.tables).toEqual([{ family: 2, table: 'toy' }]);
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    watch!.changed({ program: 'nft', pid: 4711 });
    await world.clock.pass(0);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kinds('drift').at(-1)).toMatchObject({
      drift: { missing: 1 },
      by: { program: 'nft', pid: 4711 },
    });
    await world.stop();
    expect(world.kernel.watches.size).toBe(0);
  });

  it('compares immediately when the watch ends, and restarts it', async () => {
    const world = await running(50);
    expect(world.kinds('exposed')).toHaveLength(1);
    world.kernel.watching = false;
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    const endWatch = (): void => {
      const [watch] = world.kernel.watches;
      world.kernel.watches.clear();
      const error = { operation: 'nft.watch', subject: 'table toy', code: 'ENOMEM', words: 'no' };
      watch!.ended(new KernelError(error));
    };
    endWatch();
    await world.clock.pass(0);
    expect(world.forwarded).toEqual(world.wanted);
    world.kernel.watching = true;
    await world.clock.pass(250);
    expect(world.kinds('exposed')).toHaveLength(2);
    await world.stop();
    expect(world.kernel.watches.size).toBe(0);
  });

  it('makes a comparison that is asked for while the generation is read', async () => {
    const world = await running(5);
    const { kernel } = world;
    const read = Promise.withResolvers<void>();
    const generation = kernel.generation.bind(kernel);
    kernel.generation = () => read.promise.then(generation);
    await world.clock.pass(10_000);
    world.sync.audit.verify();
    read.resolve();
    await world.clock.pass(0);
    expect(world.kinds('audited')).toHaveLength(1);
  });

  it('reads again what the kernel reports while it reads', async () => {
    const world = await running(50);
    world.sync.audit.verify();
    world.kernel.slowRead(world.clock, 10);
    await quiet();
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    for (const watch of world.kernel.watches) watch.changed();
    await world.clock.pass(1000);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kinds('drift').at(-1)).toMatchObject({ purpose: 'audit', drift: { missing: 1 } });
  });

  it('does not start a watch after the end', async () => {
    const world = await running(5);
    const [watch] = world.kernel.watches;
    world.kernel.watches.clear();
    const error = { operation: 'nft.watch', subject: 'table toy', code: 'ENOMEM', words: 'no' };
    watch!.ended(new KernelError(error));
    await world.stop();
    await world.clock.pass(60_000);
    expect(world.kernel.watches.size).toBe(0);
  });

  it('reads nothing if the kernel reported our own change', async () => {
    const world = await running(50);
    const { reads } = world.kernel;
    world.setEndpoints('web-7', '10.245.0.7');
    await world.clock.pass(0);
    for (const watch of world.kernel.watches) watch.changed();
    await world.clock.pass(1000);
    expect(world.kernel.reads).toBe(reads);
  });

  it('repairs for two minutes in advance, then for a fifth of the time, and reports the delay', async () => {
    const world = await running(50);
    readFor(world, 1000);
    let longestMs = 0;
    for (let i = 0; i < 1000; i += 1) {
      damage(world);
      await world.clock.pass(1000);
      longestMs = Math.max(longestMs, world.sync.progress.behindMs ?? 0);
    }
    expect(comparingMs(world)).toBeGreaterThan(318_000);
    expect(comparingMs(world)).toBeLessThan(322_000);
    expect(longestMs).toBe(4000);
    await world.clock.pass(5000);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.sync.progress.behindMs).toBeUndefined();
  });

  it.each([
    ['are refused', 'writes'],
    ['are interrupted', 'reads'],
  ])('takes a fifth of the time, too, if its repairs %s', async (_, what) => {
    const world = await running(50);
    const { kernel } = world;
    readFor(world, 1000);
    const read = kernel.readable.bind(kernel);
    let count = 0;
    kernel.readable = async () => {
      await read();
      count += 1;
      const detail = { operation: 'toy', subject: 'all', code: 'EINTR', words: 'no' };
      if (what === 'reads' && count % 2 === 0) throw new KernelError(detail);
    };
    if (what === 'writes') {
      kernel.refuse = () => (count % 2 === 1 ? refusal('ENOMEM') : undefined);
    }
    for (let i = 0; i < 1000; i += 1) {
      damage(world);
      await world.clock.pass(1000);
    }
    expect(count).toBeGreaterThan(317);
    expect(count).toBeLessThan(323);
  });

  it('compares for a small part of the time if other programs commit continuously', async () => {
    const world = await running(50);
    readFor(world, 1000);
    for (let i = 0; i < 1000; i += 1) {
      world.kernel.meddle(() => {});
      await world.clock.pass(1000);
    }
    expect(comparingMs(world)).toBeGreaterThan(1_000_000 / 32);
    expect(comparingMs(world)).toBeLessThan(1_000_000 / 20);
  });

  it('reads nothing while only our own commits happen', async () => {
    const world = await running(50);
    const { reads } = world.kernel;
    for (let i = 0; i < 120; i += 1) {
      world.setEndpoints(`web-${i % 50}`, `10.245.0.${i}`);
      await world.clock.pass(1000);
    }
    expect(world.kernel.reads).toBe(reads);
  });

  it('compares immediately on request, and reports the end', async () => {
    const world = await running(5);
    world.kernel.objects.delete(`f ${port('web-1')}`);
    world.sync.audit.verify();
    await world.clock.pass(0);
    expect(world.events.map(({ kind }) => kind).slice(-3)).toEqual([
      'committed',
      'drift',
      'audited',
    ]);
    expect(world.forwarded).toEqual(world.wanted);
    world.sync.audit.verify();
    await world.clock.pass(0);
    expect(world.events.map(({ kind }) => kind).slice(-2)).toEqual(['audited', 'audited']);
  });

  it('compares after the longest period even if the generation does not change', async () => {
    const world = await running(5);
    const { reads } = world.kernel;
    world.kernel.objects.delete(`f ${port('web-1')}`);
    await world.clock.pass(3_590_000);
    expect(world.kernel.reads).toBe(reads);
    await world.clock.pass(20_000);
    expect(world.kernel.reads).toBe(reads + 1);
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('permits syncs while it reads, and reads again if they invalidated it', async () => {
    const world = await running(50);
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    const release = world.kernel.hold('reads');
    await world.clock.pass(10_000);
    world.setEndpoints('web-9', '10.244.9.9');
    await quiet();
    expect(world.forwarded[port('web-9')]).toBe('0af409091f900000');
    release();
    await world.clock.pass(20_000);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kinds('drift').at(-1)).toMatchObject({ drift: { missing: 1, wrong: 0 } });
  });

  it('passes over what was never in force, and says of a change which came before it that it waits', async () => {
    const world = await running(5, new World({ minSyncPeriodMs: 10_000 }));
    world.kernel.refuse = (ops) => {
      const op = ops.findIndex(({ object }) => object === `f ${port('web-5')}`);
      return op < 0 ? undefined : refusal('EINVAL', op);
    };
    world.addServices(5, 6);
    await world.clock.pass(30_000);
    for (const host of [7, 8]) {
      world.setEndpoints('web-1', `10.245.0.${host}`);
      await world.clock.pass(0);
    }
    world.sync.audit.verify();
    await world.clock.pass(100);
    expect(world.kinds('audited')).toHaveLength(1);
    expect(world.sync.statusOf(port('web-1'))).toMatchObject({ status: 'waiting' });
    expect(world.sync.statusOf(port('web-5'))).toMatchObject({ status: 'set aside' });
  });

  it('makes syncs wait for a reading after two that they have spoilt', async () => {
    const audit = { checkMs: 1e6, fullMs: 1e9, restFactor: 1 };
    const world = await running(50, new World({ audit }));
    world.sync.audit.verify();
    const audited: number[] = [];
    for (const beganMs of [200, 300, 200]) {
      const release = world.kernel.hold('reads');
      await world.clock.pass(beganMs);
      world.setEndpoints('web-1', `10.245.0.${audited.length}`);
      await world.clock.pass(0);
      release();
      await world.clock.pass(0);
      audited.push(world.kinds('audited').length);
    }
    expect(audited).toEqual([0, 0, 1]);
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('repairs immediately what is reported after a comparison that took long', async () => {
    const world = await running(50);
    world.sync.audit.verify();
    world.kernel.slowRead(world.clock, 1000);
    await world.clock.pass(1000);
    damage(world);
    await world.clock.pass(100);
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('does not delay syncs for a reading that takes long', async () => {
    const audit = { checkMs: 1000, fullMs: 3_600_000, restFactor: 1 };
    const world = await running(50, new World({ audit }));
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    let latest = 0;
    for (let i = 0; i < 300; i += 1) {
      if (i % 30 === 0) world.kernel.slowRead(world.clock, 3000);
      world.setEndpoints(`web-${20 + (i % 20)}`, `10.246.${i >> 8}.${i & 255}`);
      await world.clock.pass(100);
      // Nothing is noted in a reading that was spoilt, however long the next one is away.
      expect(world.kernel.observed).toBeUndefined();
      const [committed] = world.kinds('committed').slice(-1);
      if (committed?.kind !== 'committed' || committed.stages === undefined) continue;
      latest = Math.max(latest, committed.stages.committedMs - committed.stages.receivedMs);
    }
    expect(latest).toBe(0);
    await world.clock.pass(120_000);
    expect(world.forwarded).toEqual(world.wanted);
  });

  // The second follows after a slice, and others after as long as one takes.
  it.each([
    [50, 2],
    [6000, 5],
  ])('repairs %i Services with %i commits where a commit takes long', async (services, commits) => {
    const kernel = new ToyKernel();
    const dear = (environment: Environment): Planner => {
      return Object.assign(new ToyPlanner(kernel, environment), { batchBytesMax: 1e6 });
    };
    const world = await running(services, new World({ sliceMs: 1 }, kernel, dear));
    const { clock } = world;
    const [apply, now] = [kernel.apply.bind(kernel), clock.now.bind(clock)];
    // Comparing takes time, and each commit 100 ms.
    let spentMs = 0;
    clock.now = () => {
      spentMs += 0.1;
      return now() + spentMs;
    };
    kernel.apply = (bytes) => {
      spentMs += 100;
      return apply(bytes);
    };
    const before = kernel.commits;
    kernel.meddle((objects) => {
      for (const name of objects.keys()) if (name.startsWith('f ')) objects.delete(name);
    });
    for (const watch of kernel.watches) watch.changed();
    for (let i = 0; i < 300; i += 1) {
      await clock.pass(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(world.forwarded).toEqual(world.wanted);
    expect(kernel.commits - before).toBe(commits);
  });

  it('names the program that changes rules again before its repair is written', async () => {
    const world = await running(50);
    const release = world.kernel.hold();
    const [watch] = world.kernel.watches;
    const change = (name: string, program: string, change: (key: string) => void): void => {
      world.kernel.meddle(() => change(`f ${port(name)}`));
      watch!.changed({ program, pid: 1 });
    };
    change('web-7', 'ufw', (key) => world.kernel.objects.set(key, 'ffff x'));
    await world.clock.pass(0);
    change('web-7', 'nft', (key) => world.kernel.objects.delete(key));
    release();
    await world.clock.pass(0);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.kinds('failed')).toMatchObject([{ purpose: 'audit', isMoved: true, retryMs: 0 }]);
    expect(world.kinds('drift').slice(-1)).toMatchObject([
      { purpose: 'recovery', writers: 'others', by: { program: 'nft' } },
    ]);
  });

  it('names the program whose changes it began to repair when a batch was refused', async () => {
    const world = await running(50);
    const release = world.kernel.hold();
    const [watch] = world.kernel.watches;
    world.kernel.meddle((objects) => objects.set(`f ${port('web-7')}`, 'ffff x'));
    watch!.changed({ program: 'ufw', pid: 1 });
    await world.clock.pass(0);
    world.kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    release();
    await world.clock.pass(0);
    expect(world.kinds('drift').slice(-1)).toMatchObject([
      { purpose: 'recovery', by: { program: 'ufw' } },
    ]);
  });

  it.each([
    { by: 'an audit', refused: false },
    { by: 'a recovery', refused: true },
  ])(
    'repairs first what the whole cluster needs, of all that is gone: $by',
    async ({ refused }) => {
      const world = new World();
      world.addServices(0, 20);
      const others = { 'kube-system': 'dns', default: 'kubernetes', 'kube-system-2': 'web' };
      Object.entries(others).forEach(([namespace, name], i) => {
        world.setService({ ...webService(name, 100 + i), namespace });
      });
      await world.start();
      const order = new Set<string>();
      let isRefused = refused;
      world.kernel.refuse = (ops) => {
        if (isRefused) {
          isRefused = false;
          return refusal('ENOMEM');
        }
        for (const { object } of ops) if (object.startsWith('f ')) order.add(object.slice(2));
        return undefined;
      };
      world.kernel.meddle((objects) => objects.clear());
      for (const watch of world.kernel.watches) watch.changed();
      await world.clock.pass(1000);
      expect([...order].slice(0, 3)).toEqual([
        'kube-system/dns:http/TCP',
        'default/kubernetes:http/TCP',
        'default/web-0:http/TCP',
      ]);
      expect(order.size).toBe(23);
    },
  );
});
