/**
 * What Calico's Felix sees of the mode, with `nftablesMode: Auto`: it asks every 15 seconds as
 * `felix` does here, and restarts when the answer changes (felix/nftables/utils.go,
 * felix/dataplane/linux/int_dataplane.go).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nftablesRules } from '../conformance/kube-proxy-rules.ts';
import { CLUSTER_CIDR, FAMILIES } from '../lab/addresses.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE } from '../lab/objects.ts';
import { hangsMs } from '../lab/pace.ts';
import { until } from '../process/program.ts';
import { kubeProxyAddresses, untilTold } from './downloads.ts';
import { fairlead, type LogLine } from './fairlead-proxy.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

const words = { IPv4: 'ip', IPv6: 'ip6' } as const;

/** Whether the table of one family, IPv4 first, has a chain (knftables, `List`). */
async function felix(): Promise<boolean> {
  for (const family of FAMILIES) {
    const argv = ['nft', '--json', 'list', 'table', words[family], 'kube-proxy'];
    const text = await lab.node.run(argv).catch((error: Error) => {
      if (error.message.includes('No such file or directory')) return '{"nftables":[]}';
      throw error;
    });
    const { nftables } = JSON.parse(text) as { nftables: Record<string, unknown>[] };
    if (nftables.some((one) => 'chain' in one)) return true;
  }
  return false;
}

async function untilFelix(sees: boolean): Promise<void> {
  await until(async () => (await felix()) === sees, `Felix sees: ${sees}`);
}

async function kubeProxy(): Promise<void> {
  for (const family of FAMILIES) {
    const rules = nftablesRules(words[family], kubeProxyAddresses(family));
    await lab.node.run(['nft', '-f', '-'], rules);
  }
}

/** Follows the transactions of this network namespace; `end` resolves to the events of each. */
async function monitor(): Promise<{ end(): Promise<string[][]> }> {
  const { node } = lab;
  const folder = (await node.run(['mktemp', '-d'])).trim();
  const started = ['sh', '-c', `nft monitor >${folder}/events 2>&1 & echo $!`];
  const pid = (await node.run(started)).trim();
  const seen = async (mark: string): Promise<string> => {
    const endMs = performance.now() + hangsMs;
    for (;;) {
      await node.run(['nft', `add table inet ${mark}; delete table inet ${mark}`]);
      const text = await node.run(['cat', `${folder}/events`]);
      if (text.includes(`delete table inet ${mark}`)) return text;
      if (performance.now() > endMs) throw new Error(`nft monitor shows no ${mark}: ${text}`);
      await sleep(20);
    }
  };
  await seen('first');
  return {
    async end() {
      const text = await seen('last').finally(() => node.run(['kill', pid]));
      await node.run(['rm', '-r', folder]);
      return text.split(/^# new generation.*$/m).map((part) => part.trim().split('\n'));
    },
  };
}

/** The chains of kube-proxy's table of IPv4 after each transaction that names the table. */
function chainsAfter(transactions: readonly string[][]): number[] {
  const chains = new Set<string>(['of kube-proxy']);
  return transactions.flatMap((events) => {
    const about = events.filter((event) => / table ip kube-proxy\b| ip kube-proxy /.test(event));
    for (const event of about) {
      const chain = /^(add|delete) chain ip kube-proxy (\S+)/.exec(event);
      if (chain?.[1] === 'add') chains.add(chain[2]!);
      if (event.startsWith('delete table')) chains.clear();
    }
    return about.length === 0 ? [] : [chains.size];
  });
}

test('Felix finds the table with a chain before, throughout and after a takeover', async () => {
  const { node } = lab;
  await kubeProxy();
  expect(await felix()).toBe(true);
  const events = await monitor();
  const lines: LogLine[] = [];
  const proxy = fairlead('nftables', { log: (line) => lines.push(line) });
  const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: CLUSTER_CIDR.IPv4 } as const;
  const running = await proxy.start(node, settings, [...BASELINE]);
  await untilTold(lines, 'Took over from kube-proxy; removed its rules', 2);
  expect(await felix()).toBe(true);
  expect(await node.run(['nft', 'list', 'table', 'ip', 'kube-proxy'])).not.toContain('service-ips');
  expect(chainsAfter(await events.end())).toEqual([1]);

  await node.run(['nft', 'flush', 'ruleset']);
  await untilFelix(true);
  // In mode iptables Felix must stay with iptables.
  await running.switchTo('iptables');
  await untilFelix(false);
  await running.switchTo('nftables');
  await untilFelix(true);
  await running.stop();
  expect(await felix()).toBe(true);
  await proxy.cleanup(node);
  expect(await felix()).toBe(false);
  await lab.reset();
});
