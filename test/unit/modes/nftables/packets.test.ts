import { describe, expect, it } from 'vitest';
import { ready, readyLocal } from '../../state/build.ts';
import { endpoints, everyKind, nodeAddress, Stage } from './stage.ts';

const families = ['IPv4', 'IPv6'] as const;

const clusterIP = '10.96.0.1 80';
const externalIP = '198.51.100.1 80';
const loadBalancerIP = '198.51.100.2 80';
const nodePort = `${nodeAddress} 30080`;
const everything = [clusterIP, externalIP, loadBalancerIP, nodePort];

const here = '10.244.0.5';
const away = '10.244.1.6';
const both = { [away]: ready, [here]: readyLocal };

/**
 * What no golden file has: other detectors of pods, and what is remembered of clients. Stories show
 * all packets, and `worlds.test.ts` compares them with those of other modes.
 */
describe.for(families)('nftables mode, %s', (family) => {
  const list = (some: Parameters<typeof endpoints>[1]) => endpoints(family, some);

  it('masquerades no client of ClusterIPs if it cannot recognise pods', async () => {
    const stage = new Stage({ family, localDetector: { kind: 'none' } });
    await stage.play([everyKind(family, { externalTrafficPolicy: 'Local' }), list(both)]);
    expect(stage.outcome('outside', clusterIP)).not.toContain('masqueraded');
    for (const random of [0, 1]) expect(stage.outcome('pod', nodePort, { random })).toBe(here);
  });

  it.for([
    ['bridge', { kind: 'bridge', name: 'veth9' }],
    ['interface prefix', { kind: 'interface-prefix', prefix: 'veth' }],
  ] as const)('recognises pods by their %s', async ([, localDetector]) => {
    const stage = new Stage({ family, localDetector });
    await stage.play([everyKind(family), list({ [away]: ready })]);
    expect(stage.outcome('pod', clusterIP)).toBe(away);
    expect(stage.outcome('outside', clusterIP)).toBe(`${away} masqueraded`);
  });

  it('masquerades all clients of ClusterIPs if configured', async () => {
    const stage = new Stage({ family, masqueradeAll: true });
    await stage.play([everyKind(family), list({ [away]: ready })]);
    expect(stage.outcome('pod', clusterIP)).toBe(`${away} masqueraded`);
  });

  describe('with session affinity', () => {
    const affinity = { affinityTimeoutSeconds: 300 };
    const stageOf = async (fields: Parameters<typeof everyKind>[1] = {}) =>
      new Stage({ family }).play([everyKind(family, { ...affinity, ...fields }), list(both)]);

    it.for(everything)('returns a client of %s to its endpoint, at every address', async (to) => {
      const stage = await stageOf();
      const first = stage.outcome('outside', to, { random: 1 });
      for (const random of [0, 1]) {
        const again = everything.map((other) => stage.outcome('outside', other, { random }));
        expect(new Set(again)).toEqual(new Set([first]));
      }
      const other = { saddr: '203.0.113.10', random: 0 };
      expect(stage.outcome('outside', to, other)).not.toBe(first);
    });

    it.for([
      { kind: 'bridge', name: 'cni0' },
      { kind: 'interface-prefix', prefix: 'cni' },
      { kind: 'none' },
    ] as const)('tells pods as detector $kind does when it remembers', async (localDetector) => {
      const stage = new Stage({ family, localDetector });
      await stage.play([
        everyKind(family, { ...affinity, externalTrafficPolicy: 'Local' }),
        list(both),
      ]);
      const isPod = localDetector.kind !== 'none';
      const ends = [0, 1].map((random) => {
        const packet = { iif: 'cni0', saddr: `10.244.0.${20 + random}`, random };
        const first = stage.outcome('outside', nodePort, packet);
        for (const other of [0, 1]) {
          expect(stage.outcome('outside', nodePort, { ...packet, random: other })).toBe(first);
        }
        return first.startsWith(here) ? 'here' : 'away';
      });
      expect(ends.sort()).toEqual(isPod ? ['away', 'here'] : ['here', 'here']);
    });

    it('drops the affinity of a client when its endpoint is removed', async () => {
      const stage = await stageOf();
      const { planner, kernel } = stage.rig;
      const first = stage.outcome('outside', clusterIP, { random: 1 });
      expect(await planner.takeSweep?.(kernel)).toBeUndefined();
      expect(planner.takeSweep).toBeUndefined();

      const rest = first.startsWith(here) ? { [away]: ready } : { [here]: readyLocal };
      await stage.play([everyKind(family, affinity), list(rest)]);
      expect(planner.takeSweep).toBeDefined();
      const sweep = await planner.takeSweep?.(kernel);
      expect(kernel.applyNow(sweep!.ops)).toEqual({ kind: 'applied' });
      sweep!.committed({ kind: 'applied' });
      expect(stage.outcome('outside', clusterIP)).not.toBe(first);
      expect(planner.takeSweep).toBeUndefined();
    });

    it('keeps the affinity of clients of an endpoint that is the node itself', async () => {
      const onNode = { [nodeAddress]: readyLocal, [away]: ready };
      const stage = new Stage({ family });
      await stage.play([everyKind(family, affinity), list(onNode)]);
      const ends = [0, 1].map((random) =>
        stage.outcome('pod', clusterIP, { random, saddr: `10.244.0.${20 + random}` }),
      );
      expect(ends.sort()).toEqual([nodeAddress, away].sort());
      const again = [1, 0].map((random) =>
        stage.outcome('pod', clusterIP, { random, saddr: `10.244.0.${21 - random}` }),
      );
      expect(again.sort()).toEqual(ends);
    });

    it('does not keep a client on another node once the policy is Local', async () => {
      const stage = await stageOf();
      const random = [0, 1].find((n) =>
        stage
          .outcome('outside', nodePort, { saddr: `203.0.113.${20 + n}`, random: n })
          .startsWith(away),
      )!;
      const saddr = `203.0.113.${20 + random}`;
      expect(stage.outcome('outside', nodePort, { saddr })).toContain(away);
      await stage.play([
        everyKind(family, { ...affinity, externalTrafficPolicy: 'Local' }),
        list(both),
      ]);
      expect(stage.outcome('outside', nodePort, { saddr })).toBe(here);
    });

    it('keeps all valid affinities', async () => {
      const stage = await stageOf();
      const first = stage.outcome('outside', clusterIP, { random: 1 });
      const more = { ...both, '10.244.1.7': ready };
      await stage.play([everyKind(family, affinity), list(more)]);
      const sweep = await stage.rig.planner.takeSweep?.(stage.rig.kernel);
      expect(sweep).toBeUndefined();
      expect(stage.outcome('outside', clusterIP, { random: 2 })).toBe(first);
    });
  });
});
