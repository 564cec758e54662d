/** Mode iptables among the rules of others, who look, write and flush while it works. */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { readCounters } from '../../src/kernel/acct.ts';
import {
  type Addresses,
  addresses,
  hostPortRules,
  mixedRules,
  restoreText,
} from '../conformance/kube-proxy-rules.ts';
import {
  CLUSTER_CIDR,
  FAMILIES,
  type Family,
  NODE_IP,
  POD_A_IP,
  POD_B_IP,
} from '../lab/addresses.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, service, settings, slices } from '../lab/objects.ts';
import type { ProxySettings, RunningProxy } from '../lab/proxy.ts';
import { whoAnswers } from '../lab/who-answers.ts';
import { lb, NODE_PORT, reachable, vip } from './common.ts';
import { untilTold } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

const repairedRules = 'Repaired rules that another program changed';
const both = [...BASELINE, reachable(), ...slices('web', ['pod-a', 'pod-b'])];

let lab: Lab;
const started: RunningProxy[] = [];
beforeAll(async () => {
  lab = await createLab();
});
afterEach(async () => {
  for (const one of started.splice(0)) await one.stop();
  await fairlead('iptables').cleanup(lab.node);
  await lab.reset();
});
afterAll(() => lab.close());

/** Ends with the test, if not before. */
async function start(
  log: (line: LogLine) => void = () => {},
  more: ProxySettings = {},
): Promise<RunningProxy> {
  const running = await fairlead('iptables', { log }).start(
    lab.node,
    { ...settings, ...more },
    both,
  );
  started.push(running);
  return running;
}

const programs = { IPv4: 'iptables-nft', IPv6: 'ip6tables-nft' } as const;

function iptables(family: Family, ...words: string[]): Promise<string> {
  return lab.node.run([programs[family], ...words]);
}

function restore(family: Family, text: string): Promise<string> {
  return lab.node.run([`${programs[family]}-restore`, '--counters'], text);
}

/** With counters, without comments and dates. */
async function save(family: Family): Promise<string[]> {
  const text = await lab.node.run([`${programs[family]}-save`, '-c']);
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

/** Chains that this mode and kube-proxy have, and the kubelet and others have not. */
const ours = new RegExp(
  'KUBE-(?:SERVICES|NODEPORTS|EXTERNAL-SERVICES|POSTROUTING|MARK-MASQ|HAIRPIN|FORWARD|PROXY-|' +
    'SVC-|SVL-|EXT-|FW-|SEP-)',
);

function ofOthers(lines: readonly string[]): string[] {
  return lines.filter((line) => !ours.test(line));
}

function labAddresses(family: Family): Addresses {
  return {
    ...addresses[family],
    vip: vip[family],
    loadBalancer: lb[family],
    endpoints: [POD_A_IP[family], POD_B_IP[family]],
    pods: CLUSTER_CIDR[family],
  };
}

function generation(): Promise<number> {
  return askKernel(lab.node, (kernel) => kernel.generation());
}

/** Who answers on the ClusterIP, where both pods are to. */
function answers(family: Family): Promise<string[]> {
  const to = { address: vip[family], port: 80 };
  return whoAnswers(lab.actors.client, to, { awaited: podsAB });
}

async function listen(): Promise<void> {
  for (const family of FAMILIES) {
    await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
    await lab.actors['pod-b'].listen('TCP', POD_B_IP[family], 8080);
  }
}

/** The same rules in the same order. Counters may grow: some packets cannot be prevented. */
function expectOnlyCounted(before: readonly string[], after: readonly string[]): void {
  const counter = /\[(\d+):(\d+)\]/;
  expect(after.map((line) => line.replace(counter, ''))).toEqual(
    before.map((line) => line.replace(counter, '')),
  );
  for (const [i, line] of before.entries()) {
    const [, packets = 0] = counter.exec(line) ?? [];
    expect(Number(counter.exec(after[i]!)?.[1] ?? 0)).toBeGreaterThanOrEqual(Number(packets));
  }
}

const podsAB = ['pod-a', 'pod-b'];

test("rules, chains, counters and order of other programs are kept, kube-proxy's are taken over", async () => {
  await listen();
  for (const family of FAMILIES) {
    await restore(
      family,
      restoreText(mixedRules(labAddresses(family), 'DROP'), ['kube-proxy', 'others']),
    );
  }
  const before = ofOthers(await save('IPv4'));
  expect(before.length).toBeGreaterThan(30);
  const running = await start();
  expectOnlyCounted(before, ofOthers(await save('IPv4')));

  const rules = (await save('IPv4')).join('\n');
  expect(rules).not.toContain('KUBE-SEP-');
  expect(rules).not.toContain('KUBE-SVC-XPGD46QRK7WJZT7O');
  for (const family of FAMILIES) expect(await answers(family)).toEqual(podsAB);

  const later = ofOthers(await save('IPv4'));
  await running.stop();
  await fairlead('iptables').cleanup(lab.node);
  expectOnlyCounted(later, ofOthers(await save('IPv4')));
  expect((await save('IPv4')).filter((line) => ours.test(line))).toEqual([]);
});

test("chains of ours that other programs' rules need are kept by a cleanup", async () => {
  await restore('IPv4', restoreText(hostPortRules, ['kube-proxy', 'others']));
  const rulesOfOthers = async (): Promise<string[]> =>
    ofOthers(await save('IPv4')).filter((line) => line.startsWith('['));
  const before = await rulesOfOthers();
  await (await start()).stop();
  await fairlead('iptables').cleanup(lab.node);
  expect(await rulesOfOthers()).toEqual(before);
  const kept = (await save('IPv4')).filter((line) => ours.test(line));
  expect(kept.map((line) => line.replace(/\[\d+:\d+\]/, '').trim())).toEqual([
    ':KUBE-MARK-MASQ -',
    '-A KUBE-HP-ABCDEF -s 10.244.1.9/32 -j KUBE-MARK-MASQ',
    '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
  ]);
});

test('a restart without a change writes nothing', async () => {
  await (await start()).stop();
  const before = await generation();
  await start();
  expect(await generation()).toBe(before);
});

test('concurrent writes by other programs lose nothing, neither theirs nor ours', async () => {
  await listen();
  const running = await start();
  for (const family of FAMILIES) await iptables(family, '-t', 'nat', '-N', 'mine');
  const writing = FAMILIES.map(async (family) => {
    for (let i = 1; i <= 20; i += 1) {
      const rule = ['-p', 'tcp', '--dport', String(i), '-j', 'RETURN'];
      await iptables(family, '-w', '-t', 'nat', '-A', 'mine', ...rule);
    }
  });
  const writers = { done: false };
  const all = Promise.all(writing).finally(() => {
    writers.done = true;
  });
  let changes = 0;
  for (; !writers.done; changes += 1) {
    const pods = changes % 2 === 0 ? (['pod-a'] as const) : (['pod-a', 'pod-b'] as const);
    const extra = changes % 3 === 0 ? [] : [service('shop', { clusterIp: lb })];
    await running.apply([...BASELINE, reachable(), ...slices('web', pods), ...extra]);
  }
  await all;
  expect(changes).toBeGreaterThan(5);
  await running.apply(both);
  for (const family of FAMILIES) {
    const mine = (await iptables(family, '-t', 'nat', '-S', 'mine')).trim().split('\n').slice(1);
    expect(mine.map((line) => Number(/--dport (\d+)/.exec(line)?.[1]))).toEqual(
      Array.from({ length: 20 }, (_, i) => i + 1),
    );
    expect(await answers(family)).toEqual(podsAB);
  }
});

// Each in one transaction: a repair is faster than a second command.
test.each([
  ['flushes a table', ['iptables-nft', '-t', 'nat', '-F'], ''],
  ['flushes and deletes chains', ['iptables-nft-restore'], '*nat\nCOMMIT\n'],
  ['deletes our jump', ['iptables-nft', '-t', 'nat', '-D', 'PREROUTING', '1'], ''],
])(
  'when another program %s, the rules are restored within seconds, and it is reported',
  async (_, command, input) => {
    await listen();
    const lines: LogLine[] = [];
    await start((line) => lines.push(line));
    const before = (await lab.node.run(['iptables-nft-save', '-t', 'nat'])).split('\n');
    await lab.node.run(command, input);
    await untilTold(lines, repairedRules);
    expect(lines).toContainEqual(
      expect.objectContaining({
        family: 'IPv4',
        msg: repairedRules,
      }),
    );
    expect(await answers('IPv4')).toEqual(podsAB);
    const after = (await lab.node.run(['iptables-nft-save', '-t', 'nat'])).split('\n');
    const rules = (all: string[]): string[] => all.filter((line) => line.startsWith('-A')).sort();
    expect(rules(after)).toEqual(rules(before));
  },
);

/** What the named counter of node ports on localhost has counted. */
async function localhostAccepted(): Promise<number> {
  const counters = await askKernel(lab.node, readCounters);
  return counters.find(({ name }) => name === 'localhost_nps_accepted_pkts')!.packets;
}

test('with 127.0.0.0/8 as nodePortAddresses, node ports answer on localhost only', async () => {
  await listen();
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
  await start(() => {}, { localhostNodePorts: true, nodePortAddresses: ['127.0.0.0/8'] });
  const { node } = lab.actors;
  const localhost = { address: '127.0.0.1', port: NODE_PORT };
  expect(await whoAnswers(node, localhost, { awaited: podsAB })).toEqual(podsAB);
  for (const actor of ['node', 'client'] as const) {
    const to = { address: NODE_IP.IPv4, port: NODE_PORT };
    expect(await whoAnswers(lab.actors[actor], to)).toEqual(['reset']);
  }
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=0']);
});

test('node ports answer on localhost, behind the rule that keeps other machines from it', async () => {
  await listen();
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=1']);
  await start(() => {}, { localhostNodePorts: true });
  const before = await localhostAccepted();
  const to = { address: '127.0.0.1', port: NODE_PORT };
  const connections = 40;
  expect(await whoAnswers(lab.actors.node, to, { connections })).toEqual(podsAB);
  // One packet of each connection: the others are translated as the first was.
  expect((await localhostAccepted()) - before).toBe(connections);
  const firewall = await iptables('IPv4', '-S', 'KUBE-FIREWALL');
  expect(firewall).toContain('block incoming localnet connections');
  await lab.node.run(['sysctl', '-qw', 'net.ipv4.conf.all.route_localnet=0']);
});
