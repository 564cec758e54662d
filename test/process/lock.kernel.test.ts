/** Who can keep a start from having the network namespace: nobody without the capability for it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { inForce, Place } from './program.ts';

const hold = `require('node:net').createServer().listen('\\0fairlead', () => console.log('held'));`;

/** A process of root that holds the name of the lock, started by these words. */
async function holder(place: Place, ...within: readonly string[]): Promise<void> {
  const argv = ['netns', 'exec', place.namespace.name, ...within, process.execPath, '-e', hold];
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    const closed = once(child, 'close');
    child.kill('SIGKILL');
    await closed;
  });
  const [said] = await once(child.stdout, 'data');
  expect(String(said)).toBe('held\n');
}

test('a process of root without capabilities that holds the name blocks no start', async () => {
  const place = await Place.make();
  await holder(place, 'setpriv', '--bounding-set=-all', '--inh-caps=-all');
  const program = place.start();
  const { err } = await program.told('Could not check for another running instance; continuing');
  expect(err).toMatch(/process \d+ of user 0 without CAP_NET_ADMIN, which can be no Fairlead$/);
  await program.told(inForce, 2);
});

test('a process of root that has the capability is waited for', async () => {
  const place = await Place.make();
  const only = ['--bounding-set=-all,+net_admin', '--inh-caps=-all'];
  await holder(place, 'setpriv', ...only);
  const program = place.start();
  await program.told('Another instance runs in this network namespace; waiting for it to exit');
  expect(await place.ruleset()).toBe('');
});
