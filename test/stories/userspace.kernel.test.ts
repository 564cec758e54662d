/** Stories in mode userspace. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { runStory } from '../lab/run-story.ts';
import { proxiesInside } from './fairlead-inside.ts';
import { chosenStories } from './index.ts';
import { portOfAnother } from './node-port.ts';
import { userspaceStory } from './userspace-story.ts';

let lab: Lab;
const proxies = proxiesInside('userspace');
beforeAll(async () => {
  lab = await createLab();
});
afterAll(async () => {
  await proxies.close();
  await lab.close();
});

/** For a story that fails: what listens, and what is bound. */
async function dump(): Promise<string> {
  const commands = ['ss -Htulnp', 'ip addr show fairlead0'];
  const outputs = commands.map((command) =>
    lab.node.run(command.split(' ')).catch((error: Error) => error.message),
  );
  return (await Promise.all(outputs)).join('\n');
}

for (const story of chosenStories('own')) {
  // Without the other's port, it is a node port: `localhost-node-ports.kernel.test.ts`.
  if (story.name === portOfAnother) continue;
  const { story: adapted, difference } = userspaceStory(story);
  const options = { dump, ...(difference === undefined ? {} : { difference }) };
  test(story.name, () => runStory(lab, proxies, adapted, options));
}
