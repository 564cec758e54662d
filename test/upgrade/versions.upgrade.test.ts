/**
 * The version before this one (build/previous, made by scripts/test-upgrade) and this one take
 * turns under traffic, in both directions.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { CLUSTER_CIDR, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { Place, type Program, until } from '../process/program.ts';
import type { Traffic } from './traffic-main.ts';

const root = resolve(import.meta.dirname, '../..');
const versions = {
  previous: join(root, 'build/previous/dist/main.js'),
  current: join(root, 'dist/main.js'),
} as const;
type Version = keyof typeof versions;

const frontend = '10.96.0.10';
/** That of a pod that is no endpoint, so that nothing is masqueraded. */
const client = '10.244.1.9';

beforeAll(() => {
  if (!existsSync(versions.previous)) throw new Error('run sh scripts/test-upgrade');
});

/** A node whose two pods are addresses of its own. */
async function makePlace(mode: string): Promise<Place> {
  const place = await Place.make();
  place.configure({ mode, clusterCIDR: CLUSTER_CIDR.IPv4 });
  const run = (...words: readonly string[]) => place.namespace.run('ip', words);
  for (const address of [client, POD_A_IP.IPv4, POD_B_IP.IPv4]) {
    await run('address', 'add', `${address}/32`, 'dev', 'lo');
  }
  await run('route', 'add', '10.96.0.0/16', 'dev', 'lo', 'src', client);
  return place;
}

/** Starts a version, and waits until it is ready. Log messages differ between versions. */
async function start(place: Place, version: Version): Promise<Program> {
  const program = place.startUnder({ main: versions[version] });
  const isReady = () =>
    place.ask('/readyz').then(
      ({ status }) => status === 200,
      // It does not listen yet.
      () => false,
    );
  await until(isReady, `${version} is ready`);
  return program;
}

async function stop(program: Program): Promise<void> {
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
}

/** Starts traffic. Returns what ends it. */
async function startTraffic({ namespace }: Place): Promise<() => Promise<Traffic>> {
  const file = join(import.meta.dirname, 'traffic-main.ts');
  const words = [file, frontend, POD_A_IP.IPv4, POD_B_IP.IPv4];
  const argv = ['netns', 'exec', namespace.name, process.execPath, ...words];
  const child = spawn('ip', argv, { stdio: ['ignore', 'pipe', 'inherit'] });
  const closed = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await closed;
  });
  let said = '';
  child.stdout.on('data', (data) => {
    said += String(data);
  });
  await until(async () => said.startsWith('ready\n'), 'traffic runs');
  return async () => {
    child.kill('SIGTERM');
    await closed;
    return JSON.parse(said.slice('ready\n'.length)) as Traffic;
  };
}

/** All rules with their handles, which change when an object is made anew. */
async function ruleset({ namespace }: Place): Promise<string> {
  const text = await namespace.run('nft', ['--handle', 'list', 'ruleset']);
  // Owners and counters of packets differ from moment to moment.
  return text
    .replaceAll(/^\s*flags (owner,)?persist\b.*\n/gm, '')
    .replaceAll(/^\s*flags owner.*\n/gm, '')
    .replaceAll(/ progname \S+/g, '')
    .replaceAll(/counter packets \d+ bytes \d+/g, 'counter')
    .replaceAll(/ expires \w+/g, '');
}

/** Objects that the running version has written to the kernel since it started. */
async function writes(place: Place): Promise<number> {
  const { body } = await place.ask('/metrics', 10249);
  const counts = body.matchAll(/^fairlead_kernel_writes_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

describe.each(['nftables', 'iptables'])('mode %s', (mode) => {
  test('versions alternate without a failed connection, and write nothing', async () => {
    const place = await makePlace(mode);
    let running = await start(place, 'previous');
    const endTraffic = await startTraffic(place);
    const first = await ruleset(place);
    for (const version of ['current', 'previous', 'current'] as const) {
      await stop(running);
      running = await start(place, version);
      expect(await writes(place), version).toBe(0);
      expect(await ruleset(place), version).toBe(first);
    }
    const { connections, failed, isOpen, carried } = await endTraffic();
    expect(failed).toEqual([]);
    expect(isOpen).toBe(true);
    expect(connections).toBeGreaterThan(100);
    expect(carried).toBeGreaterThan(50);
  });

  test('changes while no version ran are written by the next one, whichever it is', async () => {
    const place = await makePlace(mode);
    let running = await start(place, 'current');
    for (const [version, pod] of [
      ['previous', 'pod-b'],
      ['current', 'pod-a'],
    ] as const) {
      await stop(running);
      place.apply([pod]);
      running = await start(place, version);
      const endTraffic = await startTraffic(place);
      const { failed } = await endTraffic();
      expect(failed).toEqual([]);
      expect(await writes(place)).toBeGreaterThan(0);
      const other = pod === 'pod-a' ? POD_B_IP : POD_A_IP;
      const isGone = async () => !(await ruleset(place)).includes(other.IPv4);
      await until(isGone, `${version} has removed ${other.IPv4}`);
    }
  });
});

test('objects that only a newer version creates are removed by a rollback, and do no harm', async () => {
  const place = await makePlace('nftables');
  const running = await start(place, 'current');
  const endTraffic = await startTraffic(place);
  const before = await ruleset(place);
  await stop(running);
  const future = `
    add map ip fairlead future-pools { type ipv4_addr . inet_proto . inet_service : verdict; }
    add set ip fairlead future-set { type ipv4_addr; elements = { 192.0.2.7 }; }
    add chain ip fairlead future
    add rule ip fairlead future ip daddr @future-set drop`;
  await place.namespace.run('nft', ['-f', '-'], future);
  await start(place, 'previous');
  const named = (text: string) => text.match(/\b(chain|map|set) \S+/g);
  const isAsBefore = async () => isDeepStrictEqual(named(await ruleset(place)), named(before));
  await until(isAsBefore, 'the objects are removed');
  expect((await endTraffic()).failed).toEqual([]);
});
