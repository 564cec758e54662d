import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { localDetector } from '../../../src/agent/engine-settings.ts';
import type { Config, DetectLocal } from '../../../src/config/config.ts';
import type { NodePortAddresses } from '../../../src/config/settings/makers.ts';
import {
  availableFamilies,
  interfaceAddresses,
  MachineAddresses,
} from '../../../src/host/interfaces.ts';
import { listeningAddresses, NodeFacts, nodePortAddresses } from '../../../src/host/node-facts.ts';
import { nodeIPs } from '../../../src/host/node-ips.ts';
import { nodeName } from '../../../src/host/node-name.ts';
import { nftablesMode } from '../../../src/modes/nftables/mode.ts';
import { type Address, type CIDR, formatAddress } from '../../../src/net/address.ts';
import { noLimits } from '../../../src/state/budget.ts';
import { keysOf } from '../../../src/state/node-sockets.ts';
import { ClusterState } from '../../../src/state/store.ts';
import { systemClock } from '../../../src/time/clock.ts';
import { address, cidr, node, ready, service, slice, takeChanged } from '../state/build.ts';
import { machine, settings } from './machine.ts';

const anyAddress = address('0.0.0.0');

describe('the node name', () => {
  it('is the override or the host name, trimmed and in lower case', () => {
    expect(nodeName('', ' Node-7\n')).toBe('node-7');
    expect(nodeName('Override ', 'node-7')).toBe('override');
  });

  it('must not be empty', () => {
    expect(() => nodeName('', '  ')).toThrow('--hostname-override');
  });
});

describe('the node IPs', () => {
  it.each([
    ['nothing known', [], '0.0.0.0', ['IPv4', '127.0.0.1', '::1']],
    ['one family', ['10.0.0.5', '10.0.0.6'], '0.0.0.0', ['IPv4', '10.0.0.5', '::1']],
    ['IPv6 first', ['fd00::5', '10.0.0.5'], '0.0.0.0', ['IPv6', '10.0.0.5', 'fd00::5']],
    ['a bind address', ['fd00::5', '10.0.0.5'], '10.9.9.9', ['IPv4', '10.9.9.9', 'fd00::5']],
    ['a loopback bind address', ['fd00::5'], '127.0.0.1', ['IPv4', '127.0.0.1', 'fd00::5']],
    ['a wildcard bind address', ['10.0.0.5'], '::', ['IPv4', '10.0.0.5', '::1']],
  ])('with %s', (_, addresses, bind, expected) => {
    const known = addresses.length === 0 ? undefined : node({ addresses: addresses.map(address) });
    const ips = nodeIPs(known, address(bind));
    const texts = [formatAddress(ips.IPv4.bytes), formatAddress(ips.IPv6.bytes)];
    expect([ips.primary, ...texts]).toEqual(expected);
  });
});

describe('the addresses for node ports', () => {
  const ips = nodeIPs(node({ addresses: [address('10.0.0.5')] }), anyAddress);
  const interfaces = ['127.0.0.1', '10.0.0.5', '10.0.0.5', '10.1.0.5', 'fd00::5', '::1'];
  const texts = (config: NodePortAddresses, family: 'IPv4' | 'IPv6') => {
    const found = nodePortAddresses(config, family, ips, () => interfaces.map(address));
    return found === 'all' ? 'all' : found.map(({ bytes }) => formatAddress(bytes));
  };
  const cidrs = (...list: string[]): NodePortAddresses => {
    return { kind: 'listed', cidrs: list.map(cidr), primary: false };
  };
  const primary = { kind: 'listed', cidrs: [], primary: true } as const;

  it('are all, or the primary ones', () => {
    expect(texts({ kind: 'all' }, 'IPv4')).toBe('all');
    expect(texts(primary, 'IPv4')).toEqual(['10.0.0.5']);
    expect(texts(primary, 'IPv6')).toBe('all');
  });

  it('are the primary ones and blocks', () => {
    const cidrs = ['10.1.0.0/16', '::1/128'].map(cidr);
    expect(texts({ ...primary, cidrs }, 'IPv4')).toEqual(['10.0.0.5', '10.1.0.5']);
    expect(texts({ ...primary, cidrs }, 'IPv6')).toEqual([]);
  });

  it.each([
    [['10.0.0.0/16'], ['10.0.0.5'], 'all'],
    [['10.0.0.0/8', 'fd00::/8'], ['10.0.0.5', '10.1.0.5'], ['fd00::5']],
    [['10.0.0.0/8', '0.0.0.0/0'], 'all', 'all'],
    [['192.168.0.0/16'], [], 'all'],
    [['127.0.0.0/8', '::1/128'], [], []],
  ])('in %j are %j and %j', (list, v4, v6) => {
    expect(texts(cidrs(...list), 'IPv4')).toEqual(v4);
    expect(texts(cidrs(...list), 'IPv6')).toEqual(v6);
  });
});

describe('sockets that answer on node ports', () => {
  it('listen on loopback addresses, too, if CIDRs include them', () => {
    const ips = { primary: 'IPv4', IPv4: address('10.0.0.5'), IPv6: address('::1') } as const;
    const cidrs = ['127.0.0.0/8', '10.0.0.0/8'].map(cidr);
    const config = { kind: 'listed', cidrs, primary: false } as const;
    const interfaces = () => ['127.0.0.1', '10.0.0.5', '172.16.0.1'].map(address);
    const found = listeningAddresses(config, 'IPv4', ips, interfaces);
    expect(found).toEqual([address('10.0.0.5'), address('127.0.0.1')]);
    expect(listeningAddresses(config, 'IPv6', ips, interfaces)).toBe('all');
  });
});

describe('the local detector', () => {
  const inCluster = (...clusterCIDR: CIDR[]) =>
    ({ kind: 'ClusterCIDR', isDefault: true, clusterCIDR }) as const;

  it.each<[DetectLocal & { readonly clusterCIDR?: readonly CIDR[] }, unknown, unknown]>([
    [inCluster(), { kind: 'none' }, { kind: 'none' }],
    [
      inCluster(cidr('fd00::/64'), cidr('10.0.0.0/8'), cidr('10.9.0.0/16')),
      { kind: 'cidr', cidr: cidr('10.0.0.0/8') },
      { kind: 'cidr', cidr: cidr('fd00::/64') },
    ],
    [{ kind: 'NodeCIDR' }, { kind: 'cidr', cidr: cidr('10.244.1.0/24') }, { kind: 'none' }],
    [
      { kind: 'BridgeInterface', bridgeInterface: 'cni0' },
      { kind: 'bridge', name: 'cni0' },
      { kind: 'bridge', name: 'cni0' },
    ],
    [
      { kind: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth' },
      { kind: 'interface-prefix', prefix: 'veth' },
      { kind: 'interface-prefix', prefix: 'veth' },
    ],
  ])('of %j', ({ clusterCIDR = [], ...detectLocal }, v4, v6) => {
    const config = { clusterCIDR, detectLocal };
    const known = node({ podCIDRs: ['10.244.1.0/24', 'not a CIDR'] });
    expect(localDetector(config, 'IPv4', known)).toEqual(v4);
    expect(localDetector(config, 'IPv6', known)).toEqual(v6);
  });
});

describe('the most endpoints of a frontend', () => {
  it.each([
    ['nftables', 0, 10_000],
    ['iptables', 0, 5000],
    ['iptables', 7000, 7000],
  ] as const)(
    'is limited in mode %s, where %i is configured',
    (mode, frontendEndpoints, expected) => {
      const facts = new NodeFacts({
        mode: { name: mode },
        settings: {
          ...settings,
          serviceLimits: { ...noLimits, frontendEndpoints, namespaceFactor: 1 },
        },
        state: new ClusterState(),
        interfaces: () => [],
      });
      expect(facts.context.limits?.frontendEndpoints).toBe(expected);
    },
  );
});

describe('the environment from this node', () => {
  it('follows the Node and the interfaces, and stays the same object while nothing changes', () => {
    const state = new ClusterState();
    let addresses = ['10.0.0.5'];
    const facts = new NodeFacts({
      mode: nftablesMode,
      settings: {
        ...settings,
        nodePortAddresses: { kind: 'listed', cidrs: [cidr('10.0.0.0/8')], primary: false },
        featureGates: { AllowServiceExternalIPs: false },
        healthzBindAddress: { address: address('0.0.0.0'), port: 10256 },
        metricsBindAddress: { address: address('127.0.0.1'), port: 10249 },
        healthzNodeShutdown: true,
      },
      state,
      interfaces: () => addresses.map(address),
    });
    const first = facts.environment('IPv4');
    expect(first.nodePortAddresses).toEqual([address('10.0.0.5')]);
    expect(facts.context).toMatchObject({ zone: '', externalIPsEnabled: false });
    state.apply({ kind: 'node', node: node({ zone: 'here' }) });
    expect(facts.context).toMatchObject({ zone: 'here', isLeaving: false });
    state.apply({ kind: 'node', node: node({ zone: 'here', isShuttingDown: true }) });
    expect(facts.context.isLeaving).toBe(true);
    expect(facts.context).toBe(facts.context);
    facts.readInterfaces();
    expect(facts.environment('IPv4')).toBe(first);

    addresses = ['10.0.0.5', '10.0.0.6'];
    expect(facts.environment('IPv4')).toBe(first);
    facts.readInterfaces();
    expect(facts.environment('IPv4').nodePortAddresses).toHaveLength(2);

    const before = facts.environment('IPv4');
    const serviceCIDR = { name: 'kubernetes', cidrs: [cidr('10.96.0.0/12')] };
    state.apply({ kind: 'service-cidr', serviceCIDR });
    expect(facts.environment('IPv4')).not.toBe(before);
    expect(facts.environment('IPv4').serviceCIDRs).toEqual([cidr('10.96.0.0/12')]);
  });
});

describe('the addresses that accept node ports at connect time', () => {
  const interfaces = ['127.0.0.1', '10.0.0.5', '::1', 'fe80::1', 'fd00::5'];

  function addressesOf(nodePortAddresses: Config['nodePortAddresses']): string[] {
    const facts = new NodeFacts({
      mode: nftablesMode,
      settings: {
        ...settings,
        nodePortAddresses,
      },
      state: new ClusterState(),
      interfaces: () => interfaces.map(address),
      isConnectTime: true,
    });
    const both = (['IPv4', 'IPv6'] as const).flatMap(
      (family) => facts.environment(family).connectTimeAddresses ?? [],
    );
    return both.map(({ bytes }) => formatAddress(bytes));
  }

  it('are all except loopback and link-local ones', () => {
    expect(addressesOf({ kind: 'all' })).toEqual(['10.0.0.5', 'fd00::5']);
  });

  it('include loopback addresses if configured', () => {
    const cidrs = ['127.0.0.0/8', '10.0.0.0/8', '::1/128'].map(cidr);
    const found = addressesOf({ kind: 'listed', cidrs, primary: false });
    expect(found).toEqual(['10.0.0.5', '127.0.0.1', '::1']);
  });
});

describe('the claims of Services at addresses of the node', () => {
  const all = ['127.0.0.1', '10.0.0.5', '169.254.20.10', '::1', 'fd00::5'];

  function facts(
    nodePorts: Config['nodePortAddresses'],
    interfaces: () => string[],
    more: {
      server?: string;
      cidrs?: readonly string[];
      link?: string;
      hasProgram?: (at: string, any: boolean) => boolean;
    } = {},
  ) {
    const { cidrs = [], hasProgram, link, server } = more;
    const state = new ClusterState();
    state.apply({ kind: 'node', node: node({ addresses: [address('198.51.100.9')] }) });
    const made = new NodeFacts({
      mode: { name: 'nftables', ...(link === undefined ? {} : { link }) },
      settings: {
        ...settings,
        nodePortAddresses: nodePorts,
        externalIPs: { cidrs: cidrs.map(cidr), namespaces: [] },
        healthzBindAddress: { address: address('0.0.0.0'), port: 10256 },
        metricsBindAddress: { address: address('127.0.0.1'), port: 10249 },
      },
      state,
      interfaces: () => interfaces().map(address),
      source: { server: () => server },
      programs: hasProgram && {
        has: ({ address: { bytes }, any }) => hasProgram(formatAddress(bytes), any),
      },
    });
    return { state, made };
  }

  it.each([
    ['https://192.168.0.9:6443', {}, '192.168.0.9', 6443],
    ['https://[fd00::9]', {}, 'fd00::9', 443],
    ['https://192.168.0.9:6443', { link: 'kube-ipvs0' }, '192.168.0.9', 'all'],
    ['https://10.0.0.5:6443', { link: 'kube-ipvs0' }, '10.0.0.5', 6443],
    ['https://192.168.0.9:6443', { cidrs: ['192.168.1.0/24'] }, '192.168.0.9', 6443],
    ['https://192.168.0.9:6443', { cidrs: ['192.168.0.0/24'] }, undefined, 0],
    ['https://api.example.com:6443', {}, undefined, 0],
    ['https://127.0.0.1:6443', {}, undefined, 0],
    [undefined, {}, undefined, 0],
  ])('do not take the API server from the node: %s, %o', (server, more, at, port) => {
    const { made } = facts({ kind: 'all' }, () => all, { ...more, ...(server && { server }) });
    const expected = at === undefined ? undefined : { address: address(at).key, port };
    expect(made.context.nodeSockets?.server).toEqual(expected);
  });

  it.each([
    ['198.51.100.9', [], true],
    ['10.0.0.5', [], false],
    ['203.0.113.1', [], undefined],
    ['127.0.0.1', [], undefined],
    ['198.51.100.9', ['198.51.100.0/24'], undefined],
    ['198.51.100.9', ['203.0.113.0/24', '10.0.0.0/8'], true],
  ])('leave ports of programs alone: at %s, with blocks %o', (at, cidrs, any) => {
    const asked: unknown[] = [];
    const hasProgram = (text: string, all: boolean): boolean => asked.push([text, all]) > 0;
    const { made } = facts({ kind: 'all' }, () => all, { cidrs, hasProgram });
    const found = made.context.nodeSockets!.hasProgram!('TCP', address(at), 10250);
    expect([found, asked]).toEqual(any === undefined ? [false, []] : [true, [[at, any]]]);
  });

  it('leave ports of programs of all addresses alone where the Node has no address', () => {
    const { made, state } = facts({ kind: 'all' }, () => all, { hasProgram: (_, any) => any });
    state.apply({ kind: 'node', node: node({ addresses: [] }) });
    expect(made.context.nodeSockets!.hasProgram!('UDP', address('10.0.0.5'), 53)).toBe(true);
  });

  it('depend on its addresses, on node ports, and on ports of the process', () => {
    const { made } = facts({ kind: 'all' }, () => all);
    const own = ['10.0.0.5', '169.254.20.10', 'fd00::5'].map(address);
    expect(made.context.nodeSockets).toEqual({
      addresses: keysOf([...own, address('198.51.100.9')]),
      nodePorts: keysOf(own),
      listening: new Set([10256]),
    });
    const { made: some } = facts(
      { kind: 'listed', cidrs: [cidr('10.0.0.0/8')], primary: false },
      () => all,
    );
    expect(some.context.nodeSockets?.nodePorts).toEqual(
      keysOf(['10.0.0.5', 'fd00::5'].map(address)),
    );
  });

  it.each([
    ['kube-ipvs0', ['ns/web']],
    [undefined, []],
  ])('are not those of other machines, in a mode that binds addresses at %s', (link, dirty) => {
    const { made, state } = facts({ kind: 'all' }, () => all, link === undefined ? {} : { link });
    const shown = (): unknown[] => [...made.context.externalIPRules!.machines!];
    state.apply({
      kind: 'service',
      service: service({ externalIPs: ['192.168.0.9'], loadBalancerIPs: ['192.168.0.8'] }),
    });
    state.apply({ kind: 'service', service: service({ name: 'other' }) });
    takeChanged(state);
    const servers = slice(
      { '192.168.0.9': ready, '10.0.0.5': ready },
      { key: 'default/kubernetes', service: 'default/kubernetes' },
    );
    state.apply({ kind: 'slice', slice: servers });
    expect(shown()).toEqual(link === undefined ? [] : [address('192.168.0.9').key]);
    expect(takeChanged(state)).toEqual(dirty);
    state.apply({ kind: 'slice-gone', key: servers.key });
    expect(shown()).toEqual([]);
    expect(takeChanged(state)).toEqual(dirty);
  });

  it('are checked again when the Node gets or loses addresses', () => {
    let interfaces = all;
    const { made, state } = facts({ kind: 'all' }, () => interfaces);
    const at = (name: string, fields: Parameters<typeof service>[0]): void => {
      state.apply({ kind: 'service', service: service({ name, ...fields }) });
    };
    at('old', { externalIPs: ['10.0.0.5'] });
    at('new', { loadBalancerIPs: ['10.0.0.6'] });
    at('node', { externalIPs: ['198.51.100.10'] });
    at('cache', { externalIPs: ['203.0.113.1'], clusterIPs: ['10.0.0.6'] });
    at('other', { externalIPs: ['203.0.113.1'] });
    takeChanged(state);
    expect(made.readInterfaces()).toBe(false);
    expect(takeChanged(state)).toEqual([]);
    interfaces = ['127.0.0.1', '10.0.0.6'];
    expect(made.readInterfaces()).toBe(true);
    expect(takeChanged(state).sort()).toEqual(['ns/cache', 'ns/new', 'ns/old']);
    state.apply({ kind: 'node', node: node({ addresses: [address('198.51.100.10')] }) });
    expect(made.context.nodeSockets?.addresses).toContain(address('198.51.100.10').key);
    expect(takeChanged(state)).toEqual(['ns/node']);
  });
});

describe('support for IPv6', () => {
  const both = ['IPv4', 'IPv6'];
  it.each([
    ['if_inet6 is there and nothing disables it', { if_inet6: '', disable: '0\n' }, both],
    ['it is disabled', { if_inet6: '', disable: '1\n' }, ['IPv4']],
    ['the kernel has none', { disable: '0\n' }, ['IPv4']],
    ['the switch is missing', { if_inet6: '' }, both],
  ])(
    'when %s',
    (_, { if_inet6, disable }: { if_inet6?: string; disable?: string }, available: string[]) => {
      const files = machine({
        '/proc/net/if_inet6': if_inet6,
        '/proc/sys/net/ipv6/conf/all/disable_ipv6': disable,
      });
      expect(availableFamilies(files)).toEqual(available);
    },
  );
});

describe('the interfaces of this machine', () => {
  it('are reported unchanged when pods with shared addresses come and go', () => {
    const eth0 = ['192.0.2.1', '2001:db8::1', 'fe80::1'].map((text) => ({ address: text }));
    const pod = ['10.244.1.1', 'fe80::a8%veth1'].map((text) => ({ address: text }));
    const texts = ['10.244.1.1', '192.0.2.1', '2001:db8::1'];
    const told = (interfaces: Parameters<typeof interfaceAddresses>[0]): string[] =>
      interfaceAddresses(interfaces).map(({ bytes }) => formatAddress(bytes));
    expect(told({ eth0, veth1: pod })).toEqual(texts);
    expect(told({ veth2: pod, veth1: pod, eth0 })).toEqual(texts);
    expect(told({ eth0, 'kube-ipvs0': pod })).toEqual(texts.slice(1));
  });

  it('include loopback', () => {
    const texts = interfaceAddresses().map(({ bytes }) => formatAddress(bytes));
    expect(texts).toContain('127.0.0.1');
  });
});

describe('addresses of this machine', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const shortage = new Error('uv_interface_addresses returned Unknown system error 24');

  function rig(results: (Address[] | Error)[]) {
    const said: string[] = [];
    const watches: { tell: (error?: Error) => void; isClosed: boolean }[] = [];
    let refusal: Error | undefined;
    const addresses = new MachineAddresses({
      after: systemClock.after,
      read: () => {
        const next = results.length > 1 ? results.shift()! : results[0]!;
        if (next instanceof Error) throw next;
        return next;
      },
      watch: (told) => {
        if (refusal !== undefined) throw refusal;
        const watch = { tell: (error?: Error) => told(error), isClosed: false };
        watches.push(watch);
        return {
          close: () => {
            watch.isClosed = true;
          },
        };
      },
      failed: ({ message }) => said.push(message),
      restored: () => said.push('restored'),
      unwatched: ({ message }) => said.push(`unwatched: ${message}`),
    });
    const refuse = (error?: Error): void => {
      refusal = error;
    };
    return { addresses, said, watches, refuse };
  }

  it('keep their last value while they cannot be read, which is reported once', () => {
    const results = [[address('10.0.0.1')], shortage, shortage, [address('10.0.0.2')], shortage];
    const { addresses, said } = rig(results);
    const texts = Array.from({ length: 4 }, () =>
      addresses.read().map(({ bytes }) => formatAddress(bytes)),
    );
    const [first, second] = [['10.0.0.1'], ['10.0.0.2']];
    expect(texts).toEqual([first, first, second, second]);
    expect(said).toEqual([shortage.message, 'restored', shortage.message]);
  });

  it('cause an error if the first read fails', () => {
    expect(() => rig([shortage])).toThrow(
      `read the addresses of this machine: ${shortage.message}`,
    );
  });

  it('are read immediately when the kernel reports a change, and once a second in a burst', () => {
    const { addresses, watches } = rig([[]]);
    let count = 0;
    const stop = addresses.follow(() => {
      count += 1;
    });
    expect(count).toBe(1);
    vi.advanceTimersByTime(3_600_000);
    expect(count).toBe(1);
    for (let i = 0; i < 20; i += 1) watches[0]!.tell();
    vi.advanceTimersByTime(999);
    expect(count).toBe(2);
    vi.advanceTimersByTime(1);
    expect(count).toBe(3);
    vi.advanceTimersByTime(3_600_000);
    expect(count).toBe(3);
    stop();
    expect(watches.map(({ isClosed }) => isClosed)).toEqual([true]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('are read again after five seconds when they could not be', () => {
    const { addresses } = rig([[], shortage, shortage, [address('10.0.0.2')]]);
    let count = 0;
    addresses.follow(() => {
      count += 1;
      addresses.read();
    });
    vi.advanceTimersByTime(4999);
    expect(count).toBe(1);
    vi.advanceTimersByTime(1);
    vi.advanceTimersByTime(5000);
    expect(count).toBe(3);
    vi.advanceTimersByTime(3_600_000);
    expect(count).toBe(3);
  });

  it('are read every five seconds while the kernel reports nothing, which is logged once', () => {
    const { addresses, said, watches, refuse } = rig([[]]);
    let count = 0;
    const stop = addresses.follow(() => {
      count += 1;
    });
    refuse(shortage);
    watches[0]!.tell(shortage);
    for (let i = 0; i < 3; i += 1) vi.advanceTimersByTime(5000);
    expect(count).toBe(4);
    refuse();
    vi.advanceTimersByTime(5000);
    expect(count).toBe(5);
    expect(said).toEqual([`unwatched: ${shortage.message}`]);
    watches[1]!.tell();
    expect(count).toBe(5);
    vi.advanceTimersByTime(1000);
    expect(count).toBe(6);
    stop();
    expect(vi.getTimerCount()).toBe(0);
  });
});
