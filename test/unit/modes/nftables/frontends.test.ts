import { describe, expect, it } from 'vitest';
import type { ChainDefinition } from '../../../../src/kernel/nft/chain.ts';
import { ChainClasses } from '../../../../src/modes/nftables/chain-classes.ts';
import { frontendElements, objectsOfFrontend } from '../../../../src/modes/nftables/frontends.ts';
import { clusterIP, config, forwarding, pool } from './forwardings.ts';

describe('frontends of one class', () => {
  it('share their chains, so that thousands of them need one copy of the rules', () => {
    const classes = new ChainClasses(config);
    const chainsOf = (name: string, fields = {}) => {
      const frontends = [clusterIP('10.96.0.1', 'outsideLocal')];
      const one = forwarding(name, pool(1, 2), { frontends, local: pool(1), ...fields });
      return objectsOfFrontend(frontendElements(classes, one)[0]!) as readonly ChainDefinition[];
    };
    const first = chainsOf('a');
    const second = chainsOf('b');
    expect(second.map((chain, i) => chain === first[i])).toEqual(first.map(() => true));
  });
});

describe('session affinity', () => {
  const namesOf = (fields: Parameters<typeof forwarding>[2]) => {
    const sticky = { affinityTimeoutSeconds: 60, ...fields };
    const [first] = frontendElements(
      new ChainClasses(config),
      forwarding('web', pool(1, 2), sticky),
    );
    const { memories, recall, learn } = first!.affinity!;
    const sets = memories.map(({ set }) => set.definition.name);
    return [...sets, recall.name, ...learn.map(({ name }) => name)].map((name) =>
      name.replace('ns/web/tcp/', '*'),
    );
  };
  const outside = (paths: 'outside' | 'outsideLocal') => ({
    frontends: [clusterIP('10.96.0.1', paths)],
  });

  it('names its objects by their contents', () => {
    expect(namesOf({})).toEqual(['affinity-*', 'recall-internal-*', 'learn-60-*']);
    expect(namesOf({ affinityTimeoutSeconds: 10800 })).toContain('learn-10800-*');
    expect(namesOf(outside('outside'))).toEqual(['affinity-*', 'recall-external-*', 'learn-60-*']);
    const inside = [clusterIP('10.96.0.1', 'insideLocal')];
    expect(namesOf({ frontends: inside, local: pool(1) })).toEqual([
      'local-affinity-*',
      'recall-internal-local-pool-*',
      'learn-local-60-*',
    ]);
    const both = { ...outside('outsideLocal'), local: pool(1) };
    const maps = ['affinity-*', 'local-affinity-*', 'recall-external-local-*'];
    const shared = ['learn-cluster-60-*', 'learn-both-60-*', 'learn-client-both-60-*'];
    expect(namesOf(both)).toEqual([...maps, ...shared]);
    const apart = ['learn-cluster-60-*', 'learn-local-60-*', 'learn-client-local-60-*'];
    expect(namesOf({ ...both, local: pool(3) })).toEqual([...maps, ...apart]);
  });
});
