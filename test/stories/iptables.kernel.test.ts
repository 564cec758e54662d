/** Stories in mode iptables. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { runStory } from '../lab/run-story.ts';
import { fairlead } from './fairlead-proxy.ts';
import { chosenStories } from './index.ts';
import { iptablesStory } from './iptables-story.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

// An endpoint with session affinity is a chain and a list of the kernel's.
for (const story of chosenStories('own')) {
  test(story.name, () => runStory(lab, fairlead('iptables'), iptablesStory(story)));
}
