/** A takeover in a real kernel removes kube-proxy's rules, and changes no byte of others. */
import { expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { findLeftovers, kinds, type Leftovers } from '../../src/takeover/leftovers.ts';
import type { Scope } from '../../src/takeover/removable.ts';
import { removeLeftovers } from '../../src/takeover/removal.ts';
import {
  addresses,
  hostPortRules,
  ipvsRules,
  type Line,
  mixedRules,
  nftablesRules,
  restoreText,
  tenThousandChains,
  userTable,
} from './kube-proxy-rules.ts';
import { createKernel, type Namespace } from './namespace.ts';

async function restore(namespace: Namespace, family: 'IPv4' | 'IPv6', text: string) {
  const program = family === 'IPv4' ? 'iptables-nft-restore' : 'ip6tables-nft-restore';
  await namespace.run(program, ['--counters'], text);
}

/** Everything that the node's tools list of netfilter. */
async function everything(namespace: Namespace): Promise<string> {
  const said = [
    await namespace.run('iptables-nft-save', ['--counters']),
    await namespace.run('ip6tables-nft-save', ['--counters']),
    await namespace.run('nft', ['list', 'ruleset']),
  ];
  // Comments have the time of day.
  return said.join('\n').replace(/^# .*$/gm, '');
}

async function takeOver(kernel: Kernel, scope: Scope = 'replaced'): Promise<Leftovers[]> {
  const found: Leftovers[] = [];
  for (const family of ['IPv4', 'IPv6'] as const) {
    const leftovers = await findLeftovers(kernel, family, kinds, scope);
    await removeLeftovers(kernel, leftovers);
    found.push(leftovers);
  }
  return found;
}

/** The state of a namespace that never had other rules than these of other programs. */
async function onlyOthers(load: (namespace: Namespace) => Promise<void>): Promise<string> {
  const { namespace } = await createKernel();
  await load(namespace);
  return everything(namespace);
}

test("kube-proxy's rules are removed from among Docker's, Calico's, the kubelet's and a user's", async () => {
  const load = async (namespace: Namespace, owners: readonly Line['owner'][]): Promise<void> => {
    await namespace.run('nft', ['-f', '-'], userTable);
    for (const family of ['IPv4', 'IPv6'] as const) {
      await restore(
        namespace,
        family,
        restoreText(mixedRules(addresses[family], 'ACCEPT'), owners),
      );
    }
  };
  const { kernel, namespace } = await createKernel();
  await load(namespace, ['kube-proxy', 'others']);
  await namespace.run('nft', ['-f', '-'], nftablesRules('ip', addresses.IPv4));
  await namespace.run('nft', ['-f', '-'], nftablesRules('ip6', addresses.IPv6));
  const before = await everything(namespace);
  expect(before).toContain('KUBE-SVC-XPGD46QRK7WJZT7O');

  const found = await takeOver(kernel);
  const others = await onlyOthers((other) => load(other, ['others']));
  expect(await everything(namespace)).toBe(others);
  expect(others).toContain('KUBE-FIREWALL');
  expect(others).toContain('[8:480] -A INPUT -j KUBE-FIREWALL');
  const counts = found.map(({ family, tables, chains, jumps, kept }) => {
    return [family, tables.length, chains.length, jumps.length, kept.length];
  });
  expect(counts).toEqual([
    ['IPv4', 1, 18, 12, 0],
    ['IPv6', 1, 18, 12, 0],
  ]);

  const [again] = await takeOver(kernel);
  expect(again).toMatchObject({ tables: [], chains: [], jumps: [], kept: [] });
});

test('the chain that accepts forwarded traffic is kept if the policy is drop', async () => {
  const { kernel, namespace } = await createKernel();
  const rules = mixedRules(addresses.IPv4, 'DROP');
  await restore(namespace, 'IPv4', restoreText(rules, ['kube-proxy', 'others']));
  const [found] = await takeOver(kernel);
  const isForward = ({ text }: Line): boolean => text.includes('KUBE-FORWARD');
  const left = rules.map((line): Line => (isForward(line) ? { ...line, owner: 'others' } : line));
  const others = await onlyOthers((other) => restore(other, 'IPv4', restoreText(left, ['others'])));
  expect(await everything(namespace)).toBe(others);
  expect(others).toContain('-A KUBE-FORWARD -m comment');
  expect(found?.kept).toMatchObject([{ table: 'filter', chain: 'KUBE-FORWARD' }]);

  await takeOver(kernel, 'all');
  expect(await namespace.run('iptables-nft-save', [])).not.toContain('KUBE-FORWARD');
});

test("the chains of kube-proxy's ipvs mode in iptables are removed, too", async () => {
  const { kernel, namespace } = await createKernel();
  await restore(namespace, 'IPv4', restoreText(ipvsRules, ['kube-proxy', 'others']));
  await takeOver(kernel);
  const others = await onlyOthers((other) =>
    restore(other, 'IPv4', restoreText(ipvsRules, ['others'])),
  );
  expect(await everything(namespace)).toBe(others);
});

test("chains of kube-proxy's ipvs mode are removed from among those of our iptables mode", async () => {
  const { kernel, namespace } = await createKernel();
  const isExtra = ({ text }: Line): boolean =>
    /KUBE-(?:NODE-PORT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|IPVS)/.test(text);
  const extra = ipvsRules.map((line): Line => {
    return { ...line, owner: isExtra(line) ? 'kube-proxy' : 'others' };
  });
  const load = (into: Namespace, owners: readonly Line['owner'][]): Promise<void> =>
    restore(into, 'IPv4', restoreText(extra, owners));
  await load(namespace, ['kube-proxy', 'others']);
  // As our mode would write it.
  await namespace.run('iptables-nft', ['-t', 'nat', '-F', 'KUBE-SERVICES']);
  await removeLeftovers(
    kernel,
    await findLeftovers(kernel, 'IPv4', ['own table', 'IPVS chains'], 'replaced'),
  );
  expect(await everything(namespace)).toBe(await onlyOthers((other) => load(other, ['others'])));
});

test("a chain that a container runtime's rules need is kept, and works", async () => {
  const { kernel, namespace } = await createKernel();
  await restore(namespace, 'IPv4', restoreText(hostPortRules, ['kube-proxy', 'others']));
  const [found] = await takeOver(kernel);
  const others = await onlyOthers((other) =>
    restore(other, 'IPv4', restoreText(hostPortRules, ['others'])),
  );
  expect(await everything(namespace)).toBe(others);
  expect(found?.kept).toEqual([
    { table: 'nat', chain: 'KUBE-MARK-MASQ', because: 'chain KUBE-HP-ABCDEF refers to it' },
  ]);
});

test('a namespace without iptables, and one with empty tables, are not changed', async () => {
  const { kernel, namespace } = await createKernel();
  const generation = await kernel.generation();
  await takeOver(kernel);
  expect(await kernel.generation()).toBe(generation);
  await restore(namespace, 'IPv4', '*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n');
  const before = await everything(namespace);
  await takeOver(kernel);
  expect(await everything(namespace)).toBe(before);
});

test('ten thousand chains are removed in one transaction', async () => {
  const { kernel, namespace } = await createKernel();
  await restore(namespace, 'IPv4', tenThousandChains());
  const generation = await kernel.generation();
  const [found] = await takeOver(kernel);
  expect(found?.chains).toHaveLength(10_001);
  expect(await kernel.generation()).toBe(generation + 1);
  expect(await namespace.run('iptables-nft-save', [])).not.toContain('KUBE-');
});
