/** What grows with the number of Services, and what does not. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openKernel } from '../../src/kernel/native-kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, DEFAULT_CLUSTER_CIDR } from '../lab/objects.ts';
import { assortment, classes } from './assortment.ts';
import { fairlead } from './fairlead-proxy.ts';

const settings = { detectLocalMode: 'ClusterCIDR', clusterCIDR: DEFAULT_CLUSTER_CIDR } as const;

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

interface Counts {
  readonly tables: number;
  readonly chains: number;
  /** Maps included. */
  readonly sets: number;
  readonly rules: number;
}

/** As our own dumps tell. */
async function countByDump(): Promise<Counts> {
  const kernel = openKernel({ netns: lab.node.namespacePath });
  const counts = { table: 0, chain: 0, set: 0, rule: 0 };
  try {
    for (const family of [NFPROTO.IPv4, NFPROTO.IPv6]) {
      const ours = { family, table: 'fairlead' };
      for (const request of [
        { kind: 'tablesDump', family },
        { kind: 'chainsDump', ...ours },
        { kind: 'setsDump', ...ours },
        { kind: 'rulesDump', ...ours, chain: '' },
      ] as const) {
        const { records } = await kernel.dump(request);
        for (const { kind } of records)
          if (kind in counts) counts[kind as keyof typeof counts] += 1;
      }
    }
  } finally {
    kernel.close();
  }
  return { tables: counts.table, chains: counts.chain, sets: counts.set, rules: counts.rule };
}

/** As nft lists them, without elements. */
async function countByNft(): Promise<Counts> {
  const text = await lab.node.run(['nft', '--json', '--terse', 'list', 'ruleset']);
  const { nftables } = JSON.parse(text) as { nftables: readonly Record<string, unknown>[] };
  const count = (...kinds: readonly string[]): number =>
    nftables.filter((object) => kinds.some((kind) => kind in object)).length;
  return {
    tables: count('table'),
    chains: count('chain'),
    sets: count('set', 'map'),
    rules: count('rule'),
  };
}

/** So that a proxy which does nothing does not pass. */
async function countClusterIPs(): Promise<number> {
  const text = await lab.node.run([
    'nft',
    '--json',
    'list',
    'set',
    'ip',
    'fairlead',
    'cluster-ips',
  ]);
  const { nftables } = JSON.parse(text) as {
    nftables: readonly { set?: { elem?: readonly unknown[] } }[];
  };
  return nftables.flatMap(({ set }) => set?.elem ?? []).length;
}

async function countsWith(services: number): Promise<{ dump: Counts; nft: Counts }> {
  const proxy = fairlead('nftables');
  const running = await proxy.start(lab.node, settings, [...BASELINE, ...assortment(services)]);
  const counts = { dump: await countByDump(), nft: await countByNft() };
  expect(await countClusterIPs()).toBe(services);
  await running.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
  return counts;
}

/** So many that Services of every kind are in each of the maps that pools are spread over. */
const few = classes * 64;

describe('mode nftables', () => {
  test('has as many tables, chains, sets, maps and rules for 10,000 Services as for a few', async () => {
    const counts = await countsWith(few);
    expect(counts.nft).toEqual(counts.dump);
    expect(await countsWith(10_000)).toEqual(counts);
  });
});
