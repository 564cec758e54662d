/** A kernel that refuses: what is served then and afterwards. See docs/internals/reliability.md. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, test } from 'vitest';
import { type ActorName, addressOf, clusterIp } from '../lab/addresses.ts';
import { service, slices } from '../lab/objects.ts';
import { buildRoughKernel } from './native/build.ts';
import { endpointsOf, inForce, Place, type Program, temporaryDirectory, until } from './program.ts';

const modes = ['nftables', 'iptables'] as const;
type Mode = (typeof modes)[number];

interface Rough {
  readonly place: Place;
  readonly program: Program;
  /** Makes the kernel refuse from now on: the words of native/rough-kernel.c, '' = nothing. */
  readonly roughen: (words: string) => void;
}

async function start(mode: Mode): Promise<Rough> {
  const place = await Place.make();
  place.configure({ mode });
  const directory = temporaryDirectory();
  const file = join(directory, 'rough');
  const roughen = (words: string): void => writeFileSync(file, words);
  roughen('');
  const preload = `LD_PRELOAD=${buildRoughKernel(directory)}`;
  const program = place.startUnder({ within: ['env', preload, `ROUGH_KERNEL=${file}`] });
  await program.logged(inForce, 2);
  await serves(place, mode, 'pod-a', 'pod-b');
  return { place, program, roughen };
}

/** Where IPv4 connections to all Services of a place go, as other programs read it. */
async function endpoints(place: Place, mode: Mode): Promise<string[]> {
  if (mode === 'nftables') {
    return endpointsOf(await place.ruleset())
      .map(({ address }) => address)
      .sort();
  }
  const text = await place.namespace.run('iptables-nft-save', []);
  return [...text.matchAll(/--to-destination (\S+):8080/g)].map((match) => match[1]!).sort();
}

async function serves(place: Place, mode: Mode, ...pods: readonly ActorName[]): Promise<void> {
  const wanted = pods.map((pod) => addressOf(pod).IPv4!).sort();
  const served = async (): Promise<boolean> =>
    isDeepStrictEqual(await endpoints(place, mode), wanted);
  await until(served, `${wanted} are served`);
}

/** Lines of level error that are not failures to be retried. */
function complaints(program: Program): string[] {
  const errors = program.lines.filter(
    ({ level, retryMs }) => level === 'error' && retryMs === undefined,
  );
  return errors.map((line) => JSON.stringify(line));
}

describe.each(modes)('mode %s', (mode) => {
  test('EPERM: the rules in force stay, and changes are applied when it is over', async () => {
    const { place, program, roughen } = await start(mode);
    roughen('unprivileged');
    place.apply(['pod-b']);
    const { err } = await program.logged('Sync failed; reading kernel state before retrying', 3);
    expect(err).toContain('EPERM');
    await serves(place, mode, 'pod-a', 'pod-b');
    expect((await place.ask('/livez')).status).toBe(200);
    roughen('');
    await serves(place, mode, 'pod-b');
    place.apply(['pod-a', 'pod-b']);
    await serves(place, mode, 'pod-a', 'pod-b');
    await until(async () => (await place.ask('/healthz')).status === 200, 'it is healthy');
    expect(complaints(program)).toEqual([]);
  });

  test('ENOBUFS: answers of the kernel are lost, and changes are applied', async () => {
    const { place, program, roughen } = await start(mode);
    roughen('unheard');
    const other = service('other', { clusterIp: clusterIp(20) });
    place.apply(['pod-b'], other, ...slices('other', ['pod-c']));
    await serves(place, mode, 'pod-b', 'pod-c');
    place.apply(['pod-a', 'pod-b']);
    await serves(place, mode, 'pod-a', 'pod-b');
    roughen('');
    place.apply(['pod-b']);
    await serves(place, mode, 'pod-b');
    expect(complaints(program)).toEqual([]);
  });
});

test("EBUSY: a chain that another program's rule needs is emptied, and everything else continues", async () => {
  const mode = 'iptables';
  const { place, program } = await start(mode);
  const other = service('other', { clusterIp: clusterIp(20) });
  place.apply(['pod-a'], other, ...slices('other', ['pod-c']));
  await serves(place, mode, 'pod-a', 'pod-c');
  const rules = await place.namespace.run('iptables-nft-save', []);
  const chain = /-A KUBE-SERVICES .*default\/other.* -j (KUBE-SVC-\S+)/.exec(rules)?.[1];
  const iptables = (...words: readonly string[]): Promise<string> =>
    place.namespace.run('iptables-nft', ['-t', 'nat', ...words]);
  await iptables('-N', 'THEIRS');
  await iptables('-A', 'THEIRS', '-j', chain!);
  place.apply(['pod-b']);
  await serves(place, mode, 'pod-b');
  expect(await iptables('-S', chain!)).toBe(`-N ${chain}\n`);
  expect(complaints(program)).toEqual([]);
  await iptables('-F', 'THEIRS');
  place.apply(['pod-a', 'pod-b']);
  await serves(place, mode, 'pod-a', 'pod-b');
  const isGone = async (): Promise<boolean> => !(await iptables('-S')).includes(chain!);
  await until(isGone, 'what nobody needs is deleted');
  expect(complaints(program)).toEqual([]);
});
