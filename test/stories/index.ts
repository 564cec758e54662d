/** All stories, in the order of the behaviour document. */
import type { Story } from '../lab/story.ts';
import { affinityStories } from './affinity.ts';
import { changeStories } from './changes.ts';
import { clusterIpStories } from './cluster-ip.ts';
import { conntrackStories } from './conntrack.ts';
import { dualStackStories } from './dual-stack.ts';
import { endingStories } from './endings.ts';
import { externalIpStories } from './external-ip.ts';
import { hairpinStories } from './hairpin.ts';
import { loadBalancerStories } from './load-balancer.ts';
import { masqueradeStories } from './masquerade.ts';
import { nodePortStories } from './node-port.ts';
import { policyStories } from './policies.ts';
import { protocolStories } from './protocols.ts';
import { restartStories } from './restart.ts';
import { serviceCidrStories } from './service-cidr.ts';
import { sliceStories } from './slices.ts';
import { terminatingStories } from './terminating.ts';
import { topologyStories } from './topology.ts';
import { unusualStories } from './unusual-objects.ts';

/** By topic. */
const topics: readonly (readonly Story[])[] = [
  clusterIpStories,
  nodePortStories,
  loadBalancerStories,
  externalIpStories,
  policyStories,
  terminatingStories,
  topologyStories,
  affinityStories,
  masqueradeStories,
  hairpinStories,
  serviceCidrStories,
  protocolStories,
  dualStackStories,
  conntrackStories,
  endingStories,
  restartStories,
  sliceStories,
  changeStories,
  unusualStories,
];

/** Every story. */
export const stories: readonly Story[] = topics.flat();

/**
 * The first story of each topic: what an emulated machine has the time for on every run of
 * `npm test`. `npm run test:vm` runs all of them.
 */
export const firstStories: readonly Story[] = topics.flatMap((topic) => topic.slice(0, 1));

/** The stories of this run: `FAIRLEAD_STORIES=first`, or all. */
export function chosenStories(): readonly Story[] {
  return process.env.FAIRLEAD_STORIES === 'first' ? firstStories : stories;
}
