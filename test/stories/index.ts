/** All stories, in the order of the behaviour document. */
import type { Story } from '../lab/story.ts';
import { affinityStories } from './affinity.ts';
import { changeStories } from './changes.ts';
import { clusterIpStories } from './cluster-ip.ts';
import { conntrackStories } from './conntrack.ts';
import { dualStackStories } from './dual-stack.ts';
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
import { weirdStories } from './weird.ts';

export const stories: readonly Story[] = [
  ...clusterIpStories,
  ...nodePortStories,
  ...loadBalancerStories,
  ...externalIpStories,
  ...policyStories,
  ...terminatingStories,
  ...topologyStories,
  ...affinityStories,
  ...masqueradeStories,
  ...hairpinStories,
  ...serviceCidrStories,
  ...protocolStories,
  ...dualStackStories,
  ...conntrackStories,
  ...restartStories,
  ...sliceStories,
  ...changeStories,
  ...weirdStories,
];
