/**
 * The version before this one (build/previous, made by scripts/test-upgrade) and this one, and the
 * node on which they take turns.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { CLUSTER_CIDR, POD_A_IP, POD_B_IP } from '../lab/addresses.ts';
import { becomesReady, Place, type Program, until } from '../process/program.ts';
import type { Traffic } from './traffic-main.ts';

const root = resolve(import.meta.dirname, '../..');
/** The programs. `other-room`: the version before, with smaller maps of connect-time translation. */
const mains = {
  previous: join(root, 'build/previous/dist/main.js'),
  'other-room': join(root, 'build/previous/other-room/main.js'),
  current: join(root, 'dist/main.js'),
} as const;
export type Version = keyof typeof mains;

const frontend = '10.96.0.10';
/** The address of a pod that is not an endpoint, so that nothing is masqueraded. */
const client = '10.244.1.9';

/** Rejects where scripts/previous-version has not built the version before. */
export function needsPrevious(): void {
  if (!existsSync(mains['other-room'])) throw new Error('run sh scripts/previous-version');
}

/** Whether both versions have the same addon; see scripts/previous-version. */
export function sharesAddon(): boolean {
  return readFileSync(join(root, 'build/previous/built'), 'utf8').endsWith(' shared\n');
}

/** A node whose two pods are addresses of its own. */
export async function makePlace(mode: string): Promise<Place> {
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
export async function start(
  place: Place,
  version: Version,
  within: readonly string[] = [],
): Promise<Program> {
  const program = place.startUnder({ main: mains[version], within });
  await becomesReady(place.namespace);
  return program;
}

export async function stop(program: Program): Promise<void> {
  program.kill('SIGTERM');
  expect(await program.exitCode).toBe(0);
}

/** Starts traffic. Returns what ends it. */
export async function startTraffic({ namespace }: Place): Promise<() => Promise<Traffic>> {
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

/**
 * All rules with their handles, which change when an object is created again; without the sign in
 * kube-proxy's table, which the version before does not have.
 */
export async function ruleset({ namespace }: Place): Promise<string> {
  const text = await namespace.run('nft', ['--handle', 'list', 'ruleset']);
  // Owners and counters of packets differ from moment to moment.
  return text
    .replaceAll(/^table ip6? kube-proxy \{[\s\S]*?^\}\n/gm, '')
    .replaceAll(/^\s*flags (owner,)?persist\b.*\n/gm, '')
    .replaceAll(/^\s*flags owner.*\n/gm, '')
    .replaceAll(/ progname \S+/g, '')
    .replaceAll(/counter packets \d+ bytes \d+/g, 'counter')
    .replaceAll(/ expires \w+/g, '');
}

/**
 * What both versions have in the kernel. Of mode ipvs that is virtual services and their addresses,
 * since the version before has other rules.
 */
async function programmed(place: Place, mode: string): Promise<string> {
  if (mode !== 'ipvs') return ruleset(place);
  return [await virtualServices(place), await place.namespace.run('ip', ofDevice)].join('\n');
}

const ofDevice = ['-o', 'address', 'show', 'dev', 'kube-ipvs0'] as const;

/** As `ipvsadm` saves them. */
export function virtualServices({ namespace }: Place): Promise<string> {
  return namespace.run('ipvsadm', ['-Sn']);
}

/** Objects that the running version has written to the kernel since it started. */
export async function writes(place: Place): Promise<number> {
  const { body } = await place.ask('/metrics', 10249);
  const counts = body.matchAll(/^fairlead_kernel_writes_total\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** previous → current → previous → current: no connection fails, and no object is replaced. */
export async function takeTurns(mode: string): Promise<void> {
  const place = await makePlace(mode);
  let running = await start(place, 'previous');
  const endTraffic = await startTraffic(place);
  const first = await programmed(place, mode);
  for (const version of ['current', 'previous', 'current'] as const) {
    await stop(running);
    running = await start(place, version);
    if (mode !== 'ipvs') expect(await writes(place), version).toBe(0);
    expect(await programmed(place, mode), version).toBe(first);
  }
  const { connections, failed, isOpen, carried } = await endTraffic();
  expect(failed).toEqual([]);
  expect(isOpen).toBe(true);
  expect(connections).toBeGreaterThan(100);
  expect(carried).toBeGreaterThan(50);
}

/** An endpoint takes the place of the others while neither runs, in both directions. */
export async function changeWhileNoneRuns(mode: string): Promise<void> {
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
}
