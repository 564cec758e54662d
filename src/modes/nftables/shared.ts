import type { SetName } from './layout.ts';

/** Sets whose elements several Forwardings may need: each element is counted. */
export const sharedSets = [
  'cluster-ips',
  'hairpin',
  'self-clients',
] as const satisfies readonly SetName[];
export type SharedSet = (typeof sharedSets)[number];
