import { describe, expect, it } from 'vitest';
import type { NodePortAddresses } from '../../../src/config/settings/makers.ts';
import { isConntrackLiberal } from '../../../src/host/conntrack.ts';
import { hostFiles } from '../../../src/host/files.ts';
import {
  hasLocalhostNodePorts,
  listensOnLocalhost,
} from '../../../src/host/localhost-node-ports.ts';
import { type SettingChange, setSysctls } from '../../../src/host/sysctls.ts';
import { iptablesMode } from '../../../src/modes/iptables/mode.ts';
import { cidr } from '../state/build.ts';
import { contentOf, machine, machineRoot } from './machine.ts';

const routeLocalnet = '/proc/sys/net/ipv4/conf/all/route_localnet';

function only(...texts: string[]): NodePortAddresses {
  return { kind: 'listed', cidrs: texts.map(cidr), primary: false };
}

function wanted(localhostNodePorts: boolean) {
  return iptablesMode().sysctls!({ localhostNodePorts, strictARP: false, kernel: '6.12.1' });
}

describe('node ports on localhost', () => {
  it.for([
    ['all addresses', { kind: 'all' }, true],
    ['the primary address', { kind: 'listed', cidrs: [], primary: true }, false],
    ['loopback', only('192.168.0.0/16', '127.0.0.0/8'), true],
    ['a wider block', only('0.0.0.0/0'), true],
    ['other blocks', only('192.168.0.0/16'), false],
    ['blocks of the other family', only('fd00::/8'), true],
  ] as const)('with node ports on %s', ([, nodePortAddresses, expected]) => {
    const has = (localhostNodePorts: boolean, family: 'IPv4' | 'IPv6'): boolean =>
      hasLocalhostNodePorts({ iptables: { localhostNodePorts }, nodePortAddresses }, family);
    expect(has(true, 'IPv4')).toBe(expected);
    expect(has(false, 'IPv4')).toBe(false);
    expect(has(true, 'IPv6')).toBe(false);
  });

  it.for([
    ['all addresses', { kind: 'all' }, []],
    ['the primary address', { kind: 'listed', cidrs: [], primary: true }, []],
    ['named loopback addresses', only('127.0.0.0/8', '::1/128'), ['IPv4', 'IPv6']],
    ['one of them', only('10.0.0.0/8', '::1/128'), ['IPv6']],
    ['all addresses as blocks', only('0.0.0.0/0', '::/0'), []],
    ['these and loopback', only('0.0.0.0/0', '127.0.0.1/32'), ['IPv4']],
    ['other blocks', only('192.168.0.0/16', 'fd00::/8'), []],
  ] as const)('by sockets, with node ports on %s', ([, nodePortAddresses, expected]) => {
    const served = (gate: boolean, localhost: readonly ('IPv4' | 'IPv6')[]) =>
      (['IPv4', 'IPv6'] as const).filter((family) =>
        listensOnLocalhost(
          { featureGates: { KubeProxyNFTablesLocalhostNodePorts: gate }, nodePortAddresses },
          { localhost },
          family,
        ),
      );
    expect(served(true, [])).toEqual(expected);
    expect(served(false, [])).toEqual([]);
    // Where the mode itself does it.
    expect(served(true, ['IPv4'])).toEqual(expected.filter((family) => family === 'IPv6'));
  });

  it('set route_localnet, which is reported once', () => {
    const root = machineRoot({ [routeLocalnet]: '0\n' });
    const changes: SettingChange[] = [];
    for (let i = 0; i < 2; i += 1) {
      setSysctls(wanted(true), hostFiles(root), { set: (change) => changes.push(change) });
    }
    expect(contentOf(root, routeLocalnet)).toBe('1');
    expect(changes).toEqual([{ path: routeLocalnet, from: '0', to: '1' }]);
  });

  it('cause an error with the remedy if sysctls cannot be set', () => {
    expect(wanted(false)).toEqual([]);
    expect(() => setSysctls(wanted(true), machine({}), { set: () => {} })).toThrow(
      /route_localnet to 1: .*localhostNodePorts: false/,
    );
  });
});

describe('connection tracking for node ports on localhost', () => {
  it.for([
    [undefined, false],
    ['0\n', false],
    ['1\n', true],
  ] as const)('with nf_conntrack_tcp_be_liberal %o', ([text, liberal]) => {
    const path = '/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal';
    expect(isConntrackLiberal(machine({ [path]: text }))).toBe(liberal);
  });
});
