import { expect, it } from 'vitest';
import { settingsLines } from '../../../src/cli/dry-run.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import { thisMachine } from '../../../src/tools/preflight/machine.ts';
import { configOf, load } from '../config/support.ts';
import { machineRoot } from '../host/machine.ts';

it('prints settings that a start would change or cannot change, and no right ones', () => {
  const config = configOf(
    load(['--proxy-mode=ipvs', '--ipvs-strict-arp', '--conntrack-max-per-core=0']),
  );
  const machine = thisMachine(
    machineRoot({
      '/proc/sys/net/ipv4/conf/all/arp_ignore': '0',
      '/proc/sys/net/ipv4/conf/all/arp_announce': '2',
    }),
  );
  const lines = settingsLines(config, ipvsMode, machine);
  expect(lines).toContain(
    'Settings: net.ipv4.conf.all.arp_ignore: is 0, expected 1: set at the start',
  );
  expect(lines.filter((line) => line.includes('net.ipv4.vs.conntrack:'))).toEqual([
    expect.stringMatching(
      /^Settings: net\.ipv4\.vs\.conntrack: expected 1, but .* → load the module /,
    ),
  ]);
  expect(lines.filter((line) => line.includes('arp_announce'))).toEqual([]);
});
