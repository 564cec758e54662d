/** The program that is asked for a fast path, on kernels with flowtables and without. */
import { expect, test } from 'vitest';
import type { Status } from '../../src/ask/status.ts';
import { NODE_IP } from '../lab/addresses.ts';
import { inForce, listens, Place, Program } from './program.ts';

const unavailable = 'Fast path unavailable; using the rules';

/** A line ends each rule: nft 1.0.6 takes no other end after a flowtable's name. */
const withFlowtable = `table inet t {
  flowtable f { hook ingress priority 0; devices = { lo }; }
  chain c {
    type filter hook forward priority 0;
    flow add @f
  }
}`;

test('takes it, or says once why there is none, and serves all the same', async () => {
  const elsewhere = (await Place.make()).namespace;
  const hasFlowtables = await elsewhere.run('nft', ['-f', '-'], withFlowtable).then(
    () => true,
    () => false,
  );
  const place = await Place.make();
  await place.namespace.run('ip', ['link', 'add', 'pod', 'type', 'veth', 'peer', 'name', 'eth0']);
  for (const link of ['pod', 'eth0']) {
    await place.namespace.run('ip', ['link', 'set', link, 'up']);
  }
  for (const address of [NODE_IP.IPv4, NODE_IP.IPv6]) {
    await place.namespace.run('ip', ['address', 'add', address, 'dev', 'pod', 'nodad']);
  }
  await place.namespace.run('ip', ['route', 'add', 'default', 'dev', 'pod']);
  // The file counts where there is one, not the flag.
  place.configure({ fastPath: 'flowtable' });
  const program = place.start();
  await program.logged(inForce, 2);
  await program.logged(hasFlowtables ? 'Using fast path' : unavailable);
  // Each of these is a reason to look again.
  for (const pods of [['pod-a'], ['pod-b'], ['pod-a', 'pod-b']] as const) {
    place.apply(pods);
    await place.serves(...pods);
  }
  await listens(place.namespace, 10_249);
  const asked = new Program(place.namespace, ['status', '-o', 'json']);
  expect([await asked.exitCode, JSON.parse(asked.stdout).problems]).toEqual([0, []]);
  const { fastPath } = JSON.parse(asked.stdout) as Status;
  const lines = program.lines.filter(({ msg }) => msg === unavailable);
  if (hasFlowtables) {
    expect(fastPath).toMatchObject({ state: 'flowtable', packets: 20 });
    expect(lines).toEqual([]);
  } else {
    expect(fastPath).toMatchObject({
      state: 'unavailable',
      because: expect.stringMatching('flow'),
    });
    expect(lines).toHaveLength(1);
    expect(await place.ruleset()).not.toContain('fairlead-fast-path');
  }
});
