/**
 * What is counted is what clients did, whatever becomes of endpoints and of the process
 * in that time. COUNTED_CONNECTIONS says how many connections there are; default: 3,000.
 */
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { topOfConntrack } from '../../src/conntrack/holders.ts';
import { openConntrack } from '../../src/kernel/conntrack.ts';
import { applyAll } from '../../src/kernel/failures.ts';
import { writeKeys } from '../../src/kernel/nft/own-table.ts';
import { fieldsOfSet } from '../../src/kernel/nft/sets.ts';
import { nftOps } from '../../src/kernel/ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import { countedEndpointsMax, setDefinitions, tableName } from '../../src/modes/nftables/layout.ts';
import { systemClock } from '../../src/time/clock.ts';
import {
  CLIENT_IP,
  CLIENT_OTHER_IP,
  clusterIp,
  lbVip,
  NODE_IP,
  POD_A_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  BASELINE,
  clientIpAffinity,
  type KubernetesObject,
  service,
  slices,
  settings as standard,
} from '../lab/objects.ts';
import type { Outcome } from '../lab/outcome.ts';
import { untilReleased } from '../lab/owners.ts';
import { answerMs, hangsMs, paced } from '../lab/pace.ts';
import {
  all,
  byFrontend,
  clusterIP,
  forwarding,
  pool,
} from '../unit/modes/nftables/forwardings.ts';
import { fairleadInside } from './fairlead-inside.ts';
import { cleanup, fairlead, type LogLine, type MeasuredProxy } from './fairlead-proxy.ts';

const connections = Number(process.env.COUNTED_CONNECTIONS ?? 3000);

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
  await lab.actors['pod-a'].listen('TCP', POD_A_IP.IPv4, 8080);
  await lab.actors['pod-b'].listen('TCP', POD_B_IP.IPv4, 8080);
});
// What one mode has left would translate before the next.
afterEach(() => cleanup(lab.node));
afterAll(() => lab.close());

const settings = { ...standard, serviceMetrics: true } as const;

/** Counts are read again after 2 s. */
const readAgain = (proxy: MeasuredProxy): Promise<void> => proxy.skip(2100);

const start = (objects: readonly KubernetesObject[]): Promise<MeasuredProxy> =>
  fairlead('nftables').start(lab.node, settings, objects);

/** How long what is counted, or deleted, in its own time may take. */
const long = { timeout: hangsMs };

/** A metric in IPv4 as Prometheus reads it, by its other labels. */
async function told(proxy: MeasuredProxy, metric: string): Promise<Record<string, number>> {
  const lines = (await proxy.metrics()).split('\n').filter((line) => line.startsWith(`${metric}{`));
  const rows = lines.map((line) => {
    const [, labels = '', value] = /\{(.*)\} (\d+)$/.exec(line) ?? [];
    const texts = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, text]) => [name, text]);
    const { ip_family, namespace, ...rest } = Object.fromEntries(texts);
    return { ip_family, row: [Object.values(rest).join(' '), Number(value)] as const };
  });
  return Object.fromEntries(rows.filter((one) => one.ip_family === 'IPv4').map(({ row }) => row));
}

const connectionsOf = (proxy: MeasuredProxy) => told(proxy, 'fairlead_service_connections_total');
const refusalsOf = (proxy: MeasuredProxy) => told(proxy, 'fairlead_service_refusals_total');

/** How long clients wait that get no answer. */
const silentMs = paced(300);

/** Connects, and says how it ended. */
async function connect(
  to: { readonly address: string; readonly port: number },
  count = 1,
  { from = CLIENT_IP.IPv4, timeoutMs = answerMs } = {},
): Promise<Outcome['kind'][]> {
  const attempt = { protocol: 'TCP', from: { address: from }, to, timeoutMs } as const;
  const tally = await lab.actors.client.connect(attempt, count);
  return tally.flatMap((one) => Array.from({ length: one.count }, () => one.outcome.kind));
}

/**
 * From now on the client sends the first packet of a connection only once. Where it is dropped,
 * each counts, and on a busy machine a client that gives up may have sent another one before.
 */
async function sendsOnce(): Promise<void> {
  const { client } = lab.actors;
  const first = 'tcp flags & (syn | ack) == syn';
  const key = 'ip daddr . tcp dport . tcp sport';
  const table = `table ip once {
    set sent { typeof ${key}; size 1024; flags dynamic; }
    chain output {
      type filter hook output priority 0;
      ${first} ${key} @sent drop
      ${first} add @sent { ${key} }
    }
  }`;
  await client.run(['nft', '-f', '-'], table);
  onTestFinished(async () => void (await client.run(['nft', 'delete', 'table', 'ip', 'once'])));
}

/** The packets that each element has counted, by its key. */
async function elements(set: string): Promise<Record<string, number>> {
  const text = await lab.node.run(['nft', 'list', 'set', 'ip', 'fairlead', set]);
  const found = text.matchAll(
    /([\w.-]+(?: \. [\w.-]+)*)(?: timeout \S+)?(?: expires \S+)? counter packets (\d+)/g,
  );
  return Object.fromEntries([...found].map(([, key, count]) => [key, Number(count)]));
}

const web = { address: clusterIp(10).IPv4, port: 80 };
const sticky = { address: clusterIp(11).IPv4, port: 80 };
const services = [
  ...BASELINE,
  service('web'),
  service('sticky', { clusterIp: clusterIp(11), spec: clientIpAffinity(600) }),
];
const places = [['pod-a'], ['pod-a', 'pod-b'], ['pod-b']] as const;
const placed = (round: number): KubernetesObject[] => [
  ...services,
  ...slices('web', [...places[round % places.length]!]),
  ...slices('sticky', [...places[round % places.length]!]),
];

test(`${connections} connections are counted, while endpoints and processes come and go`, async () => {
  const rounds = 30;
  const perRound = Math.ceil(connections / rounds);
  let answered = 0;
  let proxy = await start(placed(0));
  const seen: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    if (round % 10 === 9) {
      await proxy.stop();
      answered += (await connect(web, 5)).filter((kind) => kind === 'answered').length;
      proxy = await start(placed(round));
    }
    const [outcomes] = await Promise.all([connect(web, perRound), proxy.apply(placed(round + 1))]);
    answered += outcomes.filter((kind) => kind === 'answered').length;
    seen.push((await connectionsOf(proxy))['web  TCP'] ?? 0);
  }
  await connect(sticky, 7);
  await readAgain(proxy);
  expect(await connectionsOf(proxy)).toEqual({ 'web  TCP': answered, 'sticky  TCP': 7 });
  expect(answered).toBe(rounds * perRound + 15);
  expect(seen).toEqual([...seen].sort((a, b) => a - b));
  const byEndpoint = Object.entries(await elements('endpoint-connections'));
  const sum = byEndpoint.reduce((all, [, count]) => all + count, 0);
  expect(sum).toBe(answered + 7);
  await proxy.stop();
});

/** What packets make of connections to as many endpoints of one frontend. */
async function fillEndpoints(): Promise<void> {
  const set = setDefinitions('IPv4')['endpoint-connections'];
  const keys = Array.from({ length: countedEndpointsMax }, (_, i) => {
    const endpoint = [10, 200 + (i >> 16), (i >> 8) & 255, i & 255];
    return String.fromCharCode(10, 96, 77, 1, 6, 0, 0, 0, 0, 80, 0, 0, ...endpoint, 0, 80, 0, 0);
  });
  const writer = new RecordWriter(nftOps);
  writeKeys(writer, 'elementsAdd', fieldsOfSet('IPv4', tableName, set), keys);
  await askKernel(lab.node, (kernel) => applyAll(kernel, writer.finish(), 'nft.apply', tableName));
}

test(
  'who fills the set of endpoints keeps others uncounted only until it is read',
  long,
  async () => {
    const first = await start(placed(0));
    await first.stop();
    await untilReleased(lab.node);
    await fillEndpoints();
    const proxy = await start(placed(0));
    expect(await connect(web)).toEqual(['answered']);
    expect(await connectionsOf(proxy)).toEqual({ 'web  TCP': 1 });
    expect(await connect(web, 9)).toEqual(Array(9).fill('answered'));
    const counts = Object.values(await elements('endpoint-connections'));
    expect(counts).toHaveLength(countedEndpointsMax / 2 + 1);
    expect(counts.filter((count) => count > 0)).toEqual([9]);
    await proxy.stop();
  },
);

test('the Services that fill the table of connection tracking are named', async () => {
  const frontends = (n: number) => [clusterIP(`10.96.0.${n}`)];
  const inForce = all(
    forwarding('web', pool(1), { frontends: frontends(10) }),
    forwarding('sticky', pool(1), { frontends: frontends(11) }),
  );
  const proxy = await start(placed(0));
  await connect(web, 40);
  await connect(sticky, 20);
  const conntrack = openConntrack({ netns: lab.node.namespacePath });
  const agent = { engine: { frontends: byFrontend(inForce) } };
  const { services: holders } = await topOfConntrack({ conntrack, agent, clock: systemClock }, 5);
  conntrack.close();
  expect(holders.map(({ service }) => service)).toEqual(['web', 'sticky']);
  expect(holders[0]!.entries).toBeGreaterThanOrEqual(40);
  await proxy.stop();
});

const refusedAnyway = {
  'none  TCP no_endpoints': 3,
  'guarded  TCP source_ranges': 1,
  'remote  TCP no_local_endpoints': 1,
};
const refusedByUs = { 'none   no_such_port': 2, '  TCP no_such_service': 1 };

test.each([
  ['nftables', { ...refusedAnyway, ...refusedByUs }],
  ['iptables', refusedAnyway],
] as const)('mode %s counts refusals by Service and reason', async (mode, refusals) => {
  const [none, guarded, remote] = [clusterIp(20), clusterIp(21), clusterIp(22)];
  const vip = lbVip(1);
  const proxy = await fairlead(mode).start(lab.node, settings, [
    ...BASELINE,
    service('none', { clusterIp: none }),
    service('guarded', {
      clusterIp: guarded,
      vips: [vip],
      spec: { loadBalancerSourceRanges: [`${CLIENT_IP.IPv4}/32`] },
    }),
    service('remote', {
      clusterIp: remote,
      ports: [{ port: 80, nodePort: 30_080 }],
      spec: { externalTrafficPolicy: 'Local' },
    }),
    ...slices('guarded', ['pod-a']),
    ...slices('remote', ['pod-c']),
  ]);
  expect(await connect({ address: none.IPv4, port: 80 }, 3)).not.toContain('answered');
  expect(await connect({ address: vip.IPv4, port: 80 }, 2)).toEqual(['answered', 'answered']);
  await sendsOnce();
  const silently = { timeoutMs: silentMs };
  const outside = { ...silently, from: CLIENT_OTHER_IP.IPv4 };
  expect(await connect({ address: vip.IPv4, port: 80 }, 1, outside)).toEqual(['timeout']);
  expect(await connect({ address: NODE_IP.IPv4, port: 30_080 }, 1, silently)).toEqual(['timeout']);
  expect(await connect({ address: none.IPv4, port: 81 }, 2, silently)).not.toContain('answered');
  const nobody = { address: clusterIp(99).IPv4, port: 80 };
  expect(await connect(nobody, 1, silently)).not.toContain('answered');
  await readAgain(proxy);
  expect(await refusalsOf(proxy)).toEqual(refusals);
  await proxy.stop();
});

test('mode userspace counts connections of its sockets, while endpoints come and go', async () => {
  const vip = lbVip(1);
  const others = [
    service('guarded', {
      clusterIp: clusterIp(21),
      vips: [vip],
      spec: { loadBalancerSourceRanges: [`${CLIENT_IP.IPv4}/32`] },
    }),
    ...slices('guarded', ['pod-a']),
  ];
  const proxy = await fairleadInside('userspace').start(lab.node, settings, [
    ...placed(0),
    ...others,
  ]);
  let answered = 0;
  for (let round = 0; round < 6; round += 1) {
    const changed = proxy.apply([...placed(round + 1), ...others]);
    const [outcomes] = await Promise.all([connect(web, 20), changed]);
    answered += outcomes.filter((kind) => kind === 'answered').length;
  }
  expect(await connect({ address: vip.IPv4, port: 80 }, 2)).toEqual(['answered', 'answered']);
  const outside = { from: CLIENT_OTHER_IP.IPv4 };
  expect(await connect({ address: vip.IPv4, port: 80 }, 3, outside)).not.toContain('answered');
  await readAgain(proxy);
  await expect
    .poll(async () => ({ ...(await connectionsOf(proxy)), ...(await refusalsOf(proxy)) }), long)
    .toMatchObject({ 'guarded  TCP': 2, 'guarded  TCP source_ranges': 3 });
  const counted = await connectionsOf(proxy);
  // A client that does not wait long enough may have gone before its connection was taken.
  expect(counted['web  TCP']).toBeGreaterThanOrEqual(Math.max(answered, 100));
  expect(counted['web  TCP']).toBeLessThanOrEqual(120);
  expect(await refusalsOf(proxy)).toEqual({ 'guarded  TCP source_ranges': 3 });
  await proxy.stop();
});

test('mode iptables counts by its rules, while endpoints and processes come and go', async () => {
  const iptables = (objects: readonly KubernetesObject[]): Promise<MeasuredProxy> =>
    fairlead('iptables').start(lab.node, settings, objects);
  let proxy = await iptables(placed(0));
  let answered = 0;
  for (let round = 0; round < 9; round += 1) {
    if (round === 3 || round === 6) {
      await proxy.stop();
      answered += (await connect(web, 5)).filter((kind) => kind === 'answered').length;
      proxy = await iptables(placed(round));
    }
    const [outcomes] = await Promise.all([connect(web, 30), proxy.apply(placed(round + 1))]);
    answered += outcomes.filter((kind) => kind === 'answered').length;
  }
  expect(answered).toBe(280);
  await proxy.apply(services);
  expect(await connect(web, 4)).not.toContain('answered');
  await proxy.apply(placed(1));
  expect(await connect(web, 6)).not.toContain('refused');
  await readAgain(proxy);
  expect(await connectionsOf(proxy)).toEqual({ 'web  TCP': 290 });
  expect(await refusalsOf(proxy)).toEqual({ 'web  TCP no_endpoints': 4 });
  await proxy.stop();
});

test('counters cause no drift, and leave nothing when they are switched off', async () => {
  const lines: LogLine[] = [];
  const log = (line: LogLine): void => void lines.push(line);
  const counting = fairlead('nftables', { log });
  const first = await counting.start(lab.node, settings, placed(1));
  await connect(web, 4);
  const before = await elements('connections');
  await first.stop();
  lines.length = 0;
  const second = await counting.start(lab.node, settings, placed(1));
  expect(lines.filter(({ msg }) => msg === 'Repaired rules that another program changed')).toEqual(
    [],
  );
  expect(await elements('connections')).toEqual(before);
  await second.stop();
  const off = { ...settings, serviceMetrics: false };
  const third = await counting.start(lab.node, off, placed(1));
  expect(await connect(web, 2)).toEqual(['answered', 'answered']);
  expect(await connectionsOf(third)).toEqual({});
  const text = () => lab.node.run(['nft', 'list', 'table', 'ip', 'fairlead']);
  await expect.poll(text, long).not.toMatch(/connections|refused|counter/);
  await third.stop();
});
