/** For modes whose kernel objects make a list of very many endpoints slow. */
import type { KubernetesObject } from '../lab/objects.ts';
import type { Step, Story } from '../lab/story.ts';
import { endlessNowhere } from './common.ts';

/** Of those that lead nowhere. */
const endpointsMax = 2000;

const fewer = new Map<KubernetesObject, KubernetesObject>(
  endlessNowhere.map((slice) => {
    const { endpoints } = slice as KubernetesObject & { endpoints: readonly unknown[] };
    return [slice, { ...slice, endpoints: endpoints.slice(0, endpointsMax) }];
  }),
);

/** The story with fewer endpoints in `endlessNowhere`. */
export function withFewerEndpoints(story: Story): Story {
  return { ...story, steps: story.steps.map(stepWithFewer) };
}

function stepWithFewer(step: Step): Step {
  if (step.do !== 'apply' && step.do !== 'remove') return step;
  return { ...step, objects: step.objects.map((object) => fewer.get(object) ?? object) };
}
