/** The table of the fast path on the fake kernel, from its making to its end. */
import { afterEach, describe, expect, it } from 'vitest';
import { FastPath } from '../../../src/fast-path/fast-path.ts';
import { inTable } from '../../../src/fast-path/layout.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter, readRecords } from '../../../src/kernel/records.ts';
import { noLimits } from '../../../src/state/budget.ts';
import { resolve, resolveInSteps } from '../../../src/state/resolve.ts';
import { finish } from '../../../src/state/steps.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address, context, portsOf, service } from '../state/build.ts';
import { quiet, ToyClock } from '../sync/double.ts';

const routes = 'Iface\neth0\t00000000\t00000000\t3\t0\t0\t0\t00000000';
const wish = { fastPath: 'flowtable', fastPathPackets: 20 } as const;

class World {
  readonly kernel = new FakeKernel();
  readonly lines: string[] = [];
  readonly services = new Map<string, Service>();
  readonly desired = new Map<string, Forwarding>();
  synced = true;
  readonly path: FastPath;
  readonly clock: ToyClock;

  constructor(kernel?: FakeKernel, clock = new ToyClock()) {
    this.clock = clock;
    if (kernel !== undefined) this.kernel = kernel;
    else this.kernel.links.came('eth0', '');
    const told = (_: object, message: string): void => void this.lines.push(message);
    const { services } = this;
    const isSynced = (): boolean => this.synced;
    this.path = new FastPath({
      kernel: this.kernel,
      clock,
      log: { info: told, warn: told, error: told },
      state: {
        get synced() {
          return isSynced();
        },
        service: (key) => services.get(key),
        serviceKeys: function* () {
          yield* services.keys();
        },
      },
      agent: { families: [{ family: 'IPv4', desired: this.desired }] },
      host: { read: (path) => (path === '/proc/net/route' ? routes : undefined) },
    });
    worlds.push(this);
  }

  /** A Service, with what is desired of it. */
  set(of: Service): void {
    this.services.set(of.key, of);
    for (const one of resolve(of, [], context)) this.desired.set(one.key, one);
  }

  async devices(): Promise<string> {
    const { records } = await this.kernel.dump({ kind: 'flowtablesDump', ...inTable });
    return records.map((one) => (one.kind === 'flowtable' ? one.devices : '')).join();
  }

  /** Names in the set of devices: only connections between two of these are moved. */
  async listed(): Promise<string> {
    const shape = { shape: 0, keyLength: 16, dataLength: 0 };
    const request = { kind: 'elementsDump', ...inTable, set: 'with-flowtable', ...shape } as const;
    const { records } = await this.kernel.dump(request);
    const bytes = records.flatMap((one) => (one.kind === 'elements' ? [...one.entries] : []));
    const names = String.fromCharCode(...bytes).match(/.{16}/gs) ?? [];
    return names
      .map((name) => name.replace(/\0+$/, ''))
      .sort()
      .join(' ');
  }

  async elements(set: string): Promise<number> {
    const shape = { shape: 0, keyLength: set === 'excluded-nodeports' ? 8 : 12, dataLength: 0 };
    const { records } = await this.kernel.dump({ kind: 'elementsDump', ...inTable, set, ...shape });
    return records.reduce((sum, one) => sum + (one.kind === 'elements' ? one.count : 0), 0);
  }
}

const worlds: World[] = [];
afterEach(async () => {
  await Promise.all(worlds.splice(0).map(({ path }) => path.close()));
});

/** Lets time pass in all worlds until it is done. */
async function until(done: () => boolean | Promise<boolean>): Promise<void> {
  for (let passedMs = 0; !(await done()); passedMs += 100) {
    expect(passedMs).toBeLessThan(60_000);
    for (const { clock } of worlds) await clock.pass(100);
  }
}

const optedOut = service({
  namespace: 'default',
  ports: [{ name: '', protocol: 'TCP', port: 80, nodePort: 30080 }],
  isFastPathOff: true,
});

const optedIn = service({ namespace: 'default', ports: optedOut.ports });

describe('the fast path', () => {
  it('writes nothing and reads one list of tables while it is off', async () => {
    const { kernel, path } = new World();
    path.choose({ ...wish, fastPath: 'off' }, 'nftables');
    await until(() => path.upToDate);
    expect(kernel.writes).toBe(0);
    expect(path.state).toEqual({ kind: 'off' });
  });

  it('is made once, and a restart writes nothing', async () => {
    const first = new World();
    first.path.choose(wish, 'nftables');
    await until(() => first.path.state.kind === 'flowtable');
    expect(await first.devices()).toBe('eth0');
    expect(await first.listed()).toBe('eth0');
    await first.path.close();
    const { commits } = first.kernel;
    const second = new World(first.kernel);
    second.path.choose(wish, 'iptables');
    await until(() => second.path.state.kind === 'flowtable');
    expect(first.kernel.commits).toBe(commits);
  });

  it('waits for the first lists', async () => {
    const world = new World();
    world.synced = false;
    world.path.choose(wish, 'nftables');
    world.set(optedOut);
    world.path.resolved('default/web');
    expect(world.path.upToDate).toBe(false);
    world.synced = true;
    world.path.synced();
    await until(() => world.path.upToDate);
    expect(await world.elements('excluded-ipv4')).toBe(1);
  });

  it('follows links that come and go', async () => {
    const world = new World();
    const { kernel, path } = world;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    kernel.links.came('veth1', 'veth', { leaves: 1 });
    await world.clock.pass(99);
    expect(await world.devices()).toBe('eth0');
    await world.clock.pass(1);
    expect(await world.devices()).toBe('eth0 veth1');
    expect(await world.listed()).toBe('eth0 veth1');
    kernel.links.went('veth1');
    await until(async () => (await world.devices()) === 'eth0');
    await until(async () => (await world.listed()) === 'eth0');
  });

  it('tries a device again that the kernel refused when another one gets its name', async () => {
    const world = new World();
    const { kernel, path } = world;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    const apply = kernel.apply.bind(kernel);
    kernel.apply = async () => {
      const failure = { op: 0, entry: undefined, code: 'EOPNOTSUPP', message: 'no offload' };
      return { kind: 'failed', failures: [failure], partly: false };
    };
    kernel.links.came('veth1', 'veth', { leaves: 1 });
    await until(() => world.lines.some((line) => line.includes('rejected fast path device')));
    expect(await world.listed()).toBe('eth0');
    kernel.apply = apply;
    kernel.links.went('veth1');
    kernel.links.came('veth2', 'veth', { leaves: 1 });
    await until(async () => (await world.devices()) === 'eth0 veth2');
    kernel.links.came('veth1', 'veth', { leaves: 1 });
    await until(async () => (await world.devices()) === 'eth0 veth2 veth1');
  });

  it('follows a link that comes while it looks at the kernel', async () => {
    const world = new World();
    const { kernel, path } = world;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    const dump = kernel.dump.bind(kernel);
    let isComing = true;
    kernel.dump = async (request, take) => {
      const result = await dump(request, take);
      if (request.kind === 'linksDump' && isComing) {
        isComing = false;
        kernel.links.came('veth2', 'veth', { leaves: 1 });
        await quiet();
      }
      return result;
    };
    kernel.links.came('veth1', 'veth', { leaves: 1 });
    await until(() => !isComing);
    await until(async () => (await world.devices()) === 'eth0 veth1 veth2');
  });

  it('is replaced when a Service opts out, and not when one opts in again', async () => {
    const world = new World();
    const { kernel, path, services } = world;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    expect(path.takes('default/web')).toBe(true);
    world.set(optedOut);
    path.resolved('default/web');
    await until(() => path.upToDate);
    expect(path.takes('default/web')).toBe(false);
    expect(await world.elements('excluded-ipv4')).toBe(1);
    expect(await world.elements('excluded-nodeports')).toBe(1);
    const handle = async () => (await kernel.dump({ kind: 'tablesDump', family: 1 })).records;
    const before = await handle();
    services.delete('default/web');
    world.desired.clear();
    path.resolved('default/web');
    await until(async () => (await world.elements('excluded-ipv4')) === 0);
    expect(await handle()).toEqual(before);
  });

  it('is replaced every half a minute at most, however often Services opt out', async () => {
    const clock = new ToyClock();
    const kernel = new FakeKernel();
    kernel.links.came('eth0', '');
    const replacedMs: number[] = [];
    const apply = kernel.apply.bind(kernel);
    kernel.apply = (ops) => {
      const kinds = [...readRecords(nftOps, ops)].map(({ kind }) => kind);
      if (kinds.includes('tableDelete')) replacedMs.push(clock.now());
      return apply(ops);
    };
    const world = new World(kernel, clock);
    world.path.choose(wish, 'nftables');
    await clock.pass(1000);
    for (let i = 0; i < 100; i += 1) {
      const isOff = i % 2 === 0;
      world.set(isOff ? optedOut : optedIn);
      world.path.resolved('default/web');
      await clock.pass(150);
      expect(await world.elements('excluded-ipv4')).toBe(isOff ? 1 : 0);
      await clock.pass(850);
    }
    const pauses = replacedMs.slice(1).map((ms, i) => ms - replacedMs[i]!);
    expect(replacedMs.length).toBeGreaterThanOrEqual(3);
    expect(Math.min(...pauses)).toBeGreaterThanOrEqual(30_000);
    // The last to opt out, too, has no connections in it half a minute later.
    world.set(optedOut);
    world.path.resolved('default/web');
    await clock.pass(1000);
    const before = replacedMs.length;
    await clock.pass(31_000);
    expect(replacedMs.length).toBe(before + 1);
    await clock.pass(120_000);
    expect(replacedMs.length).toBe(before + 1);
  });

  it('leaves out what a Service has of the frontends that it asks for, up to a limit', async () => {
    const count = 1500;
    const world = new World();
    const externalIPs = Array.from({ length: count }, (_, i) => `203.0.${i >> 8}.${i & 0xff}`);
    const large = { ...optedOut, ports: portsOf(count), externalIPs: externalIPs.map(address) };
    world.services.set(large.key, large);
    const limits = { ...noLimits, frontends: count };
    const [own] = finish(resolveInSteps(large, [], { ...context, limits })).forwardings;
    world.desired.set(own!.key, own!);
    world.path.choose(wish, 'nftables');
    await until(() => world.path.state.kind === 'flowtable');
    expect(await world.elements('excluded-ipv4')).toBe(own!.frontends.length);
    world.desired.set(own!.key, { ...own!, frontends: own!.frontends.slice(0, 1) });
    world.path.resolved(large.key);
    await until(async () => (await world.elements('excluded-ipv4')) === 1);
  });

  it('waits for what a Service has that opts out, so that a restart writes nothing', async () => {
    const first = new World();
    first.set(optedOut);
    first.path.choose(wish, 'nftables');
    await until(() => first.path.state.kind === 'flowtable');
    await first.path.close();
    const { commits } = first.kernel;
    const second = new World(first.kernel);
    second.synced = false;
    second.path.choose(wish, 'nftables');
    second.services.set(optedOut.key, optedOut);
    second.synced = true;
    second.path.synced();
    await second.clock.pass(9000);
    second.set(optedOut);
    second.path.resolved(optedOut.key);
    await until(() => second.path.upToDate);
    expect([second.path.state.kind, first.kernel.commits]).toEqual(['flowtable', commits]);
  });

  it('is not put off by a Service that changes all the time', async () => {
    const world = new World();
    const { path } = world;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    world.set(optedOut);
    for (let i = 0; i < 200; i += 1) {
      world.set({ ...optedOut });
      path.resolved('default/web');
      await world.clock.pass(5);
    }
    expect(await world.elements('excluded-ipv4')).toBe(1);
  });

  it('repairs what another program changes, and says so', async () => {
    const { kernel, lines, path } = new World();
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    const writer = new RecordWriter(nftOps);
    writer.write('chainFlush', { ...inTable, chain: 'forward' });
    kernel.foreign(writer.finish());
    await until(() => lines.some((line) => line.startsWith('Repaired fast path')));
    const request = { kind: 'rulesDump', ...inTable, chain: 'forward' } as const;
    await until(async () => (await kernel.dump(request)).records.length === 1);
  });

  it('goes with the setting, and with a mode that translates no packets', async () => {
    const { kernel, lines, path } = new World();
    const tables = async () => (await kernel.dump({ kind: 'tablesDump', family: 1 })).records;
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'flowtable');
    path.choose(wish, 'ipvs');
    await until(() => path.state.kind === 'unavailable');
    expect(await tables()).toEqual([]);
    expect(lines.filter((line) => line.includes('unavailable'))).toHaveLength(1);
    path.choose(wish, 'iptables');
    await until(() => path.state.kind === 'flowtable');
    path.choose({ ...wish, fastPath: 'off' }, 'iptables');
    await until(() => path.state.kind === 'off');
    expect(await tables()).toEqual([]);
  });

  it('leaves a table of the same name alone that another program made', async () => {
    const { kernel, lines, path } = new World();
    const writer = new RecordWriter(nftOps);
    writer.write('tableAdd', { ...inTable, comment: 'not ours' });
    kernel.foreign(writer.finish());
    path.choose(wish, 'nftables');
    await until(() => path.state.kind === 'unavailable');
    expect(lines).toEqual(['Fast path unavailable; using the rules']);
    path.choose({ ...wish, fastPath: 'off' }, 'nftables');
    await until(() => path.state.kind === 'off');
    expect((await kernel.dump({ kind: 'tablesDump', family: 1 })).records).toHaveLength(1);
  });
});
