import { describe, expect, it } from 'vitest';
import { ready, readyLocal } from '../../state/build.ts';
import { endpoints, everyKind, nodeAddress, Stage } from './stage.ts';

const families = ['IPv4', 'IPv6'] as const;

const clusterIP = '10.96.0.1 80';
const nodePort = `${nodeAddress} 30080`;

const here = '10.244.0.5';
const away = '10.244.1.6';
const both = { [away]: ready, [here]: readyLocal };

/**
 * What no golden file has: other detectors of pods. Stories show all packets, and `worlds.test.ts`
 * compares them with those of other modes.
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

  it.for([
    { kind: 'bridge', name: 'cni0' },
    { kind: 'interface-prefix', prefix: 'cni' },
    { kind: 'none' },
  ] as const)(
    'tells pods as detector $kind does when it remembers a client',
    async (localDetector) => {
      const stage = new Stage({ family, localDetector });
      await stage.play([
        everyKind(family, { affinityTimeoutSeconds: 300, externalTrafficPolicy: 'Local' }),
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
    },
  );
});
