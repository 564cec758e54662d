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

/** Also those that take minutes, and that others stand for. */
export const areAllAsked = process.env.FAIRLEAD_STORIES === 'all';

/** The first story of each topic: what an emulated machine has the time for in `npm test`. */
export const firstStories: readonly Story[] = firstOf(topics);

function firstOf(chosen: readonly (readonly Story[])[]): Story[] {
  return chosen.flatMap((topic) => topic.slice(0, 1));
}

/**
 * Topics of what a mode and a kernel do with packets: choice, masquerading, lists of clients,
 * connections. The others are about which endpoints a frontend has, and that depends on neither:
 * mode nftables shows it, and `worlds.test.ts` compares modes for random clusters.
 */
const kernelTopics: readonly (readonly Story[])[] = [
  clusterIpStories,
  nodePortStories,
  loadBalancerStories,
  policyStories,
  affinityStories,
  masqueradeStories,
  hairpinStories,
  serviceCidrStories,
  protocolStories,
  conntrackStories,
  endingStories,
  restartStories,
];

/**
 * The stories of this run: with `FAIRLEAD_STORIES=first` some of them, with `all` each.
 * @param here what the kernel of this machine runs in `npm test`: all, so that an emulated one shows
 *   only what may differ there, or the mode's own, which are of `kernelTopics` and the first of
 *   each other topic
 */
export function chosenStories(here?: 'all' | 'own'): readonly Story[] {
  if (process.env.FAIRLEAD_STORIES === 'first') {
    return here === undefined ? firstStories : firstOf(kernelTopics);
  }
  if (here !== 'own' || areAllAsked) return stories;
  return topics.flatMap((topic) => (kernelTopics.includes(topic) ? topic : topic.slice(0, 1)));
}
