/** Every story, in mode nftables. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { runStory } from '../lab/run-story.ts';
import { fairlead } from './fairlead-proxy.ts';
import { stories } from './index.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

for (const story of stories) {
  test(story.name, () => runStory(lab, fairlead('nftables'), story));
}
