/** Versions take turns under traffic, in both directions, in the modes that this kernel has. */
import { isDeepStrictEqual } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { until } from '../process/program.ts';
import {
  changeWhileNoneRuns,
  makePlace,
  needsPrevious,
  ruleset,
  start,
  startTraffic,
  stop,
  takeTurns,
} from './versions.ts';

beforeAll(needsPrevious);

describe.each(['nftables', 'iptables'])('mode %s', (mode) => {
  test('versions alternate without a failed connection, and write nothing', () => takeTurns(mode));

  test('changes while no version ran are written by the next one, whichever it is', () =>
    changeWhileNoneRuns(mode));
});

test('mode userspace: each version serves what the other has served, and leaves nothing', async () => {
  const place = await makePlace('userspace');
  for (const version of ['previous', 'current', 'previous', 'current'] as const) {
    const running = await start(place, version);
    const endTraffic = await startTraffic(place);
    const { failed, isOpen } = await endTraffic();
    expect({ version, failed, isOpen }).toEqual({ version, failed: [], isOpen: true });
    await stop(running);
    // Sockets end with their process, so that there is nothing for the other to take over.
    expect(await ruleset(place)).toBe('');
    expect(await place.namespace.run('ss', ['-Hltn'])).toBe('');
  }
});

describe.each(['previous', 'current'] as const)('a rollback to the %s version', (version) => {
  test('removes rules and chains of Services that a newer one has left in mode iptables', async () => {
    const place = await makePlace('iptables');
    const running = await start(place, 'current');
    const endTraffic = await startTraffic(place);
    const saved = async () => {
      const text = await place.namespace.run('iptables-nft-save', ['-t', 'nat']);
      return text.replaceAll(/^#.*\n/gm, '').replaceAll(/\[\d+:\d+\]/g, '');
    };
    const before = await saved();
    await stop(running);
    const future = `*nat
:KUBE-FUTURE - [0:0]
:KUBE-SVC-ABCDEFGHIJKLMNOP - [0:0]
-A KUBE-FUTURE -p tcp -j DNAT --to-destination 192.0.2.7
-A KUBE-SVC-ABCDEFGHIJKLMNOP -j KUBE-FUTURE
-I KUBE-SERVICES 1 -d 10.96.0.99/32 -j KUBE-SVC-ABCDEFGHIJKLMNOP
-I KUBE-SERVICES 1 -d 10.96.0.98/32 -j KUBE-FUTURE
COMMIT
`;
    await place.namespace.run('iptables-nft-restore', ['--noflush'], future);
    await start(place, version);
    // A chain whose name the version does not know stays, and nothing leads to it.
    const known = async () => (await saved()).replaceAll(/^(:|-A )KUBE-FUTURE .*\n/gm, '');
    await until(async () => (await known()) === before, 'the rules are removed');
    expect((await endTraffic()).failed).toEqual([]);
  });

  test('removes chains, maps, sets and rules of the table in mode nftables', async () => {
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
    await start(place, version);
    const named = (text: string) => text.match(/\b(chain|map|set) \S+/g);
    const isAsBefore = async () => isDeepStrictEqual(named(await ruleset(place)), named(before));
    await until(isAsBefore, 'the objects are removed');
    expect((await endTraffic()).failed).toEqual([]);
  });
});
