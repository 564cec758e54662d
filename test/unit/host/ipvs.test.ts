import { describe, expect, it } from 'vitest';
import { hostFiles } from '../../../src/host/files.ts';
import { NodeFacts } from '../../../src/host/node-facts.ts';
import { type SettingChange, type SysctlObserver, setSysctls } from '../../../src/host/sysctls.ts';
import { ipvsMode } from '../../../src/modes/ipvs/mode.ts';
import type { Sysctl } from '../../../src/modes/sysctl.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { address, node } from '../state/build.ts';
import { contentOf, machineRoot, settings } from './machine.ts';

const vs = (name: string): string => `/proc/sys/net/ipv4/vs/${name}`;
const all = (name: string): string => `/proc/sys/net/ipv4/conf/all/${name}`;
const forward = '/proc/sys/net/ipv4/ip_forward';

const untouched = {
  [vs('conntrack')]: '0\n',
  [vs('conn_reuse_mode')]: '1\n',
  [vs('expire_nodest_conn')]: '0\n',
  [vs('expire_quiescent_template')]: '0\n',
  [forward]: '1\n',
  [all('arp_ignore')]: '0\n',
  [all('arp_announce')]: '0\n',
};

function wanted(strictARP: boolean, kernel: string): readonly Sysctl[] {
  return ipvsMode.sysctls!({ strictARP, localhostNodePorts: false, kernel });
}

/** Paths and values of what is written. */
function written(strictARP: boolean, kernel: string): Record<string, string> {
  const root = machineRoot(untouched);
  const changes: Record<string, string> = {};
  const set: SysctlObserver['set'] = ({ path, from, to }) => {
    if (from !== to) changes[path] = to;
  };
  setSysctls(wanted(strictARP, kernel), hostFiles(root), { set });
  for (const [path, to] of Object.entries(changes)) expect(contentOf(root, path)).toBe(to);
  return changes;
}

describe('the sysctls of ipvs mode', () => {
  const usual = {
    [vs('conntrack')]: '1',
    [vs('expire_nodest_conn')]: '1',
    [vs('expire_quiescent_template')]: '1',
  };

  it('are written if they differ, and each is reported', () => {
    expect(written(false, '6.12.1')).toEqual(usual);
  });

  it('are reported if they are correct already', () => {
    const root = machineRoot({ ...untouched, [vs('conntrack')]: '1\n' });
    const told: SettingChange[] = [];
    const set = (setting: SettingChange) => told.push(setting);
    setSysctls(wanted(false, '6.12.1'), hostFiles(root), { set });
    expect(told).toEqual([
      { path: vs('conntrack'), from: '1', to: '1' },
      { path: vs('expire_nodest_conn'), from: '0', to: '1' },
      { path: vs('expire_quiescent_template'), from: '0', to: '1' },
      { path: forward, from: '1', to: '1' },
    ]);
  });

  it('include others with strictARP, and on kernels that delay clients', () => {
    const strict = { ...usual, [all('arp_ignore')]: '1', [all('arp_announce')]: '2' };
    expect(written(true, '5.9.0')).toEqual(strict);
    expect(written(false, '5.8.18-generic')).toEqual({ ...usual, [vs('conn_reuse_mode')]: '0' });
  });

  it('fail the start, with the file and its purpose, if they cannot be written', () => {
    const files = hostFiles(machineRoot({ [forward]: '1\n' }));
    expect(() => setSysctls(wanted(false, '6.12.1'), files, { set: () => {} })).toThrow(
      /^could not set up IPVS: .*vs\/conntrack to 1: .*ENOENT.* \(masquerade needs .*\)$/,
    );
  });
});

describe('the environment of this node in ipvs mode', () => {
  it('has its addresses one by one, for node ports, and those that Services must not claim', () => {
    const state = new ClusterState();
    state.apply({ kind: 'node', node: node({ addresses: [address('203.0.113.7')] }) });
    const facts = new NodeFacts({
      mode: ipvsMode,
      settings,
      state,
      interfaces: () => ['127.0.0.1', '10.0.0.5', '::1', 'fe80::1', 'fd00::5'].map(address),
    });
    expect(facts.environment('IPv4')).toMatchObject({
      nodePortAddresses: [address('10.0.0.5')],
      hostAddresses: ['127.0.0.1', '10.0.0.5', '203.0.113.7'].map(address),
    });
    expect(facts.environment('IPv6').nodePortAddresses).toEqual([address('fd00::5')]);
    expect(facts.environment('IPv4')).toBe(facts.environment('IPv4'));
  });
});
