import type { ReflectorTiming } from '../../../../src/source/kubernetes/timing.ts';

/** Quick to try again, small pages. */
export const hasty: Partial<ReflectorTiming> = {
  backoffBaseMs: 10,
  backoffMaxMs: 200,
  absentRetryBaseMs: 200,
  absentRetryMaxMs: 200,
  pageSize: 7,
};

/** A silent server is dead after 400 ms. */
export const impatient: Partial<ReflectorTiming> = {
  ...hasty,
  idleTimeoutMs: 400,
  listIdleMs: 1000,
  probeMaxMs: 300,
};
