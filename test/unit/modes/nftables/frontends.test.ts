import { describe, expect, it } from 'vitest';
import type { ChainDefinition } from '../../../../src/kernel/nft/chain.ts';
import { ChainClasses } from '../../../../src/modes/nftables/chain-classes.ts';
import { frontendElements, objectsOfFrontend } from '../../../../src/modes/nftables/frontends.ts';
import { clusterIP, config, forwarding, pool } from './forwardings.ts';

describe('frontends of one class', () => {
  it('share their chains, so that thousands of them hold rules once', () => {
    const classes = new ChainClasses(config);
    const chainsOf = (name: string, fields = {}) => {
      const frontends = [clusterIP('10.96.0.1', 'external-local')];
      const one = forwarding(name, pool(1, 2), { frontends, local: pool(1), ...fields });
      return objectsOfFrontend(frontendElements(classes, one)[0]!) as readonly ChainDefinition[];
    };
    const affinityTimeoutSeconds = 100;
    const first = chainsOf('a', { affinityTimeoutSeconds });
    const second = chainsOf('b', { affinityTimeoutSeconds });
    expect(first.map(({ name }) => name)).toContain('learn-local-100');
    expect(second.map((chain, i) => chain === first[i])).toEqual(first.map(() => true));

    const other = chainsOf('c', { affinityTimeoutSeconds: 200 });
    expect(other.at(-1)!.name).toBe('learn-local-200');
    expect(chainsOf('d').map(({ name }) => name)).not.toContain('learn-local-100');
  });
});
