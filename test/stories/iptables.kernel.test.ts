/** Every story, in mode iptables, and what stories cannot tell. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { runStory } from '../lab/run-story.ts';
import type { Step, Story } from '../lab/story.ts';
import { unallocated, unknownPort, unprogrammed } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';
import { luck, withFewerEndpoints } from './fewer.ts';
import { chosenStories } from './index.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

// An endpoint with session affinity is a chain and a list of the kernel's.
for (const story of chosenStories()) {
  test(story.name, luck, () => runStory(lab, fairlead('iptables'), asTold(story)));
}

function asTold(story: Story): Story {
  const fewer = withFewerEndpoints(story);
  return { ...fewer, steps: fewer.steps.map(withRoutes) };
}

/** It has rules for what Services have, as kube-proxy's; the rest goes where routes lead. */
function withRoutes(step: Step): Step {
  if (!('expect' in step)) return step;
  const isLeft = step.expect === unallocated || step.expect === unknownPort;
  return isLeft ? { ...step, expect: unprogrammed } : step;
}
