import { describe, expect, it } from 'vitest';
import { played, scriptOf, skeletonBatches, storyNames } from './scripts.ts';

describe('the nft script matches for', () => {
  it.for(['IPv4', 'IPv6'] as const)('the fixed objects, %s', async (family) => {
    const { batches } = await played('cluster-ip', family);
    const script = scriptOf(batches.slice(0, skeletonBatches));
    await expect(script).toMatchFileSnapshot(`golden/fixed-${family.toLowerCase()}.nft`);
  });

  it.for(storyNames)('story %s', async (name) => {
    const { batches } = await played(name, 'IPv4');
    await expect(
      scriptOf(batches.slice(name === 'counted' ? 0 : skeletonBatches)),
    ).toMatchFileSnapshot(`golden/${name}.nft`);
  });

  it('a Service in IPv6', async () => {
    const { batches } = await played('every-kind', 'IPv6');
    const script = scriptOf(batches.slice(skeletonBatches));
    await expect(script).toMatchFileSnapshot('golden/every-kind-ipv6.nft');
  });
});
