/**
 * Versions take turns in mode ipvs, which only the virtual machines are sure to have. Without git's
 * history there is no version before this one; scripts/test-vm says so.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test as anyTest, expect } from 'vitest';
import { POD_A_IP } from '../lab/addresses.ts';
import { until } from '../process/program.ts';
import { makePlace, start, startTraffic, stop, takeTurns, virtualServices } from './versions.ts';

const built = join(import.meta.dirname, '../../build/previous/built');
const test = anyTest.skipIf(!existsSync(built));

test('versions alternate without a failed connection, and keep all virtual services', () =>
  takeTurns('ipvs'));

test('virtual services that only a newer version has are removed by a rollback', async () => {
  const place = await makePlace('ipvs');
  const running = await start(place, 'current');
  const endTraffic = await startTraffic(place);
  const { namespace } = place;
  const before = await virtualServices(place);
  await stop(running);
  // Recorded as ours, with a set that the version before does not know.
  await namespace.run('ip', ['address', 'add', '10.96.0.99/32', 'dev', 'kube-ipvs0']);
  const future = `
    add set ip fairlead-ipvs future-set { type ipv4_addr; elements = { 192.0.2.7 }; }
    add element ip fairlead-ipvs services { 10.96.0.99 . tcp . 80 }`;
  await namespace.run('nft', ['-f', '-'], future);
  const added = `-A -t 10.96.0.99:80 -s wrr\n-a -t 10.96.0.99:80 -r ${POD_A_IP.IPv4}:8080 -m -w 1\n`;
  await namespace.run('ipvsadm', ['-R'], added);
  await start(place, 'previous');
  await until(async () => (await virtualServices(place)) === before, 'the service is removed');
  const isGone = async () => {
    const addresses = await namespace.run('ip', ['-o', 'address', 'show', 'dev', 'kube-ipvs0']);
    const rules = await namespace.run('nft', ['list', 'ruleset']);
    return !addresses.includes('10.96.0.99') && !/future-set|10\.96\.0\.99/.test(rules);
  };
  await until(isGone, 'its address and its elements are removed');
  expect((await endTraffic()).failed).toEqual([]);
});
