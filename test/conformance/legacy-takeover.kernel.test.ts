/** Removal from the tables of iptables-legacy in a real kernel, read with iptables-legacy-save. */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { legacyOps } from '../../src/kernel/legacy-ops.ts';
import { RecordWriter } from '../../src/kernel/records.ts';
import type { Family } from '../../src/net/address.ts';
import { findLegacyLeftovers, type Leftovers } from '../../src/takeover/leftovers.ts';
import { findLegacyTables } from '../../src/takeover/legacy-tables.ts';
import type { Scope } from '../../src/takeover/removable.ts';
import { removeLeftovers } from '../../src/takeover/removal.ts';
import { hangsMs } from '../lab/pace.ts';
import {
  addresses,
  hostPortRules,
  ipvsRules,
  type Line,
  mixedRules,
  restoreText,
  tenThousandChains,
} from './kube-proxy-rules.ts';
import { createKernel, type Namespace } from './namespace.ts';

const programs = { IPv4: 'iptables-legacy', IPv6: 'ip6tables-legacy' } as const;
const families: readonly Family[] = ['IPv4', 'IPv6'];

async function restore(namespace: Namespace, family: Family, text: string): Promise<void> {
  await namespace.run(`${programs[family]}-restore`, ['--counters', '--wait'], text);
}

async function save(namespace: Namespace, family: Family): Promise<string> {
  const text = await namespace.run(`${programs[family]}-save`, ['--counters']);
  // Comments have the time of day, and the kernel lists the newest table first.
  const tables = text.replace(/^# .*\n/gm, '').split(/(?<=COMMIT\n)/);
  return tables.sort().join('');
}

async function takeOver(
  kernel: Kernel,
  family: Family,
  scope: Scope = 'replaced',
): Promise<Leftovers> {
  const leftovers = await findLegacyLeftovers(kernel, family, scope);
  await removeLeftovers(kernel, leftovers);
  return leftovers;
}

/** The tables of a namespace that never had other lines than these. */
async function saved(family: Family, lines: readonly Line[]): Promise<string> {
  const { namespace } = await createKernel();
  await restore(namespace, family, restoreText(lines, ['others']));
  return save(namespace, family);
}

/** Gives each line counters, which show that a line that stays keeps its own. */
function counted(lines: readonly Line[]): Line[] {
  return lines.map(({ owner, text }, i) => {
    return { owner, text: text.startsWith('-A') ? `[${i}:${60 * i}] ${text}` : text };
  });
}

test.each(families)(
  "%s: kube-proxy's rules are removed from among Docker's, Calico's, the kubelet's and a user's",
  async (family) => {
    const { kernel, namespace } = await createKernel();
    const lines = counted([...mixedRules(addresses[family], 'ACCEPT')]);
    await restore(namespace, family, restoreText(lines, ['kube-proxy', 'others']));
    expect(await save(namespace, family)).toContain('KUBE-SVC-XPGD46QRK7WJZT7O');
    const found = await takeOver(kernel, family);
    const others = await saved(family, lines);
    expect(await save(namespace, family)).toBe(others);
    expect(others).toContain('[8:480] -A INPUT -j KUBE-FIREWALL');
    expect([found.chains.length, found.jumps.length, found.kept.length]).toEqual([18, 12, 0]);
    expect(await takeOver(kernel, family)).toMatchObject({ jumps: [], chains: [], kept: [] });
    expect(await save(namespace, family)).toBe(others);
  },
);

test("the chains of kube-proxy's ipvs mode are removed, too", async () => {
  const { kernel, namespace } = await createKernel();
  const lines = counted(ipvsRules);
  await restore(namespace, 'IPv4', restoreText(lines, ['kube-proxy', 'others']));
  await takeOver(kernel, 'IPv4');
  expect(await save(namespace, 'IPv4')).toBe(await saved('IPv4', lines));
});

test("a chain that a container runtime's rules need is kept", async () => {
  const { kernel, namespace } = await createKernel();
  const lines = counted(hostPortRules);
  await restore(namespace, 'IPv4', restoreText(lines, ['kube-proxy', 'others']));
  const { kept } = await takeOver(kernel, 'IPv4');
  expect(await save(namespace, 'IPv4')).toBe(await saved('IPv4', lines));
  const because = 'chain KUBE-HP-ABCDEF refers to it';
  expect(kept).toEqual([{ table: 'nat', chain: 'KUBE-MARK-MASQ', because }]);
});

test('the chain that accepts forwarded traffic is kept if the policy is drop', async () => {
  const { kernel, namespace } = await createKernel();
  const rules = counted(mixedRules(addresses.IPv4, 'DROP'));
  await restore(namespace, 'IPv4', restoreText(rules, ['kube-proxy', 'others']));
  await takeOver(kernel, 'IPv4');
  const isForward = ({ text }: Line): boolean => text.includes('KUBE-FORWARD');
  const left = rules.map((line): Line => (isForward(line) ? { ...line, owner: 'others' } : line));
  expect(await save(namespace, 'IPv4')).toBe(await saved('IPv4', left));
  await takeOver(kernel, 'IPv4', 'all');
  expect(await save(namespace, 'IPv4')).toBe(await saved('IPv4', rules));
});

test('a rule that only counts is kept unchanged when its table is replaced', async () => {
  const { kernel, namespace } = await createKernel();
  const lines: Line[] = [
    { owner: 'others', text: '*filter' },
    { owner: 'others', text: ':INPUT ACCEPT [1:60]' },
    { owner: 'others', text: ':FORWARD ACCEPT [0:0]' },
    { owner: 'others', text: ':OUTPUT ACCEPT [0:0]' },
    { owner: 'kube-proxy', text: ':KUBE-FORWARD - [0:0]' },
    { owner: 'others', text: ':mine - [0:0]' },
    { owner: 'kube-proxy', text: '-A FORWARD -j KUBE-FORWARD' },
    { owner: 'others', text: '-A INPUT -g mine' },
    { owner: 'others', text: '-A FORWARD -s 10.0.0.1/32' },
    { owner: 'kube-proxy', text: '-A KUBE-FORWARD -j ACCEPT' },
    { owner: 'others', text: '-A mine -s 10.0.0.2/32' },
    { owner: 'others', text: '-A mine -p tcp -m limit --limit 5/min -j LOG --log-prefix "mine: "' },
    { owner: 'others', text: 'COMMIT' },
  ];
  const all = counted(lines);
  await restore(namespace, 'IPv4', restoreText(all, ['kube-proxy', 'others']));
  await takeOver(kernel, 'IPv4');
  const others = await saved('IPv4', all);
  expect(await save(namespace, 'IPv4')).toBe(others);
  expect(others).toContain('[10:600] -A mine -s 10.0.0.2/32\n');
});

/** Sends 2,000 datagrams of 4 bytes to the node itself, a few each millisecond. */
const sender = `
  const socket = require('node:dgram').createSocket('udp4');
  let left = 2000;
  const timer = setInterval(() => {
    for (let i = 0; i < 5; i += 1) socket.send('ping', 9, '127.0.0.1');
    left -= 5;
    if (left === 0) { clearInterval(timer); setTimeout(() => socket.close(), 100); }
  }, 1);
`;

test('counts of packets during the replacement of a table are not lost', async () => {
  const { kernel, namespace } = await createKernel();
  await namespace.run('ip', ['link', 'set', 'lo', 'up']);
  const input = '*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n';
  await restore(namespace, 'IPv4', `${input}-A INPUT -p udp -j ACCEPT\nCOMMIT\n`);
  const sent = namespace.run(process.execPath, ['-e', sender]);
  for (let i = 0; i < 20; i += 1) {
    await namespace.run('iptables-legacy', ['--wait', '-N', 'KUBE-FORWARD']);
    await takeOver(kernel, 'IPv4');
  }
  await sent;
  // The last ones may still wait in a queue when the process that sent them has ended.
  await expect
    .poll(() => save(namespace, 'IPv4'), { timeout: hangsMs })
    .toContain('[2000:64000] -A INPUT -p udp -j ACCEPT');
  expect(await save(namespace, 'IPv4')).not.toContain('KUBE-');
});

test('a table that another program has locked is not changed, and reported', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fairlead-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const xtablesLock = join(folder, 'xtables.lock');
  const { kernel, namespace } = await createKernel({ xtablesLock });
  await namespace.run('iptables-legacy', ['--wait', '-N', 'KUBE-FORWARD']);
  const before = await save(namespace, 'IPv4');
  // flock holds the lock until its standard input ends.
  const holder = execFile('flock', [xtablesLock, 'sh', '-c', 'echo held; read line']);
  const ended = new Promise((resolve) => holder.once('close', resolve));
  await new Promise((resolve) => holder.stdout?.once('data', resolve));
  await expect(takeOver(kernel, 'IPv4')).rejects.toMatchObject({ code: 'EAGAIN' });
  expect(await save(namespace, 'IPv4')).toBe(before);
  holder.stdin?.end();
  await ended;
  await takeOver(kernel, 'IPv4');
  expect(await save(namespace, 'IPv4')).not.toContain('KUBE-');
});

test('a chain that got a reference is not removed, nor is anything else', async () => {
  const { kernel, namespace } = await createKernel();
  await restore(namespace, 'IPv4', restoreText(hostPortRules, ['kube-proxy', 'others']));
  const before = await save(namespace, 'IPv4');
  const writer = new RecordWriter(legacyOps);
  const at = { family: 2, table: 'nat' };
  writer.write('legacyJumpsDelete', { ...at, chain: 'OUTPUT', target: 'KUBE-SERVICES' });
  writer.write('legacyChainDelete', { ...at, chain: 'KUBE-MARK-MASQ' });
  const { failures } = (await kernel.apply(writer.finish())) as { failures: unknown };
  const message = expect.stringContaining('refers to chain KUBE-MARK-MASQ');
  expect(failures).toEqual([{ op: 0, entry: undefined, code: 'EBUSY', message }]);
  expect(await save(namespace, 'IPv4')).toBe(before);
});

test('ten thousand chains are removed in one step', async () => {
  const { kernel, namespace } = await createKernel();
  await restore(namespace, 'IPv4', tenThousandChains());
  expect((await takeOver(kernel, 'IPv4')).chains).toHaveLength(10_001);
  expect(await save(namespace, 'IPv4')).not.toContain('KUBE-');
});

test('tables with contents are named, and a namespace without tables gets none', async () => {
  const { kernel, namespace } = await createKernel();
  expect(await takeOver(kernel, 'IPv4')).toMatchObject({ jumps: [], chains: [], kept: [] });
  expect(await findLegacyTables(kernel)).toEqual([]);
  await namespace.run('iptables-legacy', ['--wait', '-t', 'nat', '-N', 'DOCKER']);
  expect(await findLegacyTables(kernel)).toEqual(['iptables-legacy nat: 0 rules, 1 chains']);
});
