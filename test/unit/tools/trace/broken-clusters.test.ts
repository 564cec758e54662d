/** A trace agrees with the real outcome of a packet, and with its explanation. */
import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../../../src/ask/explanation.ts';
import type { Running } from '../../agent/running.ts';
import { asked } from '../../ask/asking.ts';
import { packetOf, startedWith } from '../../ask/broken-cluster-app.ts';
import { everyBrokenCluster } from '../../ask/more-broken-clusters.ts';
import { traced } from './tracing.ts';

let app: Running;

afterEach(() => app.stop());

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
