/** What others can do to our rules: nothing where tables have owners, else not for long. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { TableOwnership } from '../../src/modes/ownership.ts';
import { FAMILIES, POD_A_IP } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { withoutOwner } from '../lab/listing.ts';
import { BASELINE, DEFAULT_CLUSTER_CIDR, service, slices } from '../lab/objects.ts';
import { paced } from '../lab/pace.ts';
import type { ProxySettings } from '../lab/proxy.ts';
import { vip } from './common.ts';
import {
  type FairleadOptions,
  fairlead,
  type LogLine,
  type SwitchableProxy,
} from './fairlead-proxy.ts';

const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;
const objects = [
  ...BASELINE,
  service('web', { clusterIp: vip, ports: [{ port: 80 }] }),
  ...slices('web', ['pod-a']),
];
/** The generation is looked at every 5 s: what takes less was told by the kernel. */
const soonMs = 2000;

/** What somebody may do to our table, each by commands of nft. */
const damages: readonly (readonly [name: string, deeds: readonly string[]])[] = [
  ['a deleted table', ['delete table ip fairlead']],
  ['a sleeping table', ['add table ip fairlead { flags dormant ; }']],
  ['a flushed chain', ['flush chain ip fairlead services']],
  ['a flushed map', ['flush map ip fairlead services']],
  ['a flushed set', ['flush set ip fairlead cluster-ips']],
  ['an element that is not ours', ['add element ip fairlead cluster-ips { 10.1.1.1 }']],
  ['a rule that is not ours', ['insert rule ip fairlead services counter drop']],
  ['a rule with a comment', ['add rule ip fairlead services return comment "mine"']],
  ['another policy', ['add chain ip fairlead filter-input { policy drop ; }']],
  [
    'what is not ours: sets, maps, chains and objects of every kind',
    [
      'add set ip fairlead foreign { type ipv4_addr ; flags interval ; }',
      'add element ip fairlead foreign { 10.0.0.0/8 }',
      'add map ip fairlead foreign-map { type ipv4_addr : ipv4_addr ; }',
      'add chain ip fairlead foreign',
      'add rule ip fairlead foreign ip saddr @foreign drop',
      'add chain ip fairlead foreign-base { type filter hook input priority 5 ; }',
      'add rule ip fairlead foreign-base jump foreign',
      'add counter ip fairlead foreign-counter',
      'add quota ip fairlead foreign-quota { over 10 mbytes ; }',
      'add limit ip fairlead foreign-limit { rate 5/second ; }',
      'add rule ip fairlead foreign counter name foreign-counter',
    ],
  ],
];

let lab: Lab;
let hasOwners: boolean;
const running = new Set<SwitchableProxy>();

beforeAll(async () => {
  lab = await createLab();
  const kernel = openKernel({ netns: lab.node.namespacePath });
  const ownership = new TableOwnership({ family: 2, table: 'none' }, '', true);
  await ownership.prepare(kernel, (ops) => kernel.apply(ops));
  hasOwners = ownership.op === 'tableOwn';
  kernel.close();
});
afterAll(() => lab.close());

afterEach(async () => {
  for (const proxy of running) await proxy.stop();
  running.clear();
  await fairlead('nftables').cleanup(lab.node);
  await lab.reset();
});

async function start(
  mode: ModeName,
  given: Partial<ProxySettings> = {},
  options: FairleadOptions = {},
): Promise<SwitchableProxy> {
  const proxy = await fairlead(mode, options).start(lab.node, { ...settings, ...given }, objects);
  running.add(proxy);
  for (const family of FAMILIES) await lab.actors['pod-a'].listen('TCP', POD_A_IP[family], 8080);
  return proxy;
}

function nft(...words: string[]): Promise<string> {
  return lab.node.run(['nft', ...words]);
}

async function answers(): Promise<string[]> {
  const kinds = FAMILIES.map(async (family) => {
    const to = { address: vip[family], port: 80 };
    const attempt = { protocol: 'TCP', to, timeoutMs: paced(1000) } as const;
    const tally = await lab.actors.client.connect(attempt, 1);
    return tally[0]!.outcome.kind;
  });
  return Promise.all(kinds);
}

async function repaired(holds: () => Promise<boolean>): Promise<number> {
  const startMs = performance.now();
  while (!(await holds())) {
    if (performance.now() - startMs > paced(20_000)) throw new Error('not repaired in 20 s');
    await sleep(5);
  }
  return performance.now() - startMs;
}

/** All words of what nft lists: neither tables nor elements have an order. */
async function words(): Promise<string> {
  return (await nft('list', 'ruleset'))
    .split(/[\s,]+/)
    .sort()
    .join(' ');
}

describe('where tables have owners', () => {
  test('nobody else changes ours, and a flush of everything passes them by', async (context) => {
    context.skip(!hasOwners, 'this kernel has no owners of tables that persist');
    await start('nftables');
    const before = await nft('--handle', 'list', 'table', 'ip', 'fairlead');
    await nft('flush', 'ruleset');
    for (const words of [
      ['delete', 'table', 'ip', 'fairlead'],
      ['flush', 'chain', 'ip', 'fairlead', 'services'],
      ['add', 'set', 'ip', 'fairlead', 'foreign', '{ type ipv4_addr ; }'],
      ['add', 'element', 'ip', 'fairlead', 'cluster-ips', '{ 10.1.1.1 }'],
    ]) {
      await expect(nft(...words), words.join(' ')).rejects.toThrow('Operation not permitted');
    }
    expect(await nft('--handle', 'list', 'table', 'ip', 'fairlead')).toBe(before);
    expect(await answers()).toEqual(['answered', 'answered']);
  });

  test('the next process waits for the one that owns them, and then writes no rule', async (context) => {
    context.skip(!hasOwners, 'this kernel has no owners of tables that persist');
    const lines: LogLine[] = [];
    const first = await start('nftables');
    const before = await nft('--handle', 'list', 'ruleset');
    const second = start('nftables', {}, { log: (line) => lines.push(line) });
    await repaired(async () => lines.some(({ msg }) => msg.startsWith('Waiting for another')));
    await sleep(600);
    const told = lines.filter(({ msg }) => msg.startsWith('Waiting for another'));
    expect(told).toHaveLength(2);
    expect(told[0]).toMatchObject({ level: 'warn', family: expect.stringMatching(/^IPv/) });
    expect(told[0]!.err).toMatch(/^nft\.table\.own table ip6? fairlead: another process owns it/);
    expect(await answers()).toEqual(['answered', 'answered']);
    await first.stop();
    running.delete(first);
    const stoppedMs = performance.now();
    await second;
    expect(performance.now() - stoppedMs).toBeLessThan(paced(soonMs));
    expect(withoutOwner(await nft('--handle', 'list', 'ruleset'))).toBe(withoutOwner(before));
    await expect(nft('delete', 'table', 'ip', 'fairlead')).rejects.toThrow('not permitted');
    expect(await answers()).toEqual(['answered', 'answered']);
  });

  test('a table that has none is kept, and has one once it was made anew', async (context) => {
    context.skip(!hasOwners, 'this kernel has no owners of tables that persist');
    const first = await start('nftables', { ownTables: false });
    await first.stop();
    running.delete(first);
    const before = await nft('--handle', 'list', 'ruleset');
    await start('nftables');
    expect(await nft('--handle', 'list', 'ruleset')).toBe(before);
    await nft('delete', 'table', 'ip', 'fairlead');
    const tookMs = await repaired(async () => (await answers())[0] === 'answered');
    expect(tookMs).toBeLessThan(paced(soonMs));
    await expect(nft('delete', 'table', 'ip', 'fairlead')).rejects.toThrow('not permitted');
    await nft('flush', 'table', 'ip6', 'fairlead');
  });
});

describe('where others can change our tables', () => {
  test('mode nftables is told of it by the kernel, and repairs all', async () => {
    const lines: LogLine[] = [];
    await start('nftables', { ownTables: false }, { log: (line) => lines.push(line) });
    const before = await words();
    await nft('flush', 'ruleset');
    const tookMs = await repaired(async () => (await words()) === before);
    expect(tookMs).toBeLessThan(paced(soonMs));
    expect(await answers()).toEqual(['answered', 'answered']);
    await repaired(async () => lines.some(({ purpose }) => purpose === 'audit'));
    const drift = lines.find(({ msg }) => msg === 'Kernel was changed by others, is repaired');
    expect(drift).toMatchObject({ level: 'warn', program: 'nft', pid: expect.any(Number) });
  });

  test.each(damages)('%s is repaired', async (_, deeds) => {
    const lines: LogLine[] = [];
    await start('nftables', { ownTables: false }, { log: (line) => lines.push(line) });
    const before = await words();
    for (const deed of deeds) await nft(deed);
    await repaired(async () => lines.some(({ msg }) => msg.startsWith('Kernel was changed by')));
    await repaired(async () => (await words()) === before);
    expect(await answers()).toEqual(['answered', 'answered']);
  });

  test('mode iptables is, too', async () => {
    await start('iptables');
    const save = async (): Promise<string> =>
      (await lab.node.run(['iptables-nft-save', '-t', 'nat'])).replace(/^#.*\n/gm, '');
    const before = (await save()).replace(/\[\d+:\d+\]/g, '');
    await lab.node.run(['iptables-nft', '-t', 'nat', '-F']);
    const tookMs = await repaired(
      async () => (await save()).replace(/\[\d+:\d+\]/g, '') === before,
    );
    expect(tookMs).toBeLessThan(paced(soonMs));
    expect(await answers()).toEqual(['answered', 'answered']);
  });
});
