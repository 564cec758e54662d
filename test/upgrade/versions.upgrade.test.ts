/** Versions take turns under traffic, in both directions, in the modes that this kernel has. */
import { isDeepStrictEqual } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { until } from '../process/program.ts';
import {
  changeWhileNoneRuns,
  hasPrevious,
  makePlace,
  ruleset,
  start,
  startTraffic,
  stop,
  takeTurns,
} from './versions.ts';

beforeAll(() => {
  if (!hasPrevious()) throw new Error('run sh scripts/test-upgrade');
});

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
