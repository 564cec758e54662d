/** Which devices take part in the fast path. */
import { describe, expect, it } from 'vitest';
import { devicesOf, type Link } from '../../../src/fast-path/devices.ts';

/** A link that is up, unless `fields` say more. */
function link(name: string, index: number, fields: Partial<Link> = {}): Link {
  return { kind: 'link', link: name, index, type: '', flags: 1, master: 0, leaves: 0, ...fields };
}

const pod = { type: 'veth', leaves: 1 } as const;
const routes = 'Iface\tDestination\nens3\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000';
const bridged = [
  link('lo', 1),
  link('ens3', 2),
  link('cni0', 3, { type: 'bridge' }),
  link('vetha', 4, { ...pod, master: 3 }),
];

function devices(links: readonly Link[], files: Readonly<Record<string, string>> = {}) {
  const all: Readonly<Record<string, string>> = { '/proc/net/route': routes, ...files };
  const { names, obstacle } = devicesOf(links, { read: (path) => all[path] });
  return obstacle ?? [...names].sort().join(' ');
}

describe('the devices of the fast path', () => {
  it('are those of default routes, of pods, and of tunnels to other nodes', () => {
    const links = [
      link('lo', 1),
      link('ens3', 2),
      link('ens4', 3),
      link('cali1', 4, pod),
      link('veth-of-this-namespace', 5, { type: 'veth' }),
      link('flannel.1', 6, { type: 'vxlan' }),
      link('dummy0', 7, { type: 'dummy' }),
    ];
    expect(devices(links)).toBe('cali1 ens3 flannel.1');
  });

  it('are those of IPv6 default routes, too', () => {
    const zero = '0'.repeat(32);
    const route = `${zero} 00 ${zero} 00 fe80${'0'.repeat(28)} 00000400 1 0 00000003     ens4`;
    const reject = `${zero} 00 ${zero} 00 ${zero} ffffffff 1 0 00200200       lo`;
    // A provider's route, for packets from its own addresses alone.
    const ofSource = route.replace(`${zero} 00 fe80`, `2001${'0'.repeat(28)} 20 fe80`);
    const files = {
      '/proc/net/route': 'Iface',
      '/proc/net/ipv6_route': `${route}\n${ofSource.replace('ens4', 'ens5')}\n${reject}`,
    };
    const links = [link('lo', 1), link('ens3', 2), link('ens4', 3), link('ens5', 4)];
    expect(devices(links, files)).toBe('ens4 ens5');
  });

  it('leave out links that are down', () => {
    expect(devices([link('ens3', 2), link('cali1', 4, { ...pod, flags: 0 })])).toBe('ens3');
  });

  it('are the bridge and its ports where pods are in one', () => {
    expect(devices(bridged)).toBe('cni0 ens3 vetha');
  });

  it('leave out a bridge whose packets meet the rules of IP inside it', () => {
    const files = { '/proc/sys/net/bridge/bridge-nf-call-iptables': '1' };
    expect(devices(bridged, files)).toBe('ens3');
    expect(devices(bridged, { ...files, '/proc/net/route': 'Iface' })).toMatch(/vetha/);
  });

  it('are not used where a plugin forwards packets by eBPF', () => {
    expect(devices([...bridged, link('cilium_host', 9)])).toMatch(/cilium_host .* eBPF/);
  });

  it('do not exist without links to anywhere', () => {
    expect(devices([link('lo', 1)])).toBe('no device leads to pods or other machines');
  });
});
