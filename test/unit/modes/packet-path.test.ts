import { expect, it } from 'vitest';
import { pathDescribers } from '../../../src/modes/index.ts';
import { packetPathOf } from '../../../src/modes/packet-path.ts';
import { readyLocal, resolveOne, service, slice } from '../state/build.ts';
import { config } from './config.ts';

it('with policy Local the node and pods reach the whole cluster, where pods are recognised', () => {
  const { frontends } = resolveOne(
    service({ externalIPs: ['198.51.100.1'], externalTrafficPolicy: 'Local' }),
    [slice({ '10.244.0.1': readyLocal })],
  );
  const frontend = frontends.find(({ kind }) => kind === 'externalIP')!;
  const pools = (kind: 'cidr' | 'none') => {
    const localDetector = kind === 'none' ? ({ kind } as const) : config.localDetector;
    return (['pod', 'node', 'outside'] as const).map((client) => {
      return packetPathOf({ ...config, localDetector }, { frontend }, client).pool;
    });
  };
  expect(pools('cidr')).toEqual(['cluster', 'cluster', 'local']);
  expect(pools('none')).toEqual(['local', 'cluster', 'local']);
});

it('sets of mode ipvs have the types of their layout, or of lists of source ranges', () => {
  const keyOf = (set: string) => pathDescribers.ipvs.typesOf?.('IPv4', 'fairlead-ipvs', set)?.key;
  expect(keyOf('services')).toEqual(['ipv4_addr', 'inet_proto', 'inet_service']);
  expect(keyOf('source-ranges-1')).toEqual(['ipv4_addr']);
  expect(keyOf('services-2')).toBeUndefined();
});
