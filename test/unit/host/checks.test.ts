import { describe, expect, it } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { type CheckedNode, checkConfig, findingsOf } from '../../../src/host/checks.ts';
import { setOomScore } from '../../../src/host/process.ts';
import { address, node } from '../state/build.ts';
import { machine } from './machine.ts';

const own = ['192.0.2.7', 'fd00::7'].map(address);
const podCIDRs = ['10.244.1.0/24', 'fd00:244::/64'];
const dualStack: CheckedNode = {
  families: ['IPv4', 'IPv6'],
  interfaces: [address('127.0.0.1'), ...own],
  nodeName: 'node-a',
  node: node({ addresses: [own[0]!], podCIDRs }),
};
const onlyV6 = node({ addresses: [own[1]!], podCIDRs });
const onlyIPv4: CheckedNode = { ...dualStack, families: ['IPv4'] };
const primaryPorts = '--nodeport-addresses=primary';
const pods = '--cluster-cidr=10.244.0.0/16';

function configOf(flags: readonly string[]): Config {
  const result = loadConfig(['--manifests=/x', ...flags], { readFile: () => new Uint8Array() });
  if (result.kind !== 'run') throw new Error(JSON.stringify(result));
  return result.config;
}

function findings(checked: Partial<CheckedNode>, ...flags: string[]): string[] {
  const found = findingsOf(configOf(flags), { ...dualStack, ...checked });
  return found.map(({ level, text }) => `${level}: ${text}`);
}

/** The warnings, or the error. */
function check(checked: Partial<CheckedNode>, ...flags: string[]): readonly string[] | string {
  try {
    return checkConfig(configOf(flags), { ...dualStack, ...checked });
  } catch (error) {
    return (error as Error).message;
  }
}

describe('the check of the configuration against the node’s families', () => {
  it('reports nothing if they match', () => {
    expect(check({}, primaryPorts, pods)).toEqual([]);
    expect(check(onlyIPv4, pods, '--nodeport-addresses=10.0.0.0/8')).toEqual([]);
    expect(check(onlyIPv4, pods, primaryPorts, '--metrics-bind-address=[::]:10249')).toEqual([]);
  });

  it('warns of failure detection that does not know where the pods of other nodes are', () => {
    const bridge = ['--detect-local-mode=BridgeInterface', '--pod-bridge-interface=cni0'];
    const found = (...flags: string[]) => check({}, primaryPorts, ...bridge, ...flags);
    expect(found('--failure-detection=eject')).toEqual([
      'failureDetection is eject and clusterCIDR is empty: ' +
        'only endpoints in podCIDRs of this node are probed, or left out',
    ]);
    expect(found('--failure-detection=eject', pods)).toEqual([]);
    expect(found('--failure-detection=off')).toEqual([]);
  });

  it('fails if the primary family is missing', () => {
    expect(check({ families: ['IPv4'], node: onlyV6 })).toBe(
      'no support for primary IP family "IPv6": the kernel has it disabled',
    );
  });

  it('fails if clusterCIDR has only one family, of a node with one family', () => {
    const wrong = "clusterCIDR fd00::/64 has nothing of the node's primary IP family, IPv4";
    const flags = [primaryPorts, '--cluster-cidr=fd00::/64'];
    expect(check(onlyIPv4, ...flags)).toBe(`kube-proxy configuration is incorrect: ${wrong}`);
    expect(check({}, ...flags)).toEqual([wrong]);
  });

  it('fails if podCIDRs lack a family and rules recognise pods by them', () => {
    const checked = { node: node({ addresses: [own[0]!], podCIDRs: ['fd00:244::/64'] }) };
    const wrong = "the node's podCIDRs fd00:244::/64 have nothing of its primary IP family, IPv4";
    expect(check(checked, primaryPorts, '--detect-local-mode=NodeCIDR')).toBe(
      `kube-proxy configuration is incorrect: ${wrong}`,
    );
    expect(check(checked, pods, primaryPorts)).toEqual([wrong]);
  });

  it('permits node ports on all addresses by default', () => {
    expect(check({}, pods)).toEqual([expect.stringMatching(/^nodePortAddresses is not set/)]);
    const v4 = '--nodeport-addresses=10.0.0.0/8';
    expect(check({}, pods, v4)).toEqual([
      expect.stringMatching(/nothing of the other IP family, IPv6/),
    ]);
    const pods6 = '--cluster-cidr=fd00:244::/56';
    expect(check({ node: onlyV6 }, pods6, v4)).toEqual([
      expect.stringMatching(/nothing of the primary IP family, IPv6/),
    ]);
  });

  it('warns of addresses of a family that the node does not have', () => {
    const flags = ['--proxy-mode=ipvs', '--ipvs-exclude-cidrs=fd00::/8', primaryPorts, pods];
    expect(check(onlyIPv4, ...flags)).toEqual([
      "ipvs.excludeCIDRs has nothing of this node's only IP family, IPv4",
    ]);
    expect(check({}, ...flags)).toEqual([]);
    expect(check(onlyIPv4, pods, primaryPorts, '--healthz-bind-address=[::1]:1')).toEqual([
      "healthzBindAddress is not of this node's only IP family, IPv4",
    ]);
  });
});

describe('what does not fit together on a node', () => {
  const addresses = (...texts: string[]) => ({
    node: node({ podCIDRs, addresses: texts.map(address) }),
  });

  it.each([
    [
      'a Node that is missing',
      { node: 'missing' as const },
      ['problem: no Node is called "node-a": the name is --hostname-override\'s, else the host\'s'],
    ],
    ['a Node that is not known yet', { node: undefined }, []],
    ["a Node with one of the machine's addresses", addresses('192.0.2.9', '192.0.2.7'), []],
    [
      'a Node of another machine',
      addresses('192.0.2.9', 'fd00::7'),
      [
        'problem: no interface has the IPv4 address 192.0.2.9 of Node "node-a": ' +
          "it is another machine's, or out of date",
      ],
    ],
    [
      'a family that the kernel has disabled',
      { ...addresses('192.0.2.7', 'fd00::7'), families: ['IPv4'] as const },
      [
        'problem: IPv6 is not served, of which the Node has address fd00::7: ' +
          'the kernel has it disabled; it will be served once it is enabled',
      ],
    ],
  ])('is known of %s', (_, checked, found) => {
    expect(findings(checked, pods)).toEqual(found);
  });

  it('is that pods are not recognised, without clusterCIDR where the mode needs it', () => {
    const lacking = (asked: string) =>
      `clusterCIDR is empty and detectLocalMode is ClusterCIDR${asked}: ` +
      'pods are taken for clients outside the cluster';
    expect(findings({})).toEqual([`warning: ${lacking(' by default')}`]);
    expect(findings({}, '--detect-local-mode=')).toEqual([`warning: ${lacking(' by default')}`]);
    expect(findings({}, '--detect-local-mode=ClusterCIDR')).toEqual([`problem: ${lacking('')}`]);
    expect(findings({}, '--detect-local-mode=NodeCIDR')).toEqual([]);
  });

  it('is that clusterCIDR does not contain a podCIDR of its family', () => {
    const outside = (cidrs: string, ...pods: string[]) => [
      `warning: clusterCIDR ${cidrs} does not contain ${pods.join(', ')}, a podCIDR of the Node: ` +
        'pods there are taken for clients outside the cluster',
    ];
    const found = (cidrs: string) => findings({}, `--cluster-cidr=${cidrs}`);
    expect(found('10.244.1.0/24')).toEqual([]);
    expect(found('10.244.0.0/15,fd00:244::/48')).toEqual([]);
    expect(found('10.200.0.0/16')).toEqual(outside('10.200.0.0/16', '10.244.1.0/24'));
    // It contains the first address, and not all.
    expect(found('10.244.1.0/25')).toEqual(outside('10.244.1.0/25', '10.244.1.0/24'));
    const both = '10.244.0.0/24,fd00:245::/48';
    expect(found(both)).toEqual(outside(both, ...podCIDRs));
    expect(findings({}, '--cluster-cidr=10.200.0.0/16', '--detect-local-mode=NodeCIDR')).toEqual(
      [],
    );
  });
});

describe('the OOM score', () => {
  const path = '/proc/self/oom_score_adj';

  it('is written if it differs', () => {
    const files = machine({ [path]: '0\n' });
    expect(setOomScore(-999, files)).toBeUndefined();
    expect(files.read(path)).toBe('-999');
  });

  it('does not stop the start if it cannot be set', () => {
    expect(setOomScore(-999, machine({}))?.message).toContain('ENOENT');
  });
});
