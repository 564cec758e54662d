/** Times that the sync loop keeps, each to the millisecond. */
import { describe, expect, it } from 'vitest';
import { KernelError } from '../../../src/kernel/errors.ts';
import { resolve } from '../../../src/state/resolve.ts';
import { contradictsBelief } from '../../../src/sync/applier.ts';
import { joined } from '../../../src/sync/cause.ts';
import { Quarantine } from '../../../src/sync/quarantine.ts';
import { address, context, service } from '../state/build.ts';
import { refusal, ToyClock } from './double.ts';
import { port, started, World, webService } from './world.ts';

/** The delays after failures of this kind, up to now. */
function delays(world: World, purpose: string): (number | undefined)[] {
  return world.kinds('failed').flatMap((one) => (one.purpose === purpose ? [one.retryMs] : []));
}

describe('what is refused', () => {
  it('is retried four times a second while another process holds it', async () => {
    const world = new World();
    world.kernel.refuse = () => ({ ...refusal('EPERM'), isHeld: true });
    world.addServices(0, 1);
    await world.start();
    await world.clock.pass(1000);
    expect(delays(world, 'start')).toEqual([250, 250, 250, 250, 250]);
  });

  it.each([
    { pauseMs: 10_000, isBlamed: true },
    { pauseMs: 10_001, isBlamed: false },
  ])('is blamed for a second contradiction within ten seconds: %o', async (expected) => {
    const clock = new ToyClock();
    const limits = { firstMs: 1000, secondMs: 2000, maxMs: 60_000 };
    const quarantine = new Quarantine(limits, clock);
    expect(quarantine.contradicted('a', false)).toBe(false);
    await clock.pass(expected.pauseMs);
    expect(quarantine.contradicted('a', false)).toBe(expected.isBlamed);
  });

  it('is retried when the first of all is due', async () => {
    const [clock, limits] = [new ToyClock(), { firstMs: 1000, secondMs: 2000, maxMs: 60_000 }];
    const quarantine = new Quarantine(limits, clock);
    const add = (key: string): void => {
      const [one] = resolve(service({ name: key }), [], context);
      quarantine.add(key, one!, refusal('EINVAL'), { inForce: undefined, isLeft: false });
    };
    expect(quarantine.nextMs()).toBeUndefined();
    for (const key of ['a', 'b']) {
      add(key);
      await clock.pass(500);
    }
    expect([quarantine.nextMs(), quarantine.due()]).toEqual([1000, ['a']]);
    add('a');
    expect([quarantine.nextMs(), quarantine.due()]).toEqual([1500, []]);
  });

  it('is retried after delays that double up to a bound, if it may wait', async () => {
    const world = await started(2);
    world.removeService('web-0');
    world.kernel.bindings.set('binding 1', 'web-1');
    world.kernel.refuse = (ops) => {
      const isSweep = ops.some(({ object }) => object === 'binding 1');
      if (isSweep) world.kernel.bindings.set('binding 1', 'web-1');
      return isSweep || ops.some(({ object }) => object.startsWith('o '))
        ? refusal('EBUSY', 0)
        : undefined;
    };
    world.setEndpoints('web-1', '10.244.9.9');
    await world.clock.pass(300_000);
    const doubling = [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000];
    expect(delays(world, 'deferred').slice(0, 8)).toEqual(doubling);
    const sweeps = [0, 250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000];
    expect(delays(world, 'sweep').slice(0, 10)).toEqual(sweeps);
  });
});

describe('what is done later', () => {
  it('is a sync, the least time after the one before', async () => {
    const world = new World({ minSyncPeriodMs: 1000 });
    world.addServices(0, 1);
    await world.start();
    await world.clock.pass(5000);
    for (const host of ['10.245.0.1', '10.245.0.2']) {
      world.setEndpoints('web-0', host);
      await world.clock.pass(400);
    }
    expect(world.sync.inStepAtMs).toBe(5000);
    await world.clock.pass(199);
    expect(world.forwarded).not.toEqual(world.wanted);
    await world.clock.pass(1);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.sync.inStepAtMs).toBe(6000);
  });

  it('is a sync that is behind: it waits for longer than a sync and the rest after it', async () => {
    const world = new World({ minSyncPeriodMs: 1000 });
    world.addServices(0, 1);
    await world.start();
    await world.clock.pass(1000);
    const release = world.kernel.hold();
    for (const host of ['10.245.0.1', '10.245.0.2']) {
      world.setEndpoints('web-0', host);
      await world.clock.pass(0);
    }
    await world.clock.pass(2000);
    expect(world.sync.progress).toMatchObject({ waiting: 1, behindMs: undefined });
    await world.clock.pass(1);
    expect(world.sync.progress).toMatchObject({ waiting: 1, behindMs: 2001 });
    release();
  });

  it('is a task that has waited for syncs for a second', async () => {
    const world = await started(2);
    const { clock, kernel } = world;
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async (bytes) => {
      await new Promise<void>((resolve) => void clock.after(10, resolve));
      return apply(bytes);
    };
    world.removeService('web-1');
    const old = `o ${port('web-1')}`;
    const startMs = clock.now();
    for (let ms = 0; kernel.objects.has(old); ms += 5) {
      world.setEndpoints('web-0', `10.245.${ms >> 8}.${ms & 255}`);
      await clock.pass(5);
    }
    // Two tasks, each a second after what is before it, and a second late.
    expect(clock.now() - startMs - 4000).toBeOneOf([20, 25, 30]);
    kernel.apply = apply;
    await clock.pass(10);
  });

  it('is deleted by the second task, a second after the first one', async () => {
    const world = await started(1);
    world.removeService('web-0');
    await world.clock.pass(1999);
    expect(world.kernel.objects.has(`o ${port('web-0')}`)).toBe(true);
    await world.clock.pass(1);
    expect(world.kernel.objects.has(`o ${port('web-0')}`)).toBe(false);
  });

  it('is a watch that has ended: it begins again after delays up to a minute', async () => {
    const world = await started(1);
    const error = { operation: 'nft.watch', subject: 'table toy', code: 'ENOMEM', words: 'no' };
    for (let i = 0; i < 9; i += 1) {
      const [watch] = world.kernel.watches;
      world.kernel.watches.clear();
      watch!.ended(new KernelError(error));
      await world.clock.pass(world.kinds('unwatched').at(-1)!.retryMs);
    }
    const retryMs = world.kinds('unwatched').map((one) => one.retryMs);
    expect(retryMs).toEqual([250, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  });

  it.each([
    { readMs: 500, isHeld: true },
    { readMs: 501, isHeld: false },
  ])('is a sync while the kernel is read, if that takes half a second at most: %o', async (one) => {
    const audit = { checkMs: 1000, fullMs: 3_600_000, restFactor: 1 };
    const world = new World({ audit });
    world.addServices(0, 10);
    await world.start();
    const { clock, kernel } = world;
    kernel.readable = () => new Promise((resolve) => void clock.after(one.readMs, resolve));
    kernel.meddle((objects) => objects.delete(`f ${port('web-7')}`));
    for (let i = 0; i < 100; i += 1) {
      world.setEndpoints('web-1', `10.246.0.${i}`);
      await clock.pass(100);
    }
    await clock.pass(10_000);
    const waitedMs = world.kinds('committed').flatMap(({ stages }) => {
      return stages === undefined ? [] : [stages.committedMs - stages.receivedMs];
    });
    expect(Math.max(...waitedMs) > 0).toBe(one.isHeld);
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('is a comparison after a frontend has changed its Service, by five seconds', async () => {
    const world = new World();
    const shared = { externalIPs: [address('192.0.2.1')] };
    world.setService(webService('young', 1, { ...shared, createdMs: 2000 }));
    await world.start();
    const { reads } = world.kernel;
    world.setService(webService('old', 2, { ...shared, createdMs: 1000 }));
    await world.clock.pass(4999);
    expect(world.kernel.reads).toBe(reads);
    await world.clock.pass(1);
    expect(world.kernel.reads).toBe(reads + 1);
  });
});

describe('what happens to a batch', () => {
  it('has the causes of both of two changes, since the first of them came', () => {
    const [earlier, later] = [1, 2].map((ms) => {
      return { receivedMs: ms, resolvedMs: ms, triggerTimesMs: [ms] };
    });
    expect(joined(earlier, later)).toEqual({ ...earlier, triggerTimesMs: [1, 2] });
    expect([joined(undefined, later), joined(earlier, undefined)]).toEqual([later, earlier]);
  });

  it.each([
    ...['ENOENT', 'EEXIST', 'ERESTART', 'ENFILE'].map((code) => [code, true]),
    ...['ESRCH', 'EADDRNOTAVAIL', 'ENODEV'].map((code) => [code, true]),
    ...['ENOMEM', 'EINVAL', 'EPERM'].map((code) => [code, false]),
  ])('contradicts what we know of the kernel if it fails with %s: %s', (code, expected) => {
    const failure = { op: 0, entry: undefined, code: String(code), message: '' };
    expect(contradictsBelief(failure)).toBe(expected);
    expect(contradictsBelief({ ...failure, isOfSocket: true })).toBe(false);
  });
});
