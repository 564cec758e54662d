/** No program without the capability can keep a start from having the network namespace. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { canProve, inForce, Place, withoutCapabilities } from './program.ts';

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

const withOnly = ['setpriv', '--bounding-set=-all,+net_admin', '--inh-caps=-all'];
/** Where the holder's process is not seen. */
const elsewhere = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'];

test.skipIf(!canProve).each([
  ['that is seen', withoutCapabilities, [], /process \d+ of user 0, which/],
  [
    'in a PID namespace of its own',
    [...elsewhere, ...withoutCapabilities],
    [],
    /process \d+ of user 0, which/,
  ],
  [
    'the lock works in a separate PID namespace',
    withoutCapabilities,
    elsewhere,
    /a process of another PID namespace of/,
  ],
])(
  'a process of root %s, without capabilities, that holds the name blocks no start',
  async (_, holding, within, words) => {
    const place = await Place.make();
    await holder(place, ...holding);
    const program = place.startUnder({ within });
    const { err } = await program.logged(
      'Could not check for another running instance; continuing',
    );
    expect(err).toMatch(words);
    expect(err).toMatch(/, which does not prove that it has CAP_NET_ADMIN$/);
    await program.logged(inForce, 2);
  },
);

test.each([
  ['which sees it', []],
  ['in another PID namespace', elsewhere],
])('another Fairlead with only CAP_NET_ADMIN has the lock for one %s', async (_, within) => {
  const place = await Place.make();
  const first = place.startUnder({ within: withOnly });
  await first.logged(inForce, 2);
  const second = place.startUnder({ within });
  const { other } = await second.logged(
    'Another instance runs in this network namespace; waiting for it to exit',
  );
  expect(other).toMatch(within.length === 0 ? /^process \d+/ : /^a process of another PID/);
});
