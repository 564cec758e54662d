import { Registry } from 'prom-client';
import { expect, it, vi } from 'vitest';
import type { Reply, Request } from '../../../src/kernel/ops.ts';
import { byteMetrics } from '../../../src/serve/collectors.ts';
import { outcomePortsMax } from '../../../src/serve/metric-table.ts';
import { ServiceBytes } from '../../../src/service-bytes/service-bytes.ts';
import type { ServedPort } from '../../../src/state/frontends-in-force.ts';
import type { EndpointSlice } from '../../../src/state/types.ts';
import { all, byFrontend, clusterIP, forwarding, pool } from '../modes/nftables/forwardings.ts';
import { address, node, ready, service, slice } from '../state/build.ts';
import { ToyClock } from '../sync/double.ts';

/** What the kernel says: `10.96.0.1 10.0.0.5 10 200`, with a port other than 80 at the end. */
function record(text: string) {
  const [frontend, endpoint, sent, out, port = 80] = text.split(' ');
  const addresses = { frontend: address(frontend!).bytes, endpoint: address(endpoint!).bytes };
  const numbers = { in: Number(sent), out: Number(out), port: Number(port), ms: 0 };
  const durations = new Uint8Array();
  return { kind: 'bytesOfEnded', protocol: 6, ...addresses, ...numbers, durations } as const;
}

const numbers = (...list: number[]) => new Uint8Array(Uint32Array.from(list).buffer);

/** Endpoints, each with the zone that a slice says. */
function zoned(zones: Readonly<Record<string, string>>): EndpointSlice {
  const endpoints = Object.fromEntries(Object.keys(zones).map((one) => [one, ready]));
  return slice(endpoints, { places: Object.values(zones).map((zone) => ({ node: '', zone })) });
}

const named = (name: string, ip: string) =>
  forwarding(name, pool(5), { frontends: [clusterIP(ip)] });
const web: ServedPort = {
  family: 'IPv4',
  namespace: 'ns',
  service: 'web',
  port: '',
  protocol: 'TCP',
};
/** In the first zones of the world. */
const [one, other] = ['10.96.0.1 10.0.0.5', '10.96.0.1 10.0.0.6'] as const;

class World {
  readonly clock = new ToyClock();
  readonly lines: object[] = [];
  readonly files: Record<string, string> = {};
  readonly services = new Map(['web', 'out'].map((name) => [`ns/${name}`, service({ name })]));
  /** Of the first Service, only the last one has whole addresses, of their family, and zones. */
  slices: Record<string, readonly EndpointSlice[]> = {
    'ns/web': [
      zoned({ '10.0.10.0': 'a', '0.5.10.0': 'b', '0.5.0.0': 'c' }),
      ...[zoned({ 'a00:5:a00:5::': 'd' }), slice({ '10.0.0.5': ready })],
      ...[zoned({ '10.0.0.5': 'near', '10.0.0.6': 'far' }), zoned({ '10.0.0.6': 'later' })],
    ],
    'ns/out': [zoned({ '10.0.0.6': 'said' })],
  };
  readonly agent = {
    config: { flowLog: 'off' },
    mode: { translates: true },
    engine: {
      frontends: byFrontend(
        all(named('web', '10.96.0.1'), named('out', '192.0.2.1'), {
          ...named('other', '10.96.0.3'),
          servicePort: { ...web, namespace: 'of', name: 'other', protocol: 'TCP' },
        }),
      ),
    },
  };
  open = 0;
  readonly requests: Request[] = [];
  #answer = Promise.withResolvers<readonly object[]>();
  readonly bytes = new ServiceBytes({
    clock: this.clock,
    log: {
      warn: (fields) => this.lines.push(fields),
      info: (fields, text) => this.lines.push({ ...fields, text }),
    },
    agent: this.agent,
    state: {
      node: node({ zone: 'near' }),
      service: (key) => this.services.get(key),
      slices: (key) => this.slices[key] ?? [],
    },
    host: { read: (path) => this.files[/nf_conntrack_(?:tcp_timeout_)?(.*)/.exec(path)![1]!] },
    openBytes: () => {
      this.open += 1;
      return { dump: (request) => this.#dump(request), close: () => void this.open-- };
    },
  });

  constructor() {
    this.bytes.choose(true);
  }

  async #dump(request: Request) {
    this.requests.push(request);
    this.#answer = Promise.withResolvers();
    return { records: (await this.#answer.promise) as Reply[], consistent: true };
  }

  /** The kernel answers what was asked last. */
  async says(missed: Error | number, ...all: (string | object)[]): Promise<void> {
    const end = { kind: 'bytesMissed', connections: missed, flows: 0 };
    const records = all.map((each) => (typeof each === 'string' ? record(each) : each));
    if (missed instanceof Error) this.#answer.reject(missed);
    else this.#answer.resolve([end, ...records]);
    await this.clock.pass(0);
  }

  text(): Promise<string> {
    const registry = new Registry();
    byteMetrics(registry, { serviceBytes: this.bytes });
    return registry.metrics();
  }

  /** Samples: `web in 21` of a Service port, `near far 2` of zones. */
  async metrics(): Promise<string[]> {
    const line =
      /^fairlead_\w+_bytes_total\{.*?(?:service|from)="(.*?)".*(?:direction|to)="(.*)"\} /gm;
    const text = await this.text();
    return [...text.replaceAll(line, '$1 $2 ').matchAll(/^(?!#|fairlead).+$/gm)].map(String);
  }
}

it('adds up bytes by Service port and zone; clients of ClusterIPs are in the zone of the node', async () => {
  const world = new World();
  await world.says(3, `${one} 10 200`, `${other} 1 2`);
  await world.says(1, '192.0.2.1 10.0.0.6 30 40', '192.0.2.1 10.0.0.9 5 6');
  await world.says(0, `${one} 7 7 81`, '10.96.9.9 10.0.0.5 9 9', `${one} 10 200`);
  expect((await world.metrics()).join(', ')).toBe(
    'web in 21, out in 35, web out 402, out out 46, near near 420, near far 1, far near 2,  said 30, said  40,   11',
  );
  const { bytes } = world;
  const unknown = bytes.bytesOf({ ...web, port: 'other' });
  expect([bytes.missed, bytes.bytesOf(web), unknown]).toEqual([4, 423, 0]);
});

it('looks for zones again after a minute or 131,072 endpoints, and forgets Services that have gone', async () => {
  const world = new World();
  await world.says(0, `${one} 1 0`, '192.0.2.1 10.0.0.6 2 0');
  world.slices = { 'ns/web': [zoned({ '10.0.0.5': 'new' })] };
  world.services.delete('ns/out');
  await world.clock.pass(59_999);
  await world.says(0);
  await world.says(0, `${one} 1 0`);
  expect(await world.metrics()).toEqual(expect.arrayContaining(['near near 2', 'out in 2']));
  await world.clock.pass(1);
  await world.says(0);
  await world.says(0, `${one} 1 0`);
  const last = await world.metrics();
  expect([last.includes('near new 1'), last.includes('out in 2')]).toEqual([true, false]);
  world.slices = { 'ns/web': [zoned({ '10.0.0.5': 'third' })] };
  const sample = record('192.0.2.1 10.1.0.0 0 0');
  const others = Array.from({ length: 131_071 }, (_, i) => {
    return { ...sample, endpoint: Uint8Array.of(11, i >> 16, i >> 8, i) };
  });
  const theLast = others.pop()!;
  for (let i = 0; i < others.length; i += 10_000) {
    await world.says(0, ...others.slice(i, i + 10_000));
  }
  await world.says(0, `${one} 5 0`, theLast, `${one} 6 0`);
  expect(await world.metrics()).toEqual(expect.arrayContaining(['near new 6', 'near third 6']));
});

it('counts zones beyond sixteen of a namespace together, looks for an endpoint once, and gives a thousand ports series', async () => {
  const world = new World();
  const many = Array.from({ length: 60 }, (_, i) => `10.0.1.${i}`);
  const all = zoned(Object.fromEntries(many.map((each) => [each, each])));
  const read = vi.fn(() => all.addresses);
  const own = Object.defineProperty({ ...all }, 'addresses', { get: read });
  world.slices = { 'ns/web': [own], 'of/other': [zoned({ '10.0.0.5': 'far' })] };
  const toMany = (bytes: number) => many.map((each) => `10.96.0.1 ${each} ${bytes} ${bytes}`);
  await world.says(0, ...toMany(1), '10.96.0.3 10.0.0.5 0 9');
  await world.says(0, ...toMany(0));
  for (let i = 0; i < outcomePortsMax + 7; i += 1) {
    const counted = { in: 1, out: 1, durations: [], ms: 0 };
    world.bytes.ports.set(`${i}`, { ...web, service: `s${i}`, ...counted });
  }
  const found = await world.metrics();
  expect(found.length).toBe(2 * outcomePortsMax + 2 * 16 + 4);
  expect(found.slice(-4)).toEqual(['near other 44', 'other near 44', ' far 0', 'far  9']);
  expect(read).toHaveBeenCalledTimes(many.length);
});

it('says what keeps it from counting, and tries again after 5 s what the kernel refuses', async () => {
  const world = new World();
  const found = () => world.bytes.findings.map(({ text }) => text.replace('is not in force: ', ''));
  await world.says(new Error('no memory'));
  await world.clock.pass(4999);
  expect([world.requests.length, found()]).toEqual([1, ['no memory']]);
  await world.clock.pass(1);
  await world.says(new Error('no memory'));
  expect([world.requests.length, world.lines]).toEqual([2, [{ err: 'no memory' }]]);
  await world.clock.pass(5000);
  await world.says(0);
  expect(found()).toEqual([]);
  for (const name of ['events', 'acct']) {
    world.files[name] = '0';
    expect(found()).toEqual([`net.netfilter.nf_conntrack_${name} is 0`]);
  }
  world.agent.mode.translates = false;
  expect(found()).toEqual(['mode userspace does not count them']);
});

it('opens one reader while the setting is on, and begins at 0 when it is on again', async () => {
  const world = new World();
  world.bytes.choose(true);
  await world.says(1, `${one} 1 2`);
  expect([world.open, world.bytes.bytesOf(web)]).toEqual([1, 3]);
  world.bytes.choose(false);
  await world.says(1, `${one} 1 2`);
  expect([world.open, world.bytes.bytesOf(web), world.bytes.findings]).toEqual([0, undefined, []]);
  world.bytes.choose(true);
  expect([await world.metrics(), world.bytes.missed]).toEqual([[], 0]);
  const closed = world.bytes.close();
  await world.says(0);
  await closed;
  expect(world.open).toBe(0);
});

it('counts connections by duration where the kernel times them, less the timers of their states', async () => {
  const world = new World();
  // By the kernel's enum tcp_conntrack, then UDP.
  const states = [
    '',
    'syn_sent',
    'syn_recv',
    '',
    'fin_wait',
    'close_wait',
    'last_ack',
    'time_wait',
  ];
  const all = [...states, 'close', 'syn_sent', 'udp_timeout', 'udp_timeout_stream'];
  for (const [i, name] of all.entries()) world.files[name] ??= `${i}`;
  await world.clock.pass(59_999);
  await world.says(0);
  await world.clock.pass(1);
  await world.says(0);
  const bounds = numbers(10, 100, 1000, 1e4, 6e4, 6e5, 36e5);
  const none = { bounds, timers: numbers(...Array(12).fill(0)) };
  const known = { bounds, timers: numbers(0, 1, 2, 0, 4, 5, 6, 7, 8, 1, 10, 11) };
  expect(world.requests).toMatchObject([none, none, known]);
  const timed = (ms: number, ...durations: number[]) => {
    return { ...record(`${one} 1 1`), ms, durations: numbers(...durations) };
  };
  const untimed = record('192.0.2.1 10.0.0.6 1 1');
  await world.says(0, timed(1500, 2, 0, 1, 0, 0, 0, 0, 0), untimed);
  await world.says(0, timed(4e6, 1, 0, 0, 0, 0, 0, 0, 1));
  const lines = (await world.text()).matchAll(/_seconds_(\w+)\{(.*)\} (.*)/g);
  const labels = 'ip_family="IPv4",namespace="ns",service="web",port="",protocol="TCP"';
  const text = [...lines].map(([, suffix, own, value]) => `${suffix} ${own} ${value}`);
  const upTo = ['0.01" 3', '0.1" 3', '1" 4', '10" 4', '60" 4', '600" 4', '3600" 4', '+Inf" 5'];
  const buckets = upTo.map((text) => `bucket ${labels},le="${text}`);
  expect(text).toEqual([...buckets, `sum ${labels} 4001.5`, `count ${labels} 5`]);
});

it('logs connections that ended, as many as are asked for, and how many others there were', async () => {
  const world = new World();
  const flow = {
    ...{ ...record(`${one} 10 200`), kind: 'flowOfEnded', client: address('10.0.9.9').bytes },
    ...{ clientPort: 5000, endpointPort: 8080, outcome: 0, isTimed: 1, ms: 1500 },
  };
  await world.says(0);
  world.agent.config.flowLog = 'failed';
  await world.says(0);
  world.agent.config.flowLog = 'all';
  const of = address('10.96.9.9').bytes;
  await world.says(0, flow, { ...flow, outcome: 1, isTimed: 0 }, { ...flow, frontend: of });
  const others = { kind: 'bytesMissed', connections: 0, flows: 7 };
  await world.says(0, { ...flow, outcome: 2, ms: 0 }, others);
  const asks = (flows: number, failed: number) => ({ flows, failed });
  expect(world.requests.slice(1)).toMatchObject([
    asks(0, 0),
    asks(50, 1),
    asks(50, 0),
    asks(50, 0),
  ]);
  const line = {
    ...{ service: 'ns/web', port: 'TCP', client: '10.0.9.9:5000', frontend: '10.96.0.1:80' },
    ...{ endpoint: '10.0.0.5:8080', bytesIn: 10, bytesOut: 200, text: 'Connection ended' },
  };
  expect(world.lines).toEqual([
    { ...line, outcome: 'answered', durationMs: 1500 },
    { ...line, outcome: 'reset' },
    { ...line, outcome: 'no answer', durationMs: 0 },
    { flows: 7, text: 'Ended connections without a line of their own' },
  ]);
  expect(await world.metrics()).toEqual([]);
});
