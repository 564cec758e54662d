/** Every story, in mode ipvs, and tests that are not stories. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { runStory } from '../lab/run-story.ts';
import { fairlead } from './fairlead-proxy.ts';
import { chosenStories } from './index.ts';

let lab: Lab;
beforeAll(async () => {
  lab = await createLab();
});
afterAll(() => lab.close());

/** For a story that fails: all that this mode has in the kernel. */
async function dump(): Promise<string> {
  const commands = ['nft list ruleset', 'ipvsadm -Ln', 'ip addr show kube-ipvs0', 'ipvsadm -Lnc'];
  const outputs = commands.map((command) =>
    lab.node.run(command.split(' ')).catch((error: Error) => error.message),
  );
  return (await Promise.all(outputs)).join('\n');
}

for (const story of chosenStories()) {
  test(story.name, () => runStory(lab, fairlead('ipvs'), story, { dump }));
}
