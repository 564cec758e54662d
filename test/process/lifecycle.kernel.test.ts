/** The program itself, from its command line to its exit code, in a network namespace. */
import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import {
  addresses,
  mixedRules,
  nftablesRules,
  restoreText,
} from '../conformance/kube-proxy-rules.ts';
import { inForce, Place, Program } from './program.ts';

test('a changed file takes effect, is rejected, or ends the process', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.logged(inForce, 2);
  const before = await place.ruleset();
  expect(before).not.toContain('0x00000008');

  place.configure({ nftables: { masqueradeBit: 3 } });
  const changed = await program.logged('Applied the changed configuration');
  expect(changed.fields).toEqual(['nftables.masqueradeBit']);
  await program.logged(inForce, 4);
  const after = await place.ruleset();
  expect(after).toContain('0x00000008');
  expect(after).not.toContain('0x00004000');

  place.configure({ nftables: { masqueradeBit: 99 } });
  const refused = await program.logged(
    'Invalid configuration file; keeping the current configuration',
  );
  expect(String(refused.err)).toContain('nftables.masqueradeBit');
  expect(await place.ruleset()).toBe(after);

  place.configure({ metricsBindAddress: '127.0.0.1:10250', nftables: { masqueradeBit: 3 } });
  expect(await program.exitCode).toBe(1);
  expect(program.words).toBe('');
  const err = "content of the proxy server's configuration file was updated";
  expect(program.lines.at(-1)).toMatchObject({ level: 'fatal', err, msg: 'Exiting' });
  expect(await place.ruleset()).toBe(after);
});

test('tools show the process as fairlead: ps, ss, and nft in the owner of its table', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.logged(inForce, 2);
  const { pid } = program;
  const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  expect(name).toBe('fairlead');
  const threads = readdirSync(`/proc/${pid}/task`);
  const names = threads.map((id) => readFileSync(`/proc/${pid}/task/${id}/comm`, 'utf8').trim());
  expect(names).not.toContain('MainThread');
  const sockets = await place.namespace.run('ss', ['-xlpH']);
  expect(sockets).toMatch(new RegExp(`@fairlead .*\\(\\("fairlead",pid=${pid},`));
  const table = await place.namespace.run('nft', ['-a', 'list', 'table', 'ip', 'fairlead']);
  // Where the kernel knows owners of tables, nft names them.
  const hasOwner = table.includes('flags owner');
  if (hasOwner) expect(table).toMatch(/^table ip fairlead \{ # .*progname fairlead$/m);
  expect(await place.namespace.run('ps', ['-o', 'comm=', '-p', String(pid)])).toBe('fairlead\n');
});

test('SIGHUP reads the file again; SIGTERM ends the process, and the rules stay', async () => {
  const place = await Place.make();
  const program = place.start();
  await program.logged(inForce, 2);
  program.kill('SIGHUP');
  await program.logged('Reloaded configuration file; nothing changed');
  const before = await place.ruleset();
  expect(before).toContain('10.96.0.10 . tcp . 80');
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(program.words).toBe('');
  expect(await place.ruleset()).toBe(before);
});

const waits = 'Another instance runs in this network namespace; waiting for it to exit';

test('a second process waits for the first, names it, and continues when that is killed', async () => {
  const place = await Place.make();
  const first = place.start();
  await first.logged(inForce, 2);
  const before = await place.ruleset();

  const second = place.start();
  expect((await second.logged(waits)).other).toContain(`process ${first.pid}, `);

  const removing = new Program(place.namespace, ['--cleanup']);
  expect(await removing.exitCode).toBe(1);
  expect(removing.words).toMatch(/^fairlead: another Fairlead runs in this network namespace, and/);
  const listing = new Program(place.namespace, ['--cleanup', '--dry-run']);
  expect(await listing.exitCode).toBe(0);

  expect(second.lines.some(({ msg }) => msg === inForce)).toBe(false);
  expect(await place.ruleset()).toBe(before);
  first.kill('SIGKILL');
  await second.logged(inForce, 2);
  expect(await place.ruleset()).toBe(before);
});

test('SIGTERM ends a process that waits for another one before it uses the kernel', async () => {
  const place = await Place.make();
  await place.start().logged(inForce, 2);
  const waiting = place.start();
  await waiting.logged(waits);
  waiting.kill('SIGTERM');
  expect(await waiting.exitCode).toBe(0);
  const messages = waiting.lines.map(({ msg }) => msg);
  expect(messages.slice(messages.indexOf(waits) + 1)).toEqual([
    'Stopping',
    'Stopped; rules stay in place',
  ]);
});

test('a process with --ignore-other-instance runs together with another one', async () => {
  const place = await Place.make();
  // Else it would wait for the tables.
  const first = place.start('--own-tables=false');
  await first.logged(inForce, 2);
  const second = place.start('--own-tables=false', '--ignore-other-instance');
  await second.logged('Another instance runs in this network namespace; ignoring it');
  await second.logged(inForce, 2);
  const other = await Place.make();
  await other.start().logged(inForce, 2);
});

test('a table with our name that another program created is replaced, and reported', async () => {
  const place = await Place.make();
  const nft = (text: string): Promise<string> => place.namespace.run('nft', ['-f', '-'], text);
  await nft('table ip fairlead { set mine { type mark; }; chain theirs { }; }\ntable ip6 fairlead');
  const words = 'Replacing a table of our name that another program created';
  const first = place.start();
  const { table, first: objects } = await first.logged(words);
  expect([table, objects]).toEqual(['ip fairlead', ['chain theirs', 'set mine']]);
  await first.logged(inForce, 2);
  expect(await place.ruleset()).not.toMatch(/mine|theirs/);
  first.kill('SIGTERM');
  await first.exitCode;
  const second = place.start();
  await second.logged(inForce, 2);
  expect(second.lines.filter(({ msg }) => msg === words)).toEqual([]);
});

test('--init-only checks, writes no rules and ends', async () => {
  const place = await Place.make();
  const program = place.start('--init-only');
  expect(await program.exitCode).toBe(0);
  expect(program.lines.at(-1)?.msg).toBe('System initialized and --init-only specified');
  expect(await place.ruleset()).toBe('');
});

test("--cleanup removes our rules and kube-proxy's; --dry-run lists them before", async () => {
  const place = await Place.make();
  const { namespace } = place;
  const program = place.start();
  await program.logged(inForce, 2);
  program.kill('SIGTERM');
  await program.exitCode;
  const rules = mixedRules(addresses.IPv4, 'DROP');
  await namespace.run('iptables-nft-restore', [], restoreText(rules, ['kube-proxy', 'others']));
  await namespace.run('nft', ['-f', '-'], nftablesRules('ip6', addresses.IPv6));

  const before = await place.ruleset();
  const listing = new Program(namespace, ['--cleanup', '--dry-run']);
  expect(await listing.exitCode).toBe(0);
  expect(await place.ruleset()).toBe(before);
  expect(listing.stdout).toMatch(/^table ip fairlead: only Fairlead's nftables mode uses/m);
  expect(listing.stdout).toMatch(/^table ip6 kube-proxy: only kube-proxy's/m);
  expect(listing.stdout).toMatch(/^chain ip nat KUBE-SVC-XPGD46QRK7WJZT7O: only/m);
  expect(listing.stdout).toMatch(/^rule ip filter FORWARD handle \d+: jumps to KUBE-FORWARD/m);

  const removing = new Program(namespace, ['--cleanup']);
  expect(await removing.exitCode).toBe(0);
  expect(removing.words).toBe('');
  const left = await place.ruleset();
  for (const gone of ['fairlead', 'table ip6', 'KUBE-SVC', 'KUBE-FORWARD', 'KUBE-SERVICES']) {
    expect(left).not.toContain(gone);
  }
  for (const others of ['KUBE-FIREWALL', 'DOCKER', 'cali-FORWARD', 'KUBE-IPTABLES-HINT']) {
    expect(left).toContain(others);
  }
  const again = new Program(namespace, ['--cleanup', '--dry-run']);
  expect([await again.exitCode, again.stdout]).toEqual([0, 'nothing to remove\n']);
});

test('mode userspace follows its file, keeps its addresses at the end, and is cleaned up', async () => {
  const place = await Place.make();
  const { namespace } = place;
  const listening = (): Promise<string> => namespace.run('ss', ['-Htln', 'sport', '=', ':80']);
  const bound = (): Promise<string> => namespace.run('ip', ['-brief', 'addr', 'show']);
  place.configure({ mode: 'userspace' });
  const program = place.start();
  await program.logged(inForce, 2);
  expect(await listening()).toContain('10.96.0.10:80');
  expect(await bound()).toMatch(/^fairlead0 .* 10\.96\.0\.10\/32/m);
  expect(await place.ruleset()).toBe('');

  place.configure({ mode: 'userspace', udpIdleTimeout: '2s' });
  const changed = await program.logged('Applied the changed configuration');
  expect(changed.fields).toEqual(['udpIdleTimeout']);
  await program.logged(inForce, 4);
  expect(await listening()).toContain('10.96.0.10:80');

  place.configure({ mode: 'nftables' });
  await program.logged('Took over from another mode; removed its objects');
  expect(await bound()).not.toContain('fairlead0');
  expect(await listening()).toBe('');
  place.configure({ mode: 'userspace' });
  await program.logged('Took over from another mode; removed its objects', 2);
  expect(await listening()).toContain('10.96.0.10:80');

  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  expect(program.words).toBe('');
  expect(await bound()).toContain('10.96.0.10/32');
  expect(await listening()).toBe('');
  const removing = new Program(namespace, ['--cleanup']);
  expect(await removing.exitCode).toBe(0);
  expect(removing.stdout).toContain('removed interface fairlead0\n');
  expect(await bound()).not.toContain('fairlead0');
});
