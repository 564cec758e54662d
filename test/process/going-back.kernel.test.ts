/** kube-proxy serves again: docs/decisions/0016-behind-kube-proxy.md. */
import { expect, test } from 'vitest';
import { canTranslate } from '../lab/connect-time.ts';
import { main } from './main.ts';
import { inForce, listens, Place } from './program.ts';

test('the remaining objects translate nothing that kube-proxy translates in older chains', async () => {
  const place = await Place.make();
  const run = (...words: readonly string[]) => place.namespace.run(words[0]!, words.slice(1));
  const translate = ['-d', '10.96.0.10', '-p', 'tcp', '--dport', '80', '-j', 'DNAT'];
  const rule = ['OUTPUT', ...translate, '--to-destination', '192.0.2.1:8080'];
  // The chain is there before Fairlead comes, and stays, as the iptables program leaves it.
  await run('iptables-nft', '-t', 'nat', '-A', ...rule);
  await run('iptables-nft', '-t', 'nat', '-D', ...rule);
  await run('ip', 'address', 'add', '192.0.2.1/32', 'dev', 'lo');
  await run('ip', 'route', 'add', '10.96.0.0/16', 'dev', 'lo', 'src', '192.0.2.1');

  const program = place.start();
  await place.serves('pod-a', 'pod-b');
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  await run('iptables-nft', '-t', 'nat', '-A', ...rule);

  const asks = `import { createServer } from 'node:http';
    createServer((_, response) => response.end('kube-proxy chose')).listen(8080, async () => {
      const answer = await fetch('http://10.96.0.10/', { signal: AbortSignal.timeout(5000) });
      console.log(await answer.text());
      process.exit();
    });`;
  expect(await run(process.execPath, '--input-type=module', '--eval', asks)).toBe(
    'kube-proxy chose\n',
  );
  await place.serves('pod-a', 'pod-b');
});

/** `fairlead connect-time remove`: what it prints, or the error with what it complains about. */
function removal(place: Place, ...options: readonly string[]): Promise<string> {
  return place.namespace.run(process.execPath, [main, 'connect-time', 'remove', ...options]);
}

test('connect-time remove is rejected while a Fairlead runs that may use programs', async () => {
  const place = await Place.make();
  place.configure({ metricsBindAddress: '127.0.0.1:10777' });
  const program = place.start();
  await program.logged(inForce, 2);
  await expect(removal(place)).rejects.toThrow(
    'does not say whether it uses the programs: process ',
  );
});

test.skipIf(!canTranslate())(
  'connect-time remove works while a Fairlead runs that uses none',
  async () => {
    const place = await Place.make();
    const program = place.start();
    await program.logged(inForce, 2);
    await listens(place.namespace, 10_249);
    expect(await removal(place)).toBe('nothing to remove\n');
    program.kill('SIGTERM');
    expect(await program.exitCode).toBe(0);
    // Not before: a process that sees such a change ends with another code.
    place.configure({ metricsBindAddress: '127.0.0.1:10777' });
    const mute = place.start();
    await mute.logged(inForce, 2);
    expect(await removal(place, '--ignore-other-instance')).toBe('nothing to remove\n');
  },
);

test('tables remove waits for a Fairlead to end, and leaves no table', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.logged(inForce, 2);
  const remove = (...options: readonly string[]) =>
    place.namespace.run(process.execPath, [main, 'tables', 'remove', ...options]);
  expect(await remove('--dry-run')).toMatch(/^table ip fairlead: .*\ntable ip6 fairlead: /m);
  const removed = remove();
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(await removed).toContain('removed table ip fairlead\nremoved table ip6 fairlead\n');
  expect(await place.namespace.run('nft', ['list', 'tables'])).not.toContain('fairlead');
  expect(await remove()).toBe('nothing to remove\n');
  expect(await remove('--dry-run')).toBe('nothing to remove\n');
});
