/** What failure detection has found, of all Services together. */
import type { Registry } from 'prom-client';
import type { DetectionView } from '../state/detection.ts';
import { readMetric } from './metric-table.ts';

export function detectionMetrics(
  registry: Registry,
  view: () => Pick<DetectionView, 'state' | 'totals'>,
): void {
  readMetric('fairlead_followed_endpoints', registry, () => {
    const { state, totals } = view();
    if (state.kind === 'off') return [];
    const { endpoints, leftOut, out, silent } = totals;
    const states = { answering: endpoints - out - silent, silent, ejected: out, left_out: leftOut };
    return Object.entries(states).map(([name, count]) => [{ state: name }, count]);
  });
  readMetric('fairlead_endpoint_ejections_total', registry, () => [[{}, view().totals.ejected]]);
  readMetric('fairlead_endpoint_returns_total', registry, () => [[{}, view().totals.returned]]);
  readMetric('fairlead_endpoint_probes_total', registry, () => {
    const { failed, notTried, succeeded } = view().totals.probes;
    const results = { succeeded, failed, not_tried: notTried };
    return Object.entries(results).map(([result, count]) => [{ result }, count]);
  });
}
