/** Connect-time translation beyond stories: who owns the programs, and what a start finds. */
import { existsSync, readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, test as anyTest, beforeAll, beforeEach, expect } from 'vitest';
import type { LoggedMessage } from '../../scripts/log-messages.ts';
import { type ConnectTimePaths, removeConnectTime } from '../../src/connect-time/maps/choice.ts';
import {
  frontendKey,
  groupSize,
  keyBytes,
  mapNames,
  poolValue,
  valueBytes,
} from '../../src/connect-time/maps/layout.ts';
import { poolIdBytes } from '../../src/connect-time/maps/pool-ids.ts';
import { countElements } from '../../src/connect-time/maps/read-map.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { batch } from '../conformance/ops.ts';
import {
  type ActorName,
  clusterIp,
  FAMILIES,
  type Family,
  POD_A_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { notingKernel } from '../lab/noting-kernel.ts';
import { BASELINE, type KubernetesObject, service, settings, slices } from '../lab/objects.ts';
import type { SocketAddress } from '../lab/outcome.ts';
import { answerMs } from '../lab/pace.ts';
import type { ProxySettings } from '../lab/proxy.ts';
import { whoAnswers } from '../lab/who-answers.ts';
import { address } from '../unit/state/build.ts';
import { annotated } from './balancing-rig.ts';
import { NODE_PORT, vip } from './common.ts';
import { fairlead, type LogLine, type MeasuredProxy } from './fairlead-proxy.ts';

const test = anyTest.skipIf(!canTranslate());

let lab: Lab;
let place: ConnectTimePlace;
let running: MeasuredProxy | undefined;

beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

beforeEach(() => {
  place = makeConnectTimePlace();
  for (const actor of ['node', 'pod-a', 'pod-b'] as const) place.include(lab.actors[actor].pid);
});

afterEach(async () => {
  await running?.stop();
  running = undefined;
  const kernel = openKernel();
  await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
  await lab.reset();
  place.close();
});

const repairedMaps = 'Repaired connect-time maps that differ from what was programmed';
const compares = 'Element counts differ from the expected ones; starting a full comparison';
/** Of a Service that has no room. */
const noRoom: readonly LoggedMessage[] = [
  'Connect-time map is full; Service is handled by packet rules only',
];

const localhost = { IPv4: '127.0.0.1', IPv6: '::1' } as const;

interface Start {
  readonly settings?: ProxySettings;
  readonly connectTime?: ProxySettings['connectTime'];
  readonly room?: ConnectTimePaths['room'];
  /** See `notingKernel`. */
  readonly sent?: string[];
  readonly log?: (line: LogLine) => void;
}

async function start(
  objects: readonly KubernetesObject[],
  how: Start = {},
): Promise<MeasuredProxy> {
  const { connectTime = 'all', room, sent = [], log = () => {} } = how;
  const its = { ...(how.settings ?? settings), connectTime, ownTables: false };
  const proxy = fairlead('nftables', {
    connectTime: { ...place, ...(room && { room }) },
    kernel: (kernel) => notingKernel(kernel, sent),
    log,
    errors: 'are told',
  });
  running = await proxy.start(lab.node, its, objects);
  return running;
}

async function stop(): Promise<void> {
  await running?.stop();
  running = undefined;
}

function web(...pods: readonly ActorName[]): KubernetesObject[] {
  return [...BASELINE, service('web', { clusterIp: vip }), ...slices('web', pods)];
}

async function serving(...pods: readonly ActorName[]): Promise<void> {
  const addresses = { 'pod-a': POD_A_IP, 'pod-b': POD_B_IP } as const;
  for (const pod of pods) {
    const at = addresses[pod as keyof typeof addresses];
    for (const family of FAMILIES) await lab.actors[pod].listen('TCP', at[family], 8080);
  }
}

/** Who answers at the ClusterIP. */
function answersTo(client: ActorName, count = 16, family: Family = 'IPv4'): Promise<string[]> {
  return answers(client, { address: vip[family], port: 80 }, count);
}

function answers(client: ActorName, to: SocketAddress, connections = 16): Promise<string[]> {
  return whoAnswers(lab.actors[client], to, { connections });
}

test('connect time needs no rules, and continues after the process ends', async () => {
  await serving('pod-a');
  await start(web('pod-a'));
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  for (const family of FAMILIES) {
    for (const client of ['node', 'pod-b'] as const) {
      expect(await answersTo(client, 4, family)).toEqual(['pod-a']);
    }
  }
});

test('connect time with host is for the node’s own connections, and rules are for pods', async () => {
  await serving('pod-a');
  await start(web('pod-a'), { connectTime: 'host' });
  expect(await answersTo('pod-b')).toEqual(['pod-a']);
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('node')).toEqual(['pod-a']);
  expect(await answersTo('pod-b', 2)).not.toContain('pod-a');
});

test('a restart writes nothing, and one for other sockets only replaces the programs', async () => {
  await start(web('pod-a', 'pod-b'));
  await stop();
  const again: string[] = [];
  await start(web('pod-b', 'pod-a'), { sent: again });
  expect(again).toEqual([]);
  await stop();
  const other: string[] = [];
  await start(web('pod-a', 'pod-b'), { connectTime: 'host', sent: other });
  expect(other).toEqual(['bpfLinksAdd', 'bpfLinksAdd']);
});

test('switched off, connect time leaves nothing, and rules handle connections', async () => {
  await serving('pod-a');
  await start(web('pod-a'));
  expect(readdirSync(place.directory).length).toBeGreaterThan(0);
  await stop();
  await start(web('pod-a'), { connectTime: 'off' });
  expect(existsSync(place.directory)).toBe(false);
  expect(await answersTo('pod-b')).toEqual(['pod-a']);
});

test('node ports answer on configured loopback addresses, to the node only', async () => {
  await serving('pod-a');
  const nodePort = service('web', { clusterIp: vip, ports: [{ port: 80, nodePort: NODE_PORT }] });
  const objects = [...BASELINE, nodePort, ...slices('web', ['pod-a'])];
  const nodePortAddresses = ['127.0.0.0/8', '::1/128'];
  await start(objects, { settings: { ...settings, nodePortAddresses } });
  for (const family of FAMILIES) {
    const to = { address: localhost[family], port: NODE_PORT };
    expect(await answers('node', to)).toEqual(['pod-a']);
    expect(await answers('pod-b', to, 1)).not.toContain('pod-a');
  }
});

test('a Service that does not fit is handled by rules, and other Services are in the maps', async () => {
  await serving('pod-a', 'pod-b');
  const names = ['http', 'other'];
  const large = [
    ...BASELINE,
    service('web', { clusterIp: vip, ports: names.map((name, i) => ({ name, port: 80 + i })) }),
    ...slices('web', ['pod-a', 'pod-b'], { ports: names.map((name) => ({ name, port: 8080 })) }),
  ];
  const other = [
    service('other', { clusterIp: clusterIp(11) }),
    ...slices('other', ['pod-b']),
  ] as const;
  const told: LogLine[] = [];
  const proxy = await start([...large, ...other], {
    // A namespace has half of it.
    room: { frontends: 100, endpoints: 4 * groupSize - 1 },
    log: (line) => told.push(line),
  });
  const { IPv4: address } = clusterIp(11);
  expect(await answersTo('node', 40)).toEqual(['pod-a', 'pod-b']);
  expect(await answers('node', { address, port: 80 }, 4)).toEqual(['pod-b']);
  // In both families. The other Service may be left out, too, until a comparison.
  const left = told.filter(({ msg }) => noRoom.includes(msg));
  expect(left.filter((line) => JSON.stringify(line).includes('/web"'))).toHaveLength(2);
  // Room is free once the kernel has deleted the elements, and then a change uses it.
  const empty = service('other', { clusterIp: clusterIp(11) });
  await proxy.apply([...large, empty]);
  await proxy.apply([...web('pod-a'), empty]);
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('node', 4)).toEqual(['pod-a']);
});

test('a range of ports needs no rules, stays through a restart, and may not fit', async () => {
  const of = service('web', { ports: [{ port: 8080 }] });
  const ranged = annotated(of, { 'fairlead.io/port-range': '8080-8089' });
  const objects = [...BASELINE, ranged, ...slices('web', ['pod-a'])];
  const asked = (connections: number) =>
    answers('pod-b', { address: vip.IPv4, port: 8089 }, connections);
  const how = { settings: { ...settings, serviceMetrics: true }, sent: [] as string[] };
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8089);
  await start(objects, { settings: how.settings });
  await stop();
  const proxy = await start(objects, how);
  expect(how.sent).toEqual([]);
  await asked(3);
  expect(await counted(proxy)).toBe(3);
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await asked(2)).toEqual(['pod-a']);
  // A namespace has half of it.
  await start(objects, { room: { frontends: 3, endpoints: 8 } });
  expect(await asked(2)).toEqual(['pod-a']);
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await asked(2)).not.toContain('pod-a');
});

test('a Service with the annotation is handled by rules only', async () => {
  await serving('pod-a');
  const annotations = { 'fairlead.io/connect-time': 'off' };
  const objects = web('pod-a').map((one) =>
    one.kind === 'Service' ? { ...one, metadata: { ...one.metadata, annotations } } : one,
  );
  await start(objects);
  expect(await answersTo('node', 4)).toEqual(['pod-a']);
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('node', 2)).not.toContain('pod-a');
  await start(objects);
  await running?.apply(web('pod-a'));
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('node', 4)).toEqual(['pod-a']);
});

/** Connections to the Service `web` in IPv4, as Prometheus reads them. */
async function counted(proxy: MeasuredProxy): Promise<number> {
  const name = 'fairlead_service_connections_total{ip_family="IPv4"';
  const line = (await proxy.metrics()).split('\n').find((one) => one.startsWith(name));
  return Number(line?.split(' ').at(-1));
}

test('connections are counted together with those of the rules, through changes and restarts', async () => {
  await serving('pod-a', 'pod-b');
  const how = { settings: { ...settings, serviceMetrics: true } };
  let proxy = await start(web('pod-a'), how);
  await answersTo('node', 5);
  await answersTo('pod-b', 6);
  await answersTo('client', 7);
  expect(await counted(proxy)).toBe(18);
  await proxy.apply(web('pod-b'));
  await answersTo('node', 3);
  await stop();
  await answersTo('node', 2);
  proxy = await start(web('pod-b'), how);
  expect(await counted(proxy)).toBe(23);
});

/** The time after which maps are looked at again. */
const checkMs = 5000;

/** Resolves when maps of this number of families were repaired; `log` receives all lines. */
function repaired(families: number): { log: (line: LogLine) => void; promise: Promise<void> } {
  const repairs = new Set<unknown>();
  const { promise, resolve } = Promise.withResolvers<void>();
  const log = ({ family, msg }: LogLine): void => {
    if (msg === repairedMaps) repairs.add(family);
    if (repairs.size === families) resolve();
  };
  return { log, promise };
}

test('elements that another program deletes are restored, and those that it adds are deleted', async () => {
  await serving('pod-a', 'pod-b');
  const { log, promise } = repaired(1);
  const told: LogLine[] = [];
  await start(web('pod-a'), {
    log: (line) => {
      told.push(line);
      log(line);
    },
  });
  const { directory } = place;
  const [frontends, endpoints] = [
    { directory, map: mapNames.IPv4.frontends },
    { directory, map: mapNames.IPv4.endpoints },
  ];
  const kernel = openKernel();
  const count = (map: { directory: string; map: string }) => countElements(kernel, map);
  try {
    const before = [await count(frontends), await count(endpoints)];
    const at = address(vip.IPv4);
    const [web80, unused] = [frontendKey(at, 80), frontendKey(at, 81)];
    const values = poolValue(new Uint8Array(poolIdBytes), 1);
    const result = await kernel.apply(
      batch(
        { kind: 'bpfElementsDelete', ...frontends, keys: web80 },
        { kind: 'bpfElementsAdd', ...frontends, keys: unused, values },
        {
          kind: 'bpfElementsAdd',
          ...endpoints,
          keys: new Uint8Array(keyBytes.endpoints),
          values: new Uint8Array(valueBytes.endpoints),
        },
      ),
    );
    expect(result).toEqual({ kind: 'applied' });
    await running?.skip(checkMs);
    await promise;
    expect(told.some(({ msg }) => msg === compares)).toBe(true);
    expect([await count(frontends), await count(endpoints)]).toEqual(before);
  } finally {
    kernel.close();
  }
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('node', 4)).toEqual(['pod-a']);
});

test('programs that another program detaches are attached again', async () => {
  await serving('pod-a');
  const { log, promise } = repaired(FAMILIES.length);
  await start(web('pod-a'), { log });
  const kernel = openKernel();
  await removeConnectTime(kernel, place.directory).finally(() => kernel.close());
  await running?.skip(checkMs);
  await promise;
  await stop();
  await lab.node.run(['nft', 'flush', 'ruleset']);
  expect(await answersTo('pod-b')).toEqual(['pod-a']);
});

test('a removed endpoint gets no connection, after any changes', async () => {
  await serving('pod-a', 'pod-b');
  const proxy = await start(web('pod-a', 'pod-b'));
  for (let i = 0; i < 8; i += 1) {
    const [stays, goes] =
      i % 2 === 0 ? (['pod-a', 'pod-b'] as const) : (['pod-b', 'pod-a'] as const);
    const load = lab.actors.node.connect(
      { protocol: 'TCP', to: { address: vip.IPv4, port: 80 }, timeoutMs: answerMs },
      100,
    );
    await proxy.apply(web(stays));
    await sleep(10);
    expect(await answersTo('pod-b', 40)).toEqual([stays]);
    const loaded = (await load).map(({ outcome }) => outcome.kind);
    expect([...new Set(loaded)]).toEqual(['answered']);
    await proxy.apply(web(stays, goes));
  }
});
