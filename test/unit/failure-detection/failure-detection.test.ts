/** Failure detection on the fake kernel: what it follows, what it asks for, and what it leaves. */
import { describe, expect, it, onTestFinished } from 'vitest';
import { FailureDetection } from '../../../src/failure-detection/failure-detection.ts';
import { tableName } from '../../../src/failure-detection/layout.ts';
import { limits } from '../../../src/failure-detection/ports.ts';
import { probeLimits } from '../../../src/failure-detection/prober.ts';
import type { Kernel } from '../../../src/kernel/kernel.ts';
import { NFPROTO } from '../../../src/kernel/nft/constants.ts';
import { ElementShape, nftOps, type Reply, type Request } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { binary } from '../../../src/modes/elements.ts';
import type { Detection, EndpointEvent } from '../../../src/state/detection.ts';
import { resolve } from '../../../src/state/resolve.ts';
import type { Forwarding, Service } from '../../../src/state/types.ts';
import { FakeKernel } from '../../fake/kernel.ts';
import { address, context, http, ips, ready, service, slice } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

const eject: Detection = { mode: 'eject', probes: false };
const off = { failureDetection: 'off', failureDetectionMaxEjected: 50 } as const;

function* keys(services: ReadonlyMap<string, Service>): Generator<string> {
  yield* services.keys();
}

class World {
  readonly fake = new FakeKernel();
  readonly clock = new ToyClock();
  readonly services = new Map<string, Service>();
  readonly desired = new Map<string, Forwarding>();
  readonly events: EndpointEvent[] = [];
  readonly dealt: string[] = [];
  readonly noticed: string[] = [];
  readonly lines: string[] = [];
  /** Addresses that answer no probe. */
  readonly deaf = new Set<string>();
  readonly probed: string[] = [];
  /** What the elements of each set count, by the first four bytes of their key. */
  readonly counts = new Map<string, number>();
  readonly detection: FailureDetection;
  openProbes = 0;
  mostOpen = 0;

  constructor() {
    const line = (_: object, message: string): void => void this.lines.push(message);
    this.detection = new FailureDetection({
      kernel: this.#counting(),
      clock: this.clock,
      log: { info: line, warn: line },
      state: {
        service: (key) => this.services.get(key),
        serviceCIDRs: () => [],
        serviceKeys: () => keys(this.services),
      },
      families: () => [{ family: 'IPv4', desired: this.desired }],
      interfaces: () => [address('192.0.2.1')],
      observer: (event) => void this.events.push(event),
      dealt: (key) => void this.dealt.push(key),
      noticed: (key) => void this.noticed.push(key),
      connect: async ({ address: to }) => {
        this.probed.push(to);
        this.openProbes += 1;
        this.mostOpen = Math.max(this.mostOpen, this.openProbes);
        if (this.deaf.has(to)) await new Promise<void>((done) => this.clock.after(900, done));
        this.openProbes -= 1;
        return !this.deaf.has(to);
      },
    });
    onTestFinished(() => this.detection.close());
  }

  /** The fake's elements count nothing: these do. */
  #counting(): Kernel {
    const { counts, fake } = this;
    const dump: Kernel['dump'] = async (request: Request, take) => {
      const result = await fake.dump(request, take);
      for (const record of result.records) count(record);
      return result;
    };
    const count = (record: Reply): void => {
      if (record.kind !== 'elements' || (record.shape & ElementShape.counter) === 0) return;
      const { entries, keyLength } = record;
      const view = new DataView(entries.buffer, entries.byteOffset);
      for (let at = 0; at < entries.length; at += keyLength + 8) {
        const key = `${record.set} ${binary(entries.subarray(at, at + 4))}`;
        view.setBigUint64(at + keyLength, BigInt(counts.get(key) ?? 0), true);
      }
    };
    return new Proxy<Kernel>(fake, {
      get: (target, name) => {
        if (name === 'dump') return dump;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  add(set: 'attempts' | 'answers' | 'resets', to: string, count = 1): void {
    const key = `${set} ${binary(address(to).bytes)}`;
    this.counts.set(key, (this.counts.get(key) ?? 0) + count);
  }

  /** Clients connect to all of these in each turn, and those that are not deaf answer. */
  async traffic(endpoints: readonly string[], turns: number): Promise<void> {
    for (let i = 0; i < turns; i += 1) {
      for (const one of endpoints) {
        this.add('attempts', one, 3);
        if (!this.deaf.has(one)) this.add('answers', one, 3);
      }
      await this.clock.pass(250);
    }
  }

  say(name: string, endpoints: readonly string[], detection?: Detection, namespace = 'ns'): string {
    const one = service({ name, namespace, detection, ports: [http] });
    const slices = [slice(Object.fromEntries(endpoints.map((ip) => [ip, ready])))];
    for (const forwarding of resolve(one, slices, context)) {
      this.desired.set(forwarding.key, forwarding);
    }
    this.services.set(one.key, one);
    this.detection.resolved(one.key);
    return one.key;
  }

  async tables(): Promise<number> {
    const { records } = await this.fake.dump({ kind: 'tablesDump', family: 2 });
    return records.length;
  }
}

describe('failure detection', () => {
  it('has no table, no timer and no record without a Service that asks', async () => {
    const world = new World();
    world.detection.choose(off);
    world.say('web', ['10.0.0.1', '10.0.0.2']);
    await world.clock.pass(10_000);
    expect(await world.tables()).toBe(0);
    expect(world.detection.state.kind).toBe('off');
    expect(world.detection.totals).toMatchObject({ services: 0, endpoints: 0 });
    expect(world.lines).toEqual([]);
  });

  it('leaves out an endpoint of the Service that asks, and takes it back', async () => {
    const world = new World();
    const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    world.detection.choose(off);
    const key = world.say('web', endpoints, eject);
    const other = world.say('other', endpoints, { mode: 'observe', probes: false });
    await world.traffic(endpoints, 4);
    world.deaf.add('10.0.0.2');
    await world.traffic(endpoints, 10);
    expect(world.events).toMatchObject([
      { service: key, endpoint: '10.0.0.2:8080', change: { kind: 'ejected' } },
    ]);
    expect(new Set(world.dealt)).toEqual(new Set([key]));
    expect(world.noticed).toContain(other);
    const of = (name: string) =>
      [...world.desired.values()].find((one) => one.servicePort.name === name)!;
    const { cluster, key: forwarding } = of('web');
    expect([...world.detection.parts('IPv4', forwarding)!]).toEqual([[cluster.key(1), 0]]);
    expect(world.detection.parts('IPv4', of('other').key)).toBeUndefined();
    expect(world.detection.silentIn('IPv4', of('other').key)).toEqual(['10.0.0.2:8080']);
    expect([...world.detection.services()]).toEqual([key]);
    world.deaf.clear();
    await world.clock.pass(10_000);
    expect(world.events.at(-1)).toMatchObject({ change: { kind: 'returned', because: 'answer' } });
    await world.clock.pass(12_000);
    expect(world.detection.parts('IPv4', forwarding)).toBeUndefined();
  });

  it('gives all endpoints back when the Service asks for it no more', async () => {
    const world = new World();
    const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    world.detection.choose(off);
    const key = world.say('web', endpoints, eject);
    await world.traffic(endpoints, 4);
    world.deaf.add('10.0.0.2');
    await world.traffic(endpoints, 10);
    expect(world.detection.totals.out).toBe(1);
    expect(await world.tables()).toBe(1);
    world.dealt.length = 0;
    world.say('web', endpoints);
    await world.clock.pass(1000);
    expect(world.dealt).toEqual([key]);
    expect(await world.tables()).toBe(0);
    expect(world.detection.state.kind).toBe('off');
    expect(world.lines.at(-1)).toBe('Removed the table of failure detection');
  });

  it('follows the configuration where a Service does not say', async () => {
    const world = new World();
    world.detection.choose({ ...off, failureDetection: 'eject' });
    world.say('web', ['10.0.0.1', '10.0.0.2']);
    world.say('quiet', ['10.0.0.3'], { mode: 'off', probes: false });
    await world.clock.pass(1000);
    expect(world.detection.totals).toMatchObject({ services: 1, endpoints: 2 });
    world.detection.choose(off);
    await world.clock.pass(1000);
    expect(world.detection.totals.services).toBe(0);
    expect(await world.tables()).toBe(0);
  });

  it('probes each endpoint once a second where a Service asks for that, and no others', async () => {
    const world = new World();
    world.detection.choose(off);
    world.say('web', ['10.0.0.1', '10.0.0.2', '192.0.2.1'], { mode: 'eject', probes: true });
    world.say('other', ['10.0.0.9'], eject);
    await world.clock.pass(10_100);
    const counts = ['10.0.0.1', '10.0.0.2', '192.0.2.1', '10.0.0.9'].map(
      (ip) => world.probed.filter((one) => one === ip).length,
    );
    expect(counts[0]).toBeGreaterThanOrEqual(10);
    expect(counts[0]).toBeLessThanOrEqual(11);
    expect(counts[1]).toBeGreaterThanOrEqual(10);
    expect(counts.slice(2)).toEqual([0, 0]);
    world.deaf.add('10.0.0.1');
    await world.clock.pass(6000);
    expect(world.events).toMatchObject([{ endpoint: '10.0.0.1:8080' }]);
  });

  it('follows and probes a bounded number, and one namespace leaves room for others', async () => {
    const world = new World();
    world.detection.choose(off);
    const all = ips(limits.port + 100);
    const probes: Detection = { mode: 'eject', probes: true };
    for (const ip of all) world.deaf.add(ip);
    for (const name of ['a', 'b', 'c']) world.say(name, all, probes, 'greedy');
    world.say('web', ['192.168.0.1', '192.168.0.2'], probes, 'modest');
    await world.clock.pass(5000);
    const { endpoints, leftOut } = world.detection.totals;
    expect(endpoints).toBe(limits.namespace + 2);
    expect(leftOut).toBe(3 * all.length - limits.namespace);
    expect(world.mostOpen).toBeLessThanOrEqual(2 * probeLimits.together);
    const modest = world.probed.filter((ip) => ip.startsWith('192.168.'));
    expect(modest.length).toBeGreaterThanOrEqual(8);
    expect(world.probed.length).toBeLessThanOrEqual(21 * 2 * probeLimits.turn);
  });

  it('makes its table again when another program has changed it, and counts from zero', async () => {
    const world = new World();
    world.detection.choose(off);
    world.say('web', ['10.0.0.1', '10.0.0.2'], eject);
    await world.traffic(['10.0.0.1', '10.0.0.2'], 3);
    const whole = world.fake.ruleset();
    const writer = new RecordWriter(nftOps);
    const chain = 'to-endpoints';
    writer.write('chainFlush', { family: NFPROTO.IPv4, table: tableName, chain });
    world.fake.foreign(writer.finish());
    expect(world.fake.ruleset()).not.toBe(whole);
    await world.clock.pass(3000);
    expect(world.fake.ruleset()).toBe(whole);
  });

  it('does without the table where the kernel refuses it: probes show what answers', async () => {
    const world = new World();
    const apply = world.fake.apply.bind(world.fake);
    let isRefusing = true;
    world.fake.apply = async (ops) => {
      if (!isRefusing) return apply(ops);
      const failure = { op: 0, entry: undefined, code: 'EOPNOTSUPP', message: 'not supported' };
      return { kind: 'failed', failures: [failure], partly: false };
    };
    world.detection.choose(off);
    world.say('web', ['10.0.0.1', '10.0.0.2'], { mode: 'eject', probes: true });
    await world.clock.pass(3000);
    expect(world.detection.state).toMatchObject({ kind: 'unavailable' });
    expect(world.lines).toEqual([
      'Failed to count answers of endpoints; only probes show which answer',
    ]);
    world.deaf.add('10.0.0.2');
    await world.clock.pass(12_000);
    expect(world.events).toMatchObject([{ endpoint: '10.0.0.2:8080' }]);
    isRefusing = false;
    await world.clock.pass(10_000);
    expect(world.detection.state.kind).toBe('counting');
  });
});
