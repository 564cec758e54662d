/** Every story, in mode iptables, and what stories cannot tell. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import type { KubernetesObject } from '../lab/objects.ts';
import { runStory } from '../lab/run-story.ts';
import type { Step, Story } from '../lab/story.ts';
import { unallocated, unknownPort, unprogrammed } from './common.ts';
import { fairlead } from './fairlead-proxy.ts';
import { chosenStories } from './index.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

/**
 * With session affinity an endpoint is a chain and a list of the kernel's: 20,000 of them take it
 * minutes. With fewer it is more often luck that a client is chosen an endpoint again.
 */
const endpointsMax = 2000;
const luck = { retry: 1 };

for (const story of chosenStories()) {
  test(story.name, luck, () => runStory(lab, fairlead('iptables'), asTold(story)));
}

function asTold(story: Story): Story {
  return { ...story, steps: story.steps.map((step) => withRoutes(stepWithFewer(step))) };
}

/** It has rules for what Services have, as kube-proxy's; the rest goes where routes lead. */
function withRoutes(step: Step): Step {
  if (!('expect' in step)) return step;
  const isLeft = step.expect === unallocated || step.expect === unknownPort;
  return isLeft ? { ...step, expect: unprogrammed } : step;
}

function stepWithFewer(step: Step): Step {
  if (step.do !== 'apply' && step.do !== 'remove') return step;
  return { ...step, objects: step.objects.map(objectWithFewer) };
}

const cut = new Map<KubernetesObject, KubernetesObject>();

/** The same object for the same object: it is no change. */
function objectWithFewer(object: KubernetesObject): KubernetesObject {
  const { endpoints } = object as { readonly endpoints?: unknown };
  if (!Array.isArray(endpoints) || endpoints.length <= endpointsMax) return object;
  const fewer = cut.get(object) ?? { ...object, endpoints: endpoints.slice(0, endpointsMax) };
  cut.set(object, fewer);
  return fewer;
}
