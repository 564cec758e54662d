/** Each rule about the machine: what it finds, and where it finds nothing. */
import { expect, it } from 'vitest';
import { findingText } from '../../../src/host/finding.ts';
import { checkMachine, type MachineUse } from '../../../src/host/machine-checks.ts';
import { filesOf } from './machine.ts';

const forwarding = {
  '/proc/sys/net/ipv4/ip_forward': '1',
  '/proc/sys/net/ipv6/conf/all/forwarding': '1',
};
const filters = {
  '/proc/sys/net/bridge/bridge-nf-call-iptables': '1',
  '/proc/sys/net/bridge/bridge-nf-call-ip6tables': '1',
};
const net = '/sys/class/net';
const bridge = (name: string, ports: Readonly<Record<string, string>> = {}) => ({
  [`${net}/${name}/bridge/bridge_id`]: '8000.0',
  ...Object.fromEntries(
    Object.entries(ports).map(([port, mode]) => [`${net}/${name}/brif/${port}/hairpin_mode`, mode]),
  ),
});
const right = {
  ...forwarding,
  ...filters,
  ...{ ...bridge('cni0', { veth1: '1', veth2: '1' }), ...bridge('docker0', { veth9: '0' }) },
};
const use: MachineUse = {
  families: ['IPv4', 'IPv6'],
  podDevices: new Set(['cni0']),
  isTracked: true,
  isServing: true,
};

type Files = Readonly<Record<string, string>>;

function found(files: Files, as: Partial<MachineUse> = {}): string[] {
  return checkMachine(filesOf({ ...right, ...files }), { ...use, ...as })
    .filter(({ level }) => level !== 'ok')
    .map((one) => `${one.level}: ${findingText(one)}`);
}

const noForwarding =
  'is 0: the node forwards no packets of pods to endpoints; set it to 1, as network plugins do when they start';
const noAnswer =
  'a pod gets no answer from an endpoint on the same bridge (cni0); load br_netfilter and set it to 1, unless pods have routes through the node alone';

it.each<[string, Files, string]>([
  [
    'no forwarding',
    { '/proc/sys/net/ipv4/ip_forward': '0' },
    `problem: net.ipv4.ip_forward ${noForwarding}`,
  ],
  [
    'no forwarding of IPv6',
    { '/proc/sys/net/ipv6/conf/all/forwarding': '0' },
    `problem: net.ipv6.conf.all.forwarding ${noForwarding}`,
  ],
  [
    'netfilter that does not see packets within the bridge',
    { '/proc/sys/net/bridge/bridge-nf-call-iptables': '0' },
    `warning: net.bridge.bridge-nf-call-iptables is 0: ${noAnswer}`,
  ],
  [
    'the same, of IPv6',
    { '/proc/sys/net/bridge/bridge-nf-call-ip6tables': '0' },
    `warning: net.bridge.bridge-nf-call-ip6tables is 0: ${noAnswer}`,
  ],
  [
    'ports of the bridge without hairpin mode',
    bridge('cni0', { veth1: '0', veth2: '1', veth3: '0' }),
    'warning: bridge cni0 sends nothing back by the port that it came by (hairpin_mode is 0: veth1, veth3): pods there do not reach themselves through a Service; set hairpinMode of the network plugin, now bridge link set dev veth1 hairpin on',
  ],
])('it is found: %s', (_, files, finding) => {
  expect(found(files)).toEqual([finding]);
});

const off = { '/proc/sys/net/bridge/bridge-nf-call-iptables': '0' };

it.each<[string, Files, Partial<MachineUse>]>([
  ['all is right', {}, {}],
  ['no Services', { ...off, ...bridge('cni0', { veth1: '0' }) }, { families: [] }],
  ['a family without Services', { '/proc/sys/net/ipv4/ip_forward': '0' }, { families: ['IPv6'] }],
  ['pods whose connections are translated when they are made', off, { isTracked: false }],
  [
    'a bridge with a setting of its own',
    { ...off, [`${net}/cni0/bridge/nf_call_iptables`]: '1' },
    {},
  ],
  ['a bridge whose ports are isolated', { ...off, [`${net}/cni0/brif/veth1/isolated`]: '1' }, {}],
  ['routes to pods without a bridge', off, { podDevices: new Set(['flannel.1']) }],
  [
    'a bridge that the node sees all packets of',
    { ...bridge('cni0', { veth1: '0' }), [`${net}/cni0/flags`]: '0x1103' },
    {},
  ],
])('nothing is found: %s', (_, files, as) => {
  expect(found(files, as)).toEqual([]);
});

it('where Services are not in force, or the addresses of pods not known, all bridges are warned of', () => {
  const before = found({ ...off, '/proc/sys/net/ipv4/ip_forward': '0' }, { isServing: false });
  expect(before.map((one) => one.split(' ', 2).join(' '))).toEqual([
    'warning: net.ipv4.ip_forward',
    'warning: net.bridge.bridge-nf-call-iptables',
  ]);
  const [unknown] = found(off, { podDevices: undefined, isServing: false });
  expect(unknown).toContain('on the same bridge (cni0, docker0);');
});
