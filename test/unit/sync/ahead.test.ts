/** What a start does while the lists still stream in. */
import { describe, expect, it } from 'vitest';
import type { ApplyResult } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import { batch } from '../../conformance/ops.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { config } from '../modes/config.ts';
import { save } from '../modes/iptables/save.ts';
import { quiet, ToyClock } from './double.ts';
import { type NFTablesWorld, nftablesWorld } from './nftables-world.ts';
import { World } from './world.ts';

/** How many Services wait while lists are read, because more of their slices may arrive. */
const spared = 64;

/** The last part of what the API server lists: `web-0` … `web-9` are resolved ahead. */
function list(world: World<FakeKernel>): void {
  world.addServices(0, 10 + spared);
}

async function streaming(kernel = new FakeKernel()): Promise<NFTablesWorld> {
  const world = nftablesWorld(kernel);
  world.run();
  await quiet();
  list(world);
  await world.clock.pass(300);
  return world;
}

function endpoints(kernel: FakeKernel): number {
  const table = kernel.table(NFPROTO.IPv4, 'fairlead');
  const pools = [...(table?.sets.values() ?? [])].filter(({ fields }) => {
    return fields.set.startsWith('endpoints-');
  });
  return pools.reduce((sum, { elements }) => sum + elements.size, 0);
}

/** Whether packets meet the table. */
function isHooked(kernel: FakeKernel): boolean {
  const { chains } = kernel.table(NFPROTO.IPv4, 'fairlead')!;
  return [...chains.values()].some(({ base }) => base !== undefined);
}

/** Notes how many endpoints it has when packets begin to meet the table. */
class NotingKernel extends FakeKernel {
  endpointsAtHook: number | undefined;

  override applyNow(ops: Uint8Array): ApplyResult {
    const result = super.applyNow(ops);
    if (isHooked(this)) this.endpointsAtHook ??= endpoints(this);
    return result;
  }
}

/** Time passes while a Service is resolved, and in each turn of the event loop more is read. */
class ReadingClock extends ToyClock {
  read: () => void = () => {};
  #workedMs = 0;

  override now(): number {
    this.#workedMs += 1;
    return super.now() + this.#workedMs;
  }

  override turn(): Promise<void> {
    this.read();
    return super.turn();
  }
}

/** Where a client of `web-NUMBER` ends up. */
function connect(kernel: FakeKernel, number: number): string {
  const packet = { saddr: '192.0.2.9', protocol: 'TCP', dport: 80, nodeAddresses: [] } as const;
  const daddr = `10.96.0.${number}`;
  return kernel.evaluate({ ...packet, daddr, iif: 'eth0', random: 0 }).to;
}

describe('the sync during the first lists', () => {
  it('fills a table without hooks, and adds the hooks when all is known', async () => {
    const world = await streaming();
    const { kernel } = world;
    expect(isHooked(kernel)).toBe(false);
    expect(endpoints(kernel)).toBe(10);
    expect(connect(kernel, 3)).toBe('10.96.0.3:80');
    expect(world.loop.upToDate).toBe(false);
    const told = world.events.map(({ kind }) => kind);
    expect(told.filter((kind) => ['queued', 'committed', 'done'].includes(kind))).toEqual([]);

    world.synced();
    await world.clock.pass(0);
    expect(isHooked(kernel)).toBe(true);
    expect(endpoints(kernel)).toBe(10 + spared);
    expect(connect(kernel, 3)).toBe('10.244.0.3:8080');
    expect(world.loop.upToDate).toBe(true);
  });

  it('writes a tenth of a second after the first Service, then four times a second', async () => {
    const world = nftablesWorld(new FakeKernel());
    world.run();
    await world.clock.pass(1000);
    const writtenMs = [];
    for (let [ms, had] = [0, 0]; ms < 800; ms += 1) {
      if (ms % 10 === 0) world.addServices(ms, ms + spared + 10);
      await world.clock.pass(1);
      if (endpoints(world.kernel) > had) writtenMs.push(world.clock.now());
      had = endpoints(world.kernel);
    }
    expect(writtenMs).toEqual([1100, 1350, 1600]);
  });

  it('writes while more arrives than is resolved', async () => {
    const clock = new ReadingClock();
    const world = nftablesWorld(new FakeKernel(), 2000, undefined, clock);
    world.run();
    await quiet();
    let services = 0;
    clock.read = () => {
      world.addServices(services, services + 10);
      services += 10;
    };
    clock.read();
    while (services < 6000 && endpoints(world.kernel) === 0) await clock.pass(5);
    expect(services).toBeLessThan(6000);
  });

  it('reports what it wrote when the hooks are added', async () => {
    const world = await streaming();
    await world.clock.pass(5000);
    world.synced();
    await world.clock.pass(0);
    const revealedMs = world.clock.now();
    // Which tables others can change is looked for when packets meet them.
    const kinds = world.events.map(({ kind }) => kind).filter((kind) => kind !== 'exposed');
    expect(world.kinds('queued')).toHaveLength(1);
    expect(kinds.indexOf('queued')).toBeLessThan(kinds.indexOf('committed'));
    expect(kinds.at(-1)).toBe('done');
    expect(world.kinds('done')).toMatchObject([{ purpose: 'start', ok: true }]);
    const batches = world.events.filter((event) => event.kind === 'committed');
    expect(batches.reduce((sum, { forwardings }) => sum + forwardings, 0)).toBe(10 + spared);
    for (const { stages } of batches) expect(stages?.committedMs ?? revealedMs).toBe(revealedMs);
  });

  it('reports that the first sync is due, also where nothing is desired', async () => {
    const world = nftablesWorld(new FakeKernel());
    world.run();
    await quiet();
    world.synced();
    await world.clock.pass(0);
    const kinds = world.events.map(({ kind }) => kind);
    expect(world.kinds('queued')).toHaveLength(1);
    expect(kinds.indexOf('queued')).toBeLessThan(kinds.lastIndexOf('done'));
    await world.stop();
  });

  it('follows changes before the end of the lists', async () => {
    const world = await streaming();
    world.setEndpoints('web-1', '10.244.9.1', '10.244.9.2');
    world.removeService('web-2');
    world.addServices(200, 200 + spared);
    await world.clock.pass(300);
    // What has gone goes when all is known.
    expect(endpoints(world.kernel)).toBe(10 + spared + 1);
    world.synced();
    await world.clock.pass(0);
    expect(connect(world.kernel, 1)).toMatch(/^10\.244\.9\./);
    expect(connect(world.kernel, 2)).toBe('10.96.0.2:80');
  });

  it('writes nothing if an earlier process left hooks', async () => {
    const first = await streaming();
    const { kernel } = first;
    first.synced();
    await first.clock.pass(0);
    await first.stop();

    const { commits } = kernel;
    const second = await streaming(kernel);
    second.setEndpoints('web-1', '10.244.9.1');
    second.addServices(200, 200 + spared);
    await second.clock.pass(60_000);
    expect(kernel.commits).toBe(commits);
    expect(connect(kernel, 1)).toBe('10.244.0.1:8080');
    // Health would take it that this process does not keep up.
    expect(second.kinds('queued')).toEqual([]);
    second.synced();
    await second.clock.pass(0);
    expect(connect(kernel, 1)).toBe('10.244.9.1:8080');
    await second.stop();
  });

  it('continues with such a table of a process that died', async () => {
    const first = await streaming();
    const { kernel } = first;
    await first.stop();
    expect(isHooked(kernel)).toBe(false);

    const second = await streaming(kernel);
    expect(isHooked(kernel)).toBe(false);
    expect(connect(kernel, 3)).toBe('10.96.0.3:80');
    second.synced();
    await second.clock.pass(0);
    expect(endpoints(kernel)).toBe(10 + spared);
    expect(connect(kernel, 3)).toBe('10.244.0.3:8080');
    await second.stop();
  });

  it('adds the hooks when all is there but the Service that the kernel refuses', async () => {
    const kernel = new NotingKernel();
    const world = await streaming(kernel);
    const forKey = '10.96.0.20 . tcp . 80';
    kernel.failNext({ code: 'EINVAL', forKey, times: Number.POSITIVE_INFINITY });
    world.synced();
    await world.clock.pass(0);
    expect(world.kinds('quarantined')).toHaveLength(1);
    expect(kernel.endpointsAtHook).toBe(9 + spared);
  });

  it('adds the hooks later if the kernel refuses at first', async () => {
    const world = await streaming();
    const { kernel } = world;
    kernel.failNext({ code: 'ENOMEM', forKind: 'baseChainAdd', times: 2 });
    world.synced();
    await world.clock.pass(0);
    expect(isHooked(kernel)).toBe(false);
    expect(world.kinds('failed')).toHaveLength(2);
    expect(world.loop.upToDate).toBe(false);
    await world.clock.pass(1000);
    expect(isHooked(kernel)).toBe(true);
    expect(connect(kernel, 3)).toBe('10.244.0.3:8080');
    expect(world.loop.upToDate).toBe(true);
  });

  it('adds no hooks any more when it is stopped before all is there', async () => {
    const world = await streaming();
    const { kernel } = world;
    kernel.failNext({ code: 'ENOMEM', times: Number.POSITIVE_INFINITY });
    world.synced();
    await world.clock.pass(1000);
    kernel.heal();
    await world.stop();
    expect(isHooked(kernel)).toBe(false);
  });

  it('adds the hooks although changes never stop', async () => {
    const world = await streaming();
    let last = 0;
    const churn = (): void => {
      last += 1;
      world.setEndpoints('web-1', `10.244.8.${last % 250}`);
      churning = setImmediate(churn);
    };
    let churning = setImmediate(churn);
    world.synced();
    while (!isHooked(world.kernel) && last < 1000) await new Promise(setImmediate);
    clearImmediate(churning);
    expect(isHooked(world.kernel)).toBe(true);
  });

  it('adds the hooks after thirty syncs that had no time for all changes', async () => {
    const [clock, kernel] = [new ToyClock(), new FakeKernel()];
    const world = nftablesWorld(kernel, 1, undefined, clock);
    world.run();
    await quiet();
    list(world);
    await clock.pass(300);
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async (ops) => {
      await new Promise<void>((resolve) => void clock.after(1100, resolve));
      return apply(ops);
    };
    world.synced();
    let seconds = 0;
    for (; !isHooked(kernel) && seconds < 100; seconds += 1) {
      for (let i = 0; i < 10; i += 1) world.setEndpoints(`web-${i}`, `10.244.${i}.${seconds}`);
      await clock.pass(1000);
    }
    kernel.apply = apply;
    await clock.pass(2000);
    // Each sync has two batches.
    expect(seconds).toBeGreaterThanOrEqual(30 * 2.2);
    expect(seconds).toBeLessThan(30 * 2.2 + 4);
  });

  it('isolates a Service that the kernel refuses', async () => {
    const kernel = new FakeKernel();
    const world = nftablesWorld(kernel);
    world.run();
    await quiet();
    kernel.failNext({ code: 'EINVAL', forSet: 'services', forKey: '10.96.0.3 . ' });
    list(world);
    await world.clock.pass(300);
    world.synced();
    await world.clock.pass(0);
    expect(connect(kernel, 4)).toBe('10.244.0.4:8080');
    await world.clock.pass(60_000);
    expect(connect(kernel, 3)).toBe('10.244.0.3:8080');
  });
});

describe('mode iptables during the first lists', () => {
  const translates = '--to-destination 10.244.0.3:8080';
  const jumps = /^-A (?:PREROUTING|INPUT|OUTPUT|FORWARD|POSTROUTING) /m;

  async function start(kernel: FakeKernel) {
    const world = new World({}, kernel, (e) => iptablesMode().planner(config, e));
    world.run();
    await quiet();
    list(world);
    await world.clock.pass(300);
    return { world, rules: () => save(kernel, 'IPv4') };
  }

  it('writes chains that nothing leads to, then jumps, and then watches, unless a jump is there', async () => {
    const kernel = new FakeKernel();
    const { world, rules } = await start(kernel);
    expect(rules()).toContain(translates);
    expect(rules()).not.toMatch(jumps);
    expect(world.kinds('exposed')).toEqual([]);
    world.synced();
    await world.clock.pass(0);
    expect(rules()).toMatch(jumps);
    expect(world.kinds('exposed')).toHaveLength(1);
    expect(world.loop.upToDate).toBe(true);
    await world.stop();

    const { commits } = kernel;
    const second = await start(kernel);
    await second.world.clock.pass(60_000);
    expect(kernel.commits).toBe(commits);
    await second.world.stop();
  });

  it('repairs what another program has deleted in the meantime', async () => {
    const kernel = new FakeKernel();
    const { world, rules } = await start(kernel);
    kernel.foreign(batch({ kind: 'tableDelete', family: NFPROTO.IPv4, table: 'nat' }));
    world.synced();
    await world.clock.pass(20_000);
    expect(rules()).toContain(translates);
    expect(rules()).toMatch(/^-A PREROUTING /m);
    expect(world.loop.upToDate).toBe(true);
  });
});
