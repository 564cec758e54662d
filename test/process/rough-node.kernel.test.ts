/**
 * Nodes on which something is missing, full or wrong: what is served then, and afterwards.
 * docs/internals/reliability.md has the table.
 */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { ProblemList } from '../../src/ask/problems.ts';
import { POD_A_IP } from '../lab/addresses.ts';
import { buildRuntimeDefault, buildSetClock } from './native/build.ts';
import {
  type Circumstances,
  inForce,
  listens,
  Place,
  Program,
  temporaryDirectory,
  until,
} from './program.ts';

const within = (...words: readonly string[]): Circumstances => ({ within: words });

/** Runs the words of a shell, then the program. */
const after = (words: string): Circumstances => within('sh', '-ec', `${words}\nexec "$@"`, 'sh');

/** Serves, follows a change, and answers. */
async function serves(place: Place): Promise<void> {
  await place.serves('pod-a', 'pod-b');
  place.apply(['pod-b']);
  await place.serves('pod-b');
  place.apply(['pod-a', 'pod-b']);
  await place.serves('pod-a', 'pod-b');
  expect((await place.ask('/healthz')).status).toBe(200);
}

test('IPv6 that is disabled at the start is a problem, and is served once it is enabled', async () => {
  const place = await Place.make();
  const disable = (value: 0 | 1): Promise<string> =>
    place.namespace.run('sysctl', ['-qw', `net.ipv6.conf.all.disable_ipv6=${value}`]);
  const troubles = async (): Promise<string[]> => {
    const program = new Program(place.namespace, ['problems', '-o', 'json']);
    await program.exitCode;
    const { reasons } = JSON.parse(program.stdout) as ProblemList;
    return reasons.map(({ reason }) => reason).filter((one) => one === 'family_not_served');
  };
  await disable(1);
  place.start();
  await place.serves('pod-a', 'pod-b');
  await listens(place.namespace, 10_249);
  expect(await troubles()).toEqual(['family_not_served']);
  expect(await place.ruleset()).not.toContain(POD_A_IP.IPv6);
  await disable(0);
  const isServed = async (): Promise<boolean> =>
    (await place.ruleset()).includes(`[${POD_A_IP.IPv6}]`) ||
    (await place.ruleset()).includes(`${POD_A_IP.IPv6} . 8080`);
  await until(isServed, 'IPv6 is served');
  await place.serves('pod-a', 'pod-b');
  expect(await troubles()).toEqual([]);
});

test('silent connections use no file descriptor that is needed', async () => {
  const place = await Place.make();
  // Fewer than the bound of connections: they do run out.
  place.startUnder(within('prlimit', '--nofile=96:96'));
  await place.serves('pod-a', 'pod-b');
  const hold = `import { connect } from 'node:net';
    for (let i = 0; i < 400; i += 1) connect(10256, '127.0.0.1').on('error', () => {});
    setInterval(() => {}, 1000);
    setTimeout(() => console.log('held'), 500);`;
  const { name } = place.namespace;
  const node = [process.execPath, '--input-type=module', '--eval', hold];
  const holder = spawn('ip', ['netns', 'exec', name, ...node], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  onTestFinished(() => void holder.kill('SIGKILL'));
  await new Promise((resolve) => holder.stdout.once('data', resolve));
  place.apply(['pod-b']);
  await sleep(1500);
  // Manifests cannot be read without a file descriptor; what is in force stays.
  expect(await place.ruleset()).toContain('10.244.1.3 . 8080');
  holder.kill('SIGKILL');
  await place.serves('pod-b');
  place.apply(['pod-a', 'pod-b']);
  await serves(place);
});

test('a full disk removes no Service, and later changes are applied', async () => {
  const place = await Place.make();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', place.manifests]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', place.manifests]));
  place.apply(['pod-a', 'pod-b']);
  const log = join(place.manifests, 'log');
  const program = place.startUnder(after(`exec 2>${log}`), '-v=4');
  await place.serves('pod-a', 'pod-b');
  const filler = join(place.manifests, 'filler');
  const fill = (): void => writeFileSync(filler, 'x'.repeat(1 << 20));
  expect(fill).toThrow('ENOSPC');
  const cluster = join(place.manifests, 'cluster.json');
  const content = readFileSync(cluster, 'utf8');
  // What `cp` does: the old content is gone when the disk turns out to be full.
  writeFileSync(cluster, '');
  expect(() => writeFileSync(join(place.manifests, 'more'), 'x'.repeat(1 << 20))).toThrow('ENOSPC');
  expect(() => writeFileSync(cluster, content)).toThrow('ENOSPC');
  await sleep(500);
  await place.serves('pod-a', 'pod-b');
  expect((await place.ask('/healthz')).status).toBe(200);
  rmSync(filler);
  rmSync(join(place.manifests, 'more'));
  await serves(place);
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
  const lines = readFileSync(log, 'utf8').split('\n');
  expect(lines.at(-2)).toContain('Stopped; rules stay in place');
});

test('with a read-only root and /proc everything is served; sysctls are kept and reported', async () => {
  const place = await Place.make();
  place.configure({
    conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '5h', tcpCloseWaitTimeout: '0s' },
  });
  const readOnly = 'for at in / /proc; do mount -o remount,bind,ro "$at"; done; ! touch /fairlead';
  const program = place.startUnder(within('unshare', '--mount', ...after(readOnly).within!));
  const told = await program.logged('Could not set sysctl; leaving it unchanged');
  expect(told).toMatchObject({ level: 'warn', to: '18000' });
  await serves(place);
});

/**
 * Words of a shell by which every user may enter the folder of this checkout, which may be one of
 * `mktemp -d`. `ip netns exec` has made a mount namespace, so that only the program sees it.
 */
function readableCheckout(): string {
  const root = resolve(import.meta.dirname, '..', '..');
  const parent = dirname(root);
  if ((statSync(parent).mode & 0o001) !== 0) return ':';
  const stand = temporaryDirectory();
  chmodSync(stand, 0o755);
  const inside = join(stand, basename(root));
  mkdirSync(inside);
  return `mount --bind '${root}' '${inside}'; mount --rbind '${stand}' '${parent}'`;
}

test('CAP_NET_ADMIN alone, as root and as another user, is enough for rules, and root takes over with it', async () => {
  const place = await Place.make();
  for (const path of [place.manifests, join(place.config, '..')]) chmodSync(path, 0o755);
  const legacy = (...words: readonly string[]) =>
    place.namespace.run('iptables-legacy', ['-t', 'nat', ...words]);
  await legacy('-N', 'KUBE-SERVICES');
  await legacy('-A', 'OUTPUT', '-j', 'KUBE-SERVICES');
  const only = ['setpriv', '--no-new-privs', '--bounding-set=-all,+net_admin'];
  const root = place.startUnder(within(...only));
  await root.logged(inForce, 2);
  await serves(place);
  await until(async () => !(await legacy('-S')).includes('KUBE-'), "kube-proxy's chains are gone");
  root.kill('SIGTERM');
  expect(await root.exitCode).toBe(0);
  const ids = ['--reuid=65534', '--regid=65534', '--clear-groups'];
  const caps = ['--inh-caps=-all,+net_admin', '--ambient-caps=-all,+net_admin'];
  const readable = after(readableCheckout()).within!;
  const nobody = place.startUnder(within(...readable, ...only, ...ids, ...caps));
  await nobody.logged(inForce, 2);
  await serves(place);
});

test('without CAP_NET_ADMIN, with all others, the process ends and reports what is missing', async () => {
  const place = await Place.make();
  const program = place.startUnder(within('setpriv', '--bounding-set=-net_admin'));
  expect(await program.exitCode).toBe(1);
  expect(program.lines.at(-1)).toMatchObject({
    level: 'fatal',
    err: expect.stringMatching(/^CAP_NET_ADMIN is needed: /),
  });
  expect(await place.ruleset()).toBe('');
});

test('under the RuntimeDefault seccomp profile everything is served', async () => {
  const place = await Place.make();
  const filter = buildRuntimeDefault(temporaryDirectory());
  const alone = ['setpriv', '--bounding-set=-all,+net_admin'];
  place.startUnder(within(...alone, filter));
  await serves(place);
});

test('a clock that is set by hours, forth and back, changes nothing', async () => {
  const place = await Place.make();
  const clock = join(temporaryDirectory(), 'clock');
  writeFileSync(clock, '0');
  const preload = `LD_PRELOAD=${buildSetClock(temporaryDirectory())}`;
  place.startUnder(within('env', preload, `SET_CLOCK=${clock}`));
  await serves(place);
  for (const hours of [7, -7, 0]) {
    writeFileSync(clock, String(hours * 3600));
    const { body } = await place.ask('/healthz');
    const aheadMs = Date.parse(JSON.parse(body).currentTime) - Date.now();
    expect(Math.abs(aheadMs / 3_600_000 - hours)).toBeLessThan(0.1);
    await serves(place);
  }
});

test('a process that was stopped continues with the current state of the cluster', async () => {
  const place = await Place.make();
  const program = place.start();
  await place.serves('pod-a', 'pod-b');
  await listens(place.namespace, 10256);
  program.kill('SIGSTOP');
  place.apply(['pod-b']);
  // The kernel accepts the connection, and it takes all this time.
  await expect(place.ask('/healthz', 10256, 3)).rejects.toThrow();
  expect(await place.ruleset()).toContain('10.244.1.2 . 8080');
  program.kill('SIGCONT');
  await place.serves('pod-b');
  await until(async () => (await place.ask('/livez')).status === 200, 'it is well');
  place.apply(['pod-a', 'pod-b']);
  await serves(place);
});
