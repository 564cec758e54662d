/** What grows with the number of Services, and what does not. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Kernel } from '../../src/kernel/kernel.ts';
import { NFPROTO } from '../../src/kernel/nft/constants.ts';
import { askKernel } from '../lab/ask-kernel.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { BASELINE, DEFAULT_CLUSTER_CIDR } from '../lab/objects.ts';
import { classes, servicesOfEveryClass } from './every-class.ts';
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
  /** Chains, sets and maps of Service ports with session affinity, which are not counted above. */
  readonly own: number;
}

/** The names of such objects say whose they are: `affinity-default/web/tcp/http`. */
const isOwn = (name: string): boolean => name.includes('/');

/** According to our own dumps. */
async function countByDump(): Promise<Counts> {
  const counts = { table: 0, chain: 0, set: 0, rule: 0, own: 0 };
  const count = async (kernel: Kernel, family: number): Promise<void> => {
    const ours = { family, table: 'fairlead' };
    for (const request of [
      { kind: 'tablesDump', family },
      { kind: 'chainsDump', ...ours },
      // The sign of mode nftables.
      { kind: 'chainsDump', family, table: 'kube-proxy' },
      { kind: 'setsDump', ...ours },
      { kind: 'rulesDump', ...ours, chain: '' },
    ] as const) {
      const { records } = await kernel.dump(request);
      for (const one of records) {
        if (one.kind === 'table') counts.table += 1;
        if (one.kind === 'rule' && !isOwn(one.chain)) counts.rule += 1;
        if (one.kind === 'chain') counts[isOwn(one.chain) ? 'own' : 'chain'] += 1;
        if (one.kind === 'set') counts[isOwn(one.set) ? 'own' : 'set'] += 1;
      }
    }
  };
  await askKernel(lab.node, async (kernel) => {
    for (const family of [NFPROTO.IPv4, NFPROTO.IPv6]) await count(kernel, family);
  });
  const { table: tables, chain: chains, set: sets, rule: rules, own } = counts;
  return { tables, chains, sets, rules, own };
}

/** As nft lists them, without elements. */
async function countByNft(): Promise<Counts> {
  const text = await lab.node.run(['nft', '--json', '--terse', 'list', 'ruleset']);
  type Named = { readonly name?: string; readonly chain?: string };
  const { nftables } = JSON.parse(text) as { nftables: readonly Record<string, Named>[] };
  const count = (kinds: readonly string[], own = false): number =>
    nftables.filter((object) =>
      kinds.some((kind) => {
        const { [kind]: one } = object;
        return one !== undefined && isOwn(one.name ?? one.chain ?? '') === own;
      }),
    ).length;
  return {
    tables: count(['table']),
    chains: count(['chain']),
    sets: count(['set', 'map']),
    rules: count(['rule']),
    own: count(['chain', 'set', 'map'], true),
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
  const running = await proxy.start(lab.node, settings, [
    ...BASELINE,
    ...servicesOfEveryClass(services),
  ]);
  const counts = { dump: await countByDump(), nft: await countByNft() };
  expect(await countClusterIPs()).toBe(services);
  await running.stop();
  await proxy.cleanup(lab.node);
  await lab.reset();
  return counts;
}

/** Enough that Services of every kind are in each of the maps that pools are spread over. */
const few = classes * 64;
const many = classes * 910;

/**
 * Of each class once: a map and three chains for session affinity of two treatments, two maps and
 * five chains where a policy is Local, in both families.
 */
const ownOfClasses = 2 * (4 + 7);

describe('mode nftables', () => {
  test('has as many tables, chains, sets, maps and rules for 10,000 Services as for a few', async () => {
    const counts = await countsWith(few);
    expect(counts.nft).toEqual(counts.dump);
    const { own, ...fixed } = counts.nft;
    expect(own).toBe((few / classes) * ownOfClasses);
    const more = await countsWith(many);
    expect(more.nft).toEqual(more.dump);
    expect(more.nft).toEqual({ ...fixed, own: (many / classes) * ownOfClasses });
  });
});
