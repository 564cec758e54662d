/** Failure detection on the fake kernel: what it follows, what it asks for, and what it leaves. */
import { describe, expect, it } from 'vitest';
import { ownTable } from '../../../src/failure-detection/layout.ts';
import { KernelError } from '../../../src/kernel/errors.ts';
import { nftOps } from '../../../src/kernel/ops.ts';
import { RecordWriter } from '../../../src/kernel/records.ts';
import { detectionRemarks } from '../../../src/serve/ask/endpoint-answers.ts';
import type { Detection } from '../../../src/state/detection.ts';
import type { Seen } from '../../../src/state/resolve.ts';
import { ips } from '../state/build.ts';
import { byAnnotation, eject, off, World } from './world.ts';

describe('failure detection', () => {
  it('has no table, no timer and no record without a Service that asks', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
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
    world.detection.choose(byAnnotation);
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
    while (world.events.length === 1) await world.clock.pass(250);
    expect(world.events.at(-1)).toMatchObject({ change: { kind: 'returned', because: 'answer' } });
    await world.clock.pass(8000);
    expect(world.parts(key)['10.0.0.2:8080']).toBeLessThan(1);
    await world.clock.pass(3000);
    expect(world.parts(key)).toEqual({});
  });

  it.each([
    // A look dumps three times. Each fourth one probes: every 4 × 250, 4 × (30 + 600) and
    // 4 × (300 + 1000) ms.
    [0, 120],
    [10, 47],
    [100, 23],
  ])('rests for 20 times as long as it looked, at most a second: %i ms', async (dumpMs, probes) => {
    const world = new World();
    world.detection.choose(byAnnotation);
    world.say('web', ['10.0.0.1'], { mode: 'observe', probes: true });
    await world.clock.pass(2000);
    world.dumpMs = dumpMs;
    await world.clock.pass(10_000);
    world.probed.length = 0;
    await world.clock.pass(120_000);
    expect(Math.abs(world.probed.length - probes)).toBeLessThanOrEqual(1);
  });

  it('waits for an answer to a probe until shortly before the kernel repeats its SYN', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
    world.say('web', ['10.0.0.1'], { mode: 'observe', probes: true });
    world.deaf.add('10.0.0.1');
    while (world.openProbes === 0) await world.clock.pass(1);
    await world.clock.pass(800);
    expect(world.openProbes).toBe(1);
    await world.clock.pass(190);
    expect(world.openProbes).toBe(0);
  });

  it('gives all endpoints back when the Service asks for it no more', async () => {
    const world = new World();
    const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    world.detection.choose(byAnnotation);
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
    world.detection.choose(byAnnotation);
    await world.clock.pass(1000);
    expect(world.detection.totals.services).toBe(0);
    expect(await world.tables()).toBe(0);
  });

  it('notices that a silent endpoint is not followed any more', async () => {
    const world = new World();
    const endpoints = ['10.0.0.1', '10.0.0.2'];
    world.detection.choose({ ...off, failureDetection: 'observe' });
    const key = world.say('web', endpoints);
    await world.traffic(endpoints, 4);
    world.deaf.add('10.0.0.2');
    await world.traffic(endpoints, 10);
    expect(world.detection.silentIn('IPv4', world.of(key).key)).toHaveLength(1);
    world.noticed.length = 0;
    world.detection.choose(byAnnotation);
    await world.clock.pass(1000);
    expect(world.noticed).toEqual([key]);
  });

  it('does nothing for a Service that asks where the configuration says off', async () => {
    const world = new World();
    const endpoints = ['10.0.0.1', '10.0.0.2', '10.0.0.3'];
    world.detection.choose(byAnnotation);
    const key = world.say('web', endpoints, { mode: 'eject', probes: true });
    await world.traffic(endpoints, 4);
    world.deaf.add('10.0.0.2');
    await world.traffic(endpoints, 10);
    expect(world.parts(key)).toEqual({ '10.0.0.2:8080': 0 });
    world.detection.choose(off);
    await world.clock.pass(1000);
    expect(world.parts(key)).toEqual({});
    expect(await world.tables()).toBe(0);
    world.probed.length = 0;
    world.say('web', endpoints, eject);
    await world.clock.pass(5000);
    expect(world.detection.totals).toMatchObject({ services: 0, endpoints: 0 });
    expect(world.probed).toEqual([]);
    expect(world.detection.state.kind).toBe('off');
    const known = { failureDetection: world.detection };
    const seen = { forwarding: world.of(key) } as Seen;
    expect(detectionRemarks(known, world.services.get(key)!, seen)).toEqual([
      'The configuration forbids failure detection (failureDetection: off).',
    ]);
    world.detection.choose(byAnnotation);
    await world.clock.pass(1000);
    expect(world.detection.totals).toMatchObject({ services: 1, endpoints: 3 });
  });

  it('probes each endpoint once a second where a Service asks for that, and no others', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
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
    world.detection.choose(byAnnotation);
    const all = ips(1100);
    const probes: Detection = { mode: 'eject', probes: true };
    for (const ip of all) world.deaf.add(ip);
    const totals = () => [world.detection.totals.endpoints, world.detection.totals.leftOut];
    world.say('a', all, probes, 'greedy');
    await world.clock.pass(250);
    expect(totals()).toEqual([1000, 100]);
    for (const name of ['b', 'c']) world.say(name, all, probes, 'greedy');
    world.say('web', ['192.168.0.1', '192.168.0.2'], probes, 'modest');
    await world.clock.pass(4750);
    expect(totals()).toEqual([2002, 1300]);
    expect(world.mostOpen).toBeLessThanOrEqual(2 * 100);
    const modest = world.probed.filter((ip) => ip.startsWith('192.168.'));
    expect(modest.length).toBeGreaterThanOrEqual(8);
    // 20 a second for each namespace, in five seconds and at their beginning.
    expect(world.probed.length - modest.length).toBeLessThanOrEqual(105);
  });

  it('starts a hundred probes a second for all namespaces, also to endpoints that do not answer', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
    const all = ips(300);
    for (const ip of all) world.deaf.add(ip);
    for (let i = 0; i < 10; i += 1) {
      const own = all.slice(30 * i, 30 * (i + 1));
      world.say('web', own, { mode: 'observe', probes: true }, `ns-${i}`);
    }
    while (world.probed.length === 0) await world.clock.pass(50);
    expect(world.probed.length).toBe(25);
    world.probed.length = 0;
    await world.clock.pass(10_000);
    expect(world.mostOpen).toBe(100);
    expect(world.probed.length).toBeGreaterThan(950);
    expect(world.probed.length).toBeLessThanOrEqual(1050);
  });

  it('makes its table again when another program has changed it, and counts from zero', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
    world.say('web', ['10.0.0.1', '10.0.0.2'], eject);
    await world.traffic(['10.0.0.1', '10.0.0.2'], 3);
    const whole = world.fake.ruleset();
    const writer = new RecordWriter(nftOps);
    const chain = 'to-endpoints';
    writer.write('chainFlush', { ...ownTable('IPv4'), chain });
    world.fake.foreign(writer.finish());
    expect(world.fake.ruleset()).not.toBe(whole);
    await world.clock.pass(3000);
    expect(world.fake.ruleset()).toBe(whole);
  });

  it('makes its table again, also when the kernel could not say at first whose it is', async () => {
    const world = new World();
    world.detection.choose(byAnnotation);
    world.say('web', ['10.0.0.1', '10.0.0.2'], eject);
    await world.traffic(['10.0.0.1', '10.0.0.2'], 3);
    const whole = world.fake.ruleset();
    const dump = world.fake.dump.bind(world.fake);
    let asked = 0;
    world.fake.dump = async (request, take) => {
      asked += request.kind === 'tablesDump' ? 1 : 0;
      if (request.kind === 'tablesDump' && asked === 1) {
        const words = { operation: 'nft.dump', subject: 'tables', code: 'ENOMEM', words: 'memory' };
        throw new KernelError(words);
      }
      return dump(request, take);
    };
    const writer = new RecordWriter(nftOps);
    writer.write('tableDelete', ownTable('IPv4'));
    world.fake.foreign(writer.finish());
    await world.clock.pass(15_000);
    expect(asked).toBeGreaterThan(1);
    expect(world.fake.ruleset()).toBe(whole);
    expect(world.detection.state.kind).toBe('counting');
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
    world.detection.choose(byAnnotation);
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
