import type { HealthInput } from '../../../src/serve/health.ts';
import { node } from '../state/build.ts';

/** A node that lacks nothing, at a time that does not pass. */
export const healthyInput: HealthInput = {
  clock: { now: () => 0, wallMs: () => 0 },
  source: {
    condition: () => ({ silenceMs: undefined, missingMs: undefined, failure: undefined }),
  },
  state: { node: node() },
  nodeListed: true,
  config: { healthzNodeShutdown: false },
  timeoutMs: 60_000,
  overLimit: 0,
  behindMs: 0,
};
