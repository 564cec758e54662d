/** A trace agrees with the real outcome of a packet, and with its explanation. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../../../src/ask/explanation.ts';
import type { Packet } from '../../../fake/nft-packet.ts';
import type { Running } from '../../agent/running.ts';
import { asked } from '../../ask/asking.ts';
import { startedWith } from '../../ask/broken-cluster-app.ts';
import { everyBrokenCluster } from '../../ask/more-broken-clusters.ts';
import { traced } from './tracing.ts';

let app: Running;

afterEach(() => app.stop());

const clients = { pod: '10.244.0.9', node: '192.168.7.7', outside: '198.18.0.1' } as const;

function packetOf({ from, to }: Explanation): Packet {
  return {
    saddr: from.address ?? clients[from.kind],
    daddr: to.address,
    protocol: to.protocol,
    dport: to.port,
    iif: from.kind === 'node' ? undefined : 'cni0',
    nodeAddresses: ['192.168.7.7'],
    random: 0,
  };
}

const outcomes = { accept: 'untranslated', reject: 'rejected', drop: 'dropped' } as const;

describe('trace explains packets in a broken cluster', () => {
  it.each(everyBrokenCluster.filter(({ outcome }) => outcome !== 'refused'))(
    'where $name',
    async (cluster) => {
      app = await startedWith(cluster);
      const { from, to } = cluster;
      const query = new URLSearchParams({ to, ...(from && { from }) });
      const explanation: Explanation = (await asked(app, 'explain', `?${query}`)).body;
      const packet = packetOf(explanation);
      const before = app.kernel.ruleset();
      const met = app.kernel.evaluate(packet);
      const { packets } = await traced({ kernel: app.kernel, packets: [packet], explanation });

      expect(packets).toHaveLength(1);
      const { destination, outcome, steps } = packets[0]!;
      const expected =
        met.translated && met.verdict === 'accept' ? 'endpoint' : outcomes[met.verdict];
      expect([outcome, destination]).toEqual([expected, met.to]);
      // The explanation is repeated if the packet has matched the rules that it names.
      const shown = explanation.steps.filter(({ text }) =>
        steps.some((step) => step.text === text),
      );
      if (explanation.outcome === expected) expect(shown).not.toEqual([]);
      app.kernel.release();
      expect(app.kernel.ruleset()).toBe(before);
    },
  );
});
