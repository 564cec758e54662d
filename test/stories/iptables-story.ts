/** Adapts stories to mode iptables. */
import type { Step, Story } from '../lab/story.ts';
import { unallocated, unknownPort, unprogrammed } from './common.ts';

export function iptablesStory(story: Story): Story {
  return { ...story, steps: story.steps.map(withRoutes) };
}

/** It has rules for what Services have, as kube-proxy's; the rest goes where routes lead. */
function withRoutes(step: Step): Step {
  if (!('expect' in step)) return step;
  const isLeft = step.expect === unallocated || step.expect === unknownPort;
  return isLeft ? { ...step, expect: unprogrammed } : step;
}
