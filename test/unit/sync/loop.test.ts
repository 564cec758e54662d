import { describe, expect, it } from 'vitest';
import { address, cidr, http } from '../state/build.ts';
import { quiet, ToyClock, ToyKernel } from './double.ts';
import { port, started, World, webService } from './world.ts';

describe('the start of the sync loop', () => {
  it('resolves Services whose slices have arrived while the lists are still being read', async () => {
    const world = new World();
    world.run();
    world.addServices(0, 100);
    world.setService(webService('without-slices', 200));
    await world.clock.pass(0);
    // Those that came last may still get slices.
    expect(Object.keys(world.wanted)).toEqual(
      Array.from({ length: 36 }, (_, i) => port(`web-${i}`)),
    );
    expect(world.kernel.writes).toBe(0);

    world.setEndpoints('web-0', '10.244.9.9');
    world.removeService('web-1');
    world.synced();
    await world.clock.pass(0);
    expect(Object.keys(world.wanted)).toHaveLength(100);
    expect(world.wanted[port('web-0')]).toBe('0af409091f900000');
    expect(world.wanted).not.toHaveProperty(port('web-1'));
    expect(world.wanted).toHaveProperty(port('without-slices'));
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('reads the kernel again if another program has written since the last reading', async () => {
    const kernel = new ToyKernel();
    const world = new World({}, kernel);
    world.addServices(0, 3);
    world.run();
    await world.clock.pass(0);
    expect(kernel.reads).toBe(1);
    kernel.meddle((objects) => objects.set('f default/old:http/TCP', 'aa'));
    world.synced();
    await world.clock.pass(0);
    expect(world.forwarded).toEqual(world.wanted);
  });

  it('is up to date when everything announced is in force, not before', async () => {
    const world = new World();
    world.addServices(0, 3);
    expect(world.loop.upToDate).toBe(false);
    await world.start();
    expect(world.loop.upToDate).toBe(true);

    world.setEndpoints('web-1', '10.244.9.9');
    expect(world.loop.upToDate).toBe(false);
    const release = world.kernel.hold();
    await world.clock.pass(0);
    expect(world.loop.upToDate).toBe(false);
    release();
    await world.clock.pass(0);
    expect(world.loop.upToDate).toBe(true);
  });

  it('requests no sync beyond one that includes changes during planning', async () => {
    const world = new World({ sliceMs: 0 });
    world.addServices(0, 30);
    await world.start();
    for (let turns = 1; turns <= 40; turns += 1) {
      for (let i = 0; i < 30; i += 1) world.setEndpoints(`web-${i}`, `10.245.${turns}.${i}`);
      for (let i = 0; i < turns; i += 1) await new Promise((resolve) => setImmediate(resolve));
      world.setEndpoints('web-29', `10.246.0.${turns}`);
      while (!world.loop.upToDate) await quiet();
      const kinds = world.events.map(({ kind }) => kind);
      expect(kinds.lastIndexOf('queued'), `after ${turns}`).toBeLessThan(kinds.lastIndexOf('done'));
    }
  });

  it('does not block the event loop while the state is already as desired', async () => {
    const first = new World();
    first.addServices(0, 20);
    await first.start();
    await first.stop();

    let turn = 0;
    const count = (): void => {
      turn += 1;
      counting = setImmediate(count);
    };
    let counting = setImmediate(count);
    const changedAt: number[] = [];
    const follower = { changed: () => changedAt.push(turn) };
    const second = new World({ sliceMs: 0 }, first.kernel, undefined, follower);
    second.addServices(0, 20);
    second.synced();
    second.run();
    while (!second.loop.upToDate) await quiet();
    clearImmediate(counting);
    expect(changedAt).toHaveLength(20);
    expect(new Set(changedAt).size).toBe(20);
    await second.stop();
  });

  it('keeps the order of endpoints in the kernel, and desires that of the cluster', async () => {
    const first = new World();
    first.setService(webService('web', 1));
    first.setEndpoints('web', '10.244.0.9', '10.244.0.5');
    first.synced();
    first.run();
    await first.clock.pass(0);
    first.setEndpoints('web', '10.244.0.9', '10.244.0.7', '10.244.0.5');
    await first.clock.pass(0);
    await first.stop();
    const { writes } = first.kernel;
    expect(first.wanted).not.toEqual(first.forwarded);

    const second = new World({}, first.kernel);
    second.setService(webService('web', 1));
    second.setEndpoints('web', '10.244.0.9', '10.244.0.7', '10.244.0.5');
    await second.start();
    expect(first.kernel.writes).toBe(writes);
    const inForce = [...second.sync.inForce.values()].map(({ cluster }) => cluster.bytes());
    expect(inForce.map((bytes) => bytes.toString('hex'))).toEqual(Object.values(first.forwarded));
    expect(second.wanted).toEqual(first.wanted);
    await second.stop();
  });

  it('loads a large state in several bounded batches', async () => {
    const world = new World({ batchBytesMax: 1000 });
    world.addServices(0, 100);
    await world.start();
    expect(Object.keys(world.forwarded)).toHaveLength(100);
    const sizes = world.events.flatMap((e) => (e.kind === 'committed' ? [e.writes] : []));
    expect(Math.max(...sizes)).toBeLessThanOrEqual(11);
    expect(sizes.length).toBeGreaterThan(15);
  });
});

describe('a normal sync', () => {
  it('combines all changes while a batch is in flight', async () => {
    const world = await started(100);
    const release = world.kernel.hold();
    world.setEndpoints('web-0', '10.244.9.9');
    await quiet();
    const { commits } = world.kernel;
    for (let i = 0; i < 5000; i += 1) {
      world.setEndpoints(`web-${i % 100}`, `10.245.${i >> 8}.${i & 255}`);
      if (i % 500 === 0) await quiet();
    }
    await quiet();
    release();
    await quiet();
    expect(world.kernel.commits).toBe(commits + 2);
    expect(world.forwarded).toEqual(world.wanted);
    expect(world.forwarded[port('web-99')]).toBe('0af513871f900000');
  });

  it('follows a change of the node that makes Services dirty', async () => {
    const world = new World();
    world.setService(webService('web', 1, { externalIPs: [address('192.0.2.1')] }));
    await world.start();
    expect(world.kernel.objects.get(`f ${port('web')}`)).toContain('externalIP:80');
    let isNoticed = false;
    world.context = () => {
      if (!isNoticed) world.state.touch('default/web');
      isNoticed = true;
      return { externalIPsEnabled: false };
    };
    world.loop.wake();
    await quiet();
    expect(world.kernel.objects.get(`f ${port('web')}`)).not.toContain('externalIP');
  });

  it('reports when each stage of the oldest change of a batch ended', async () => {
    const world = await started(1);
    await world.clock.pass(500);
    const release = world.kernel.hold();
    world.setEndpoints('web-0', '10.244.9.9');
    await world.clock.pass(30);
    release();
    await quiet();
    const last = world.kinds('committed').at(-1);
    expect(last).toMatchObject({
      purpose: 'changes',
      stages: { receivedMs: 500, resolvedMs: 500, encodedMs: 500, committedMs: 530 },
    });
  });
});

describe('more events than can be processed', () => {
  /** Time continues while there is work, and each turn of the event loop brings events. */
  class FloodedClock extends ToyClock {
    onTurn = (): void => {};
    #ms = 0;
    readonly #stepMs: number;

    constructor(stepMs = 0.05) {
      super();
      this.#stepMs = stepMs;
    }

    override now(): number {
      this.#ms += this.#stepMs;
      return this.#ms;
    }

    override turn(): Promise<void> {
      this.onTurn();
      return super.turn();
    }
  }

  /** Changes one of 100 Services with each event, and `perTurn` in each turn of the event loop. */
  async function flooded(perTurn: number) {
    const clock = new FloodedClock();
    const kernel = new ToyKernel();
    const world = new World({ sliceMs: 1 }, kernel, undefined, undefined, clock);
    world.addServices(0, 100);
    await world.start();
    const flood = { events: 0, eventsMax: 5000, written: 0 };
    world.observers.push((event) => {
      if (event.kind === 'committed') flood.written += event.forwardings;
    });
    clock.onTurn = () => {
      for (let i = 0; i < perTurn && flood.events < flood.eventsMax; i += 1, flood.events += 1) {
        const address = `10.245.${(flood.events >> 8) & 255}.${flood.events & 255}`;
        world.setEndpoints(`web-${flood.events % 100}`, address);
      }
    };
    clock.onTurn();
    return { world, flood };
  }

  it('are read first, so that several become one', async () => {
    const { world, flood } = await flooded(10);
    while (flood.events < flood.eventsMax || !world.loop.upToDate) await quiet();
    expect(world.forwarded).toEqual(world.wanted);
    expect(flood.written).toBeLessThan(flood.eventsMax / 2);
  });

  /** How many turns resolving 100 of 200 Services takes, while each may bring one event. */
  async function turnsOf(isListed: boolean, isFlooded: boolean): Promise<number> {
    const clock = new FloodedClock();
    const world = new World({ sliceMs: 1 }, new ToyKernel(), undefined, undefined, clock);
    if (isListed) await world.start();
    else world.run();
    await quiet();
    world.addServices(0, 200);
    let turns = 0;
    clock.onTurn = () => {
      turns += 1;
      if (isFlooded) world.setEndpoints('web-0', `10.245.0.${turns & 127}`);
    };
    while (world.sync.desired.size < 100) await new Promise((resolve) => setImmediate(resolve));
    return turns;
  }

  it('hold up resolving for eight times as long, once all is listed, and none does not', async () => {
    const none = await turnsOf(true, false);
    expect(none).toBeLessThan(100);
    expect(await turnsOf(true, true)).toBeGreaterThan(3 * none);
    expect(await turnsOf(false, true)).toBeLessThan(2 * none);
  });

  it('do not prevent writes, even if they never end', async () => {
    const { world, flood } = await flooded(1);
    flood.eventsMax = Number.POSITIVE_INFINITY;
    while (flood.written < 300) await quiet();
    expect(flood.events).toBeGreaterThan(flood.written);
    flood.eventsMax = 0;
    while (!world.loop.upToDate) await quiet();
    expect(world.forwarded).toEqual(world.wanted);
  });

  // They keep a processor busy for seconds, of which a busy machine gives little.
  describe('events that arrive faster than they can be resolved', { timeout: 300_000 }, () => {
    /** At each time more Services are dirty than are taken together. */
    const services = 600;

    function drowned() {
      const clock = new FloodedClock(0.5);
      const world = new World({ sliceMs: 1 }, new ToyKernel(), undefined, undefined, clock);
      world.addServices(0, services);
      let events = 0;
      // While a Service is resolved, the loop reads for sixteen turns.
      clock.onTurn = () => {
        for (let i = 0; i < 2; i += 1, events += 1) {
          const address = `10.245.${(events >> 8) & 255}.${events & 255}`;
          world.setEndpoints(`web-${events % services}`, address);
        }
      };
      return { world, clock };
    }

    it('do not delay a start', async () => {
      const { world, clock } = drowned();
      await world.start();
      while (world.sync.inForce.size < services) await quiet();
      clock.onTurn = () => {};
      await world.stop();
    });

    it('do not delay a change of the environment', async () => {
      const { world, clock } = drowned();
      await world.start();
      const { writes } = world.kernel;
      while (world.kernel.writes < writes + 10) await quiet();
      world.environment = { ...world.environment, serviceCIDRs: [cidr('10.96.0.0/16')] };
      while (world.kernel.objects.get('fixed') !== 'cidrs 1') await quiet();
      clock.onTurn = () => {};
      await world.stop();
    });

    it('do not change the reported age of what is written', async () => {
      const { world, clock } = drowned();
      await world.start();
      const ages: number[] = [];
      world.observers.push((event) => {
        if (event.kind !== 'committed' || event.stages === undefined) return;
        ages.push(event.stages.committedMs - event.stages.receivedMs);
      });
      while (ages.length < 20) await quiet();
      const firstMs = Math.max(...ages.splice(0));
      while (ages.length < 20) await quiet();
      expect(Math.max(...ages)).toBeLessThan(1.2 * firstMs);
      clock.onTurn = () => {};
      await world.stop();
    });
  });
});

describe('stopping the sync loop', () => {
  it('waits for the batch in flight and starts no other', async () => {
    const world = await started(2);
    const release = world.kernel.hold();
    world.setEndpoints('web-0', '10.244.9.9');
    await quiet();
    world.setEndpoints('web-1', '10.244.9.8');
    const { commits } = world.kernel;
    let stopped = false;
    const stopping = world.stop().then(() => {
      stopped = true;
    });
    await quiet();
    expect(stopped).toBe(false);
    release();
    await stopping;
    expect(world.kernel.commits).toBe(commits + 1);
    expect(world.forwarded[port('web-0')]).toBe('0af409091f900000');
    expect(world.forwarded[port('web-1')]).toBe('0af400011f900000');
  });
});

it('ports that are renamed leave nothing behind', async () => {
  const world = await started(1);
  const keys = () => Object.keys(world.forwarded).sort();
  for (const names of [['a', 'b'], ['c', 'b'], ['d', 'b'], ['d'], ['e']]) {
    const ports = names.map((name, i) => ({ ...http, name, port: 80 + i }));
    world.setService(webService('web-0', 0, { ports }));
    await world.clock.pass(0);
    expect(keys()).toEqual(names.map((name) => `default/web-0:${name}/TCP`).sort());
  }
});
