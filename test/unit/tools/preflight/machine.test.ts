import { describe, expect, it } from 'vitest';
import { type Finding, worst } from '../../../../src/host/finding.ts';
import { ipvsMode } from '../../../../src/modes/ipvs/mode.ts';
import { thisMachine } from '../../../../src/tools/preflight/machine.ts';
import { checkPorts } from '../../../../src/tools/preflight/ports.ts';
import { checkPrivileges } from '../../../../src/tools/preflight/preflight.ts';
import {
  checkConntrack,
  checkReliances,
  checkSettings,
} from '../../../../src/tools/preflight/settings.ts';
import { configOf, load } from '../../config/support.ts';
import { machineRoot } from '../../host/machine.ts';

const netfilter = '/proc/sys/net/netfilter';

function config(...flags: readonly string[]) {
  return configOf(load(flags));
}

function machine(contents: Readonly<Record<string, string | undefined>>) {
  return thisMachine(machineRoot(contents));
}

function lines(findings: readonly Finding[]): string[] {
  return findings.map(({ level, check, text }) => `${level} ${check}: ${text}`);
}

it('preflight takes a file that it may not read for one that is not there', () => {
  // Also as root, a folder cannot be read as a file.
  expect(machine({ [`${netfilter}/nf_conntrack_max`]: '1000' }).read(netfilter)).toBeUndefined();
});

describe('preflight about connection tracking', () => {
  const files = (count: string, memory = '8000000') => ({
    [`${netfilter}/nf_conntrack_max`]: '1000',
    [`${netfilter}/nf_conntrack_count`]: count,
    '/sys/devices/system/cpu/online': '0-3',
    '/proc/meminfo': `MemTotal:       ${memory} kB\nMemFree: 1 kB`,
  });

  it('compares its use with the limit that a start sets, and with memory', () => {
    expect(lines(checkConntrack(config(), machine(files('1310'))))).toEqual([
      'ok conntrack capacity: 1310 of 131072 entries in use (1 %); a full table takes 40 MiB, 1 % of memory',
    ]);
    const [full] = checkConntrack(config(), machine(files('100000')));
    expect(full).toMatchObject({
      level: 'warning',
      text: '100000 of 131072 entries in use (76 %)',
    });
    const [large] = checkConntrack(config(), machine(files('0', '200000')));
    expect(large).toMatchObject({ level: 'warning', text: expect.stringContaining('20 % of mem') });
  });

  it('finds no limit where nf_conntrack_max is 0', () => {
    const unlimited = { ...files('900'), [`${netfilter}/nf_conntrack_max`]: '0' };
    expect(lines(checkConntrack(config('--conntrack-max-per-core=0'), machine(unlimited)))).toEqual(
      ['ok conntrack capacity: connection tracking is not loaded yet, or has no limit'],
    );
  });

  it('keeps the existing limit if the configuration does not set one', () => {
    const ours = config('--conntrack-max-per-core=0');
    const [found] = checkConntrack(ours, machine(files('900')));
    expect(found).toMatchObject({ level: 'warning', text: '900 of 1000 entries in use (90 %)' });
  });
});

describe('preflight about sysctls', () => {
  it('reports their desired and current values', () => {
    const ours = config('--proxy-mode=ipvs', '--ipvs-strict-arp', '--conntrack-max-per-core=0');
    const found = checkSettings(
      ours,
      ipvsMode,
      machine({
        '/proc/sys/net/ipv4/conf/all/arp_ignore': '0',
        '/proc/sys/net/ipv4/conf/all/arp_announce': '2',
      }),
    );
    const arp = lines(found).filter((line) => line.includes('arp_'));
    expect(arp).toEqual([
      'ok net.ipv4.conf.all.arp_ignore: is 0, expected 1: set at the start',
      'ok net.ipv4.conf.all.arp_announce: is 2, as expected',
    ]);
    expect(lines(found)).toContain(
      'warning net.ipv4.vs.conntrack: expected 1, but this kernel has no such setting',
    );
  });

  it('checks those that Fairlead depends on', () => {
    const forward = { '/proc/sys/net/ipv4/ip_forward': '1' };
    expect(lines(checkReliances(config(), machine(forward)))).toEqual([
      'ok net.ipv4.ip_forward: is 1',
    ]);
    const bridged = { ...forward, '/sys/class/net/cni0/bridge/bridge_id': '8000' };
    expect(lines(checkReliances(config(), machine(bridged)))[1]).toBe(
      'warning net.bridge.bridge-nf-call-iptables: is not there: a pod gets no answer from an endpoint on the same bridge (cni0)',
    );
    const ipv6 = {
      '/proc/net/if_inet6': [
        '00000000000000000000000000000001 01 80 10 80       lo',
        'fd000000000000000000000000000001 02 40 00 80     eth0',
      ].join('\n'),
      '/proc/sys/net/ipv6/conf/all/forwarding': '0',
    };
    expect(lines(checkReliances(config(), machine({ ...forward, ...ipv6 })))[1]).toMatch(
      /^warning net.ipv6.conf.all.forwarding: is 0/,
    );
  });
});

describe('preflight about ports', () => {
  const head =
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode';
  const row = (local: string, state = '0A', inode = 77) =>
    `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000     0        0 ${inode} 1`;
  const taken = (...rows: string[]) => machine({ '/proc/net/tcp': [head, ...rows].join('\n') });

  it('reports those in use, at an overlapping address', () => {
    // 127.0.0.1:10249, as a little-endian machine writes it.
    const found = checkPorts(config(), taken(row('0100007F:2809')));
    expect(lines(found)).toEqual([
      'ok port 10256: 0.0.0.0:10256 is free',
      'warning port 10249: 127.0.0.1:10249 is taken by a process that /proc does not show',
      'ok node ports: no process listens on one',
    ]);
    const elsewhere = checkPorts(config(), taken(row('0200007F:2809')));
    expect(worst(elsewhere)).toBe('ok');
    const connected = checkPorts(config(), taken(row('0100007F:2809', '01')));
    expect(worst(connected)).toBe('ok');
  });

  it('reports those in the range of node ports', () => {
    const found = checkPorts(config(), taken(row('00000000:7918')));
    expect(lines(found)[2]).toBe(
      'warning node ports: in use: 31000 by a process that /proc does not show',
    );
  });
});

describe('preflight about privileges', () => {
  it('reports a problem if CAP_NET_ADMIN is missing', () => {
    const of = (mask: string) =>
      machine({ '/proc/self/status': `Name:\tnode\nCapEff:\t${mask}\n` });
    expect(checkPrivileges(of('0000000000001000'))[0]?.level).toBe('ok');
    expect(checkPrivileges(of('000001ffffffefff'))[0]?.level).toBe('problem');
  });

  it('names the holder of the lock of iptables-legacy', () => {
    const root = machineRoot({ '/run/xtables.lock': '' });
    const inode = thisMachine(root).inode('/run/xtables.lock');
    const held = machineRoot({
      '/proc/locks': `1: FLOCK  ADVISORY  WRITE 4711 00:19:${inode} 0 EOF`,
    });
    const both = { ...thisMachine(held), inode: thisMachine(root).inode };
    expect(lines(checkPrivileges(both)).at(-1)).toBe(
      'warning /run/xtables.lock: process 4711 holds it',
    );
    expect(lines(checkPrivileges(thisMachine(root))).at(-1)).toBe(
      'ok /run/xtables.lock: no process holds it',
    );
  });
});
