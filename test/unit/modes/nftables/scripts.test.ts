import { describe, expect, it } from 'vitest';
import type { Family } from '../../../../src/net/address.ts';
import { asIPv4, beyond } from '../golden.ts';
import { played, scriptOf, settings, skeletonBatches, storyNames } from './scripts.ts';

/** Rules belong to their chain, elements to their set, all else is an object by itself. */
const keyOf = (line: string): string =>
  /^(?:add|flush) (?:chain|rule) \S+ \S+ \S+/.exec(line)?.[0].replace(/^\w+ \w+/, 'chain') ??
  /^\w+ element \S+ \S+ \S+/.exec(line)?.[0] ??
  line;

async function fixed(family: Family): Promise<string> {
  const { batches } = await played('cluster-ip', family);
  return scriptOf(batches.slice(0, skeletonBatches));
}

describe('the nft script matches for', () => {
  it('the fixed objects', async () => {
    await expect(await fixed('IPv4')).toMatchFileSnapshot('golden/fixed-ipv4.nft');
  });

  it('the fixed objects of IPv6 beyond those of IPv4', async () => {
    const likewise = (await fixed('IPv4'))
      .replaceAll(/\bip\b/g, 'ip6')
      .replaceAll('ipv4_addr', 'ipv6_addr');
    const script = beyond(likewise, await fixed('IPv6'), keyOf);
    await expect(script).toMatchFileSnapshot('golden/fixed-ipv6.nft');
  });

  it.for(storyNames.filter((name) => settings[name] === undefined))('story %s', async (name) => {
    const { batches } = await played(name, 'IPv4');
    const script = scriptOf(batches.slice(skeletonBatches));
    await expect(script).toMatchFileSnapshot(`golden/${name}.nft`);
  });

  it.for([
    ['counted', {}],
    // Node ports on loopback addresses are kube-proxy's default, and need more.
    ['as-iptables', { localhostNodePorts: true }],
  ] as const)('story %s, beyond the same without its settings', async ([name, without]) => {
    const scripts = [without, settings[name]].map(async (options) => {
      const script = scriptOf((await played(name, 'IPv4', options)).batches);
      return script.replaceAll(/-[0-9a-f]{32}\b/g, '-DIGEST');
    });
    const [usual, other] = (await Promise.all(scripts)) as [string, string];
    await expect(beyond(usual, other, keyOf)).toMatchFileSnapshot(`golden/${name}.nft`);
  });

  it('a Service in IPv6, which is as in IPv4 but for digests', async () => {
    const [four, six] = (['IPv4', 'IPv6'] as const).map(async (family) => {
      const { batches } = await played('every-kind', family);
      const script = scriptOf(batches.slice(skeletonBatches));
      return script
        .replaceAll(/-([0-9a-f]{32}|[a-h])\b/g, '-DIGEST')
        .split('\n')
        .sort();
    });
    expect((await six!).map(asIPv4).sort()).toEqual(await four);
  });
});
