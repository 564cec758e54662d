import { describe, expect, test } from 'vitest';
import { serviceLimitDefaults } from '../../../src/config/settings/traffic.ts';
import { modeNames } from '../../../src/modes/mode-table.ts';
import { formatAddress, formatCIDR } from '../../../src/net/address.ts';
import { configOf, errorOf, load, loadFile, running } from './support.ts';

/** The first line of an error of the validation, without what stands before the rules. */
function refusal(file: string): string {
  return errorOf(loadFile(file)).split('\n')[0]!.replace('Error: failed validate: ', '');
}

describe('the proxy mode', () => {
  test.each(['', ...modeNames])('"%s" is accepted', (mode) => {
    expect(configOf(loadFile(`mode: "${mode}"`)).mode).toBe(mode);
    expect(configOf(load([`--proxy-mode=${mode}`])).mode).toBe(mode);
  });

  test.each(['IPTables', 'iptables ', 'ebpf'])(
    '"%s" is rejected, in upper and lower case',
    (mode) => {
      expect(refusal(`mode: "${mode}"`)).toBe(
        `KubeProxyConfiguration.Mode.ProxyMode: Invalid value: "${mode}": must be iptables, ipvs, ` +
          'nftables, userspace or blank (blank means the best mode that the kernel can do)',
      );
    },
  );

  test('kernelspace is rejected with a sentence about Windows', () => {
    expect(refusal('mode: kernelspace')).toContain('kernelspace is the mode of Windows nodes');
    expect(errorOf(load(['--proxy-mode=kernelspace']))).toContain('the mode of Windows nodes');
  });
});

test('limits of Services are the defaults unless given, of which one depends on the mode', () => {
  const { frontends: _, ...others } = serviceLimitDefaults;
  expect(configOf(loadFile('')).serviceLimits).toEqual({
    ...serviceLimitDefaults,
    frontendEndpoints: 0,
  });
  expect(configOf(loadFile('serviceLimits: {frontends: 7}')).serviceLimits).toMatchObject({
    ...others,
    ...{ frontends: 7, frontendEndpoints: 0 },
  });
});

describe('failure detection', () => {
  test.each(['off', 'by-annotation', 'observe', 'eject'])('%s is accepted', (value) => {
    expect(configOf(loadFile(`failureDetection: ${value}`)).failureDetection).toBe(value);
    expect(configOf(load([`--failure-detection=${value}`])).failureDetection).toBe(value);
  });

  test('any other word is rejected', () => {
    expect(refusal('failureDetection: never')).toBe(
      'KubeProxyConfiguration.FailureDetection: Invalid value: "never": must be off, ' +
        'by-annotation, observe, eject',
    );
  });
});

describe('sync periods', () => {
  test.each([
    ['iptables', 'iptables'],
    ['""', 'iptables'],
    ['userspace', 'iptables'],
    ['nftables', 'nftables'],
    ['ipvs', 'ipvs'],
  ])('in mode %s a minimum above the period of its section is rejected', (mode, section) => {
    const file = `mode: ${mode}\n${section}: {syncPeriod: 10s, minSyncPeriod: 11s}`;
    expect(refusal(file)).toBe(
      'KubeProxyConfiguration.SyncPeriod: Invalid value: 11s: must be greater than or equal to ' +
        'KubeProxyConfiguration.MinSyncPeriod',
    );
  });

  test('a minimum equal to the period is accepted', () => {
    const { modes } = configOf(loadFile('iptables: {syncPeriod: 10s, minSyncPeriod: 10s}'));
    expect(modes.iptables).toMatchObject({ syncPeriodMs: 10_000, minSyncPeriodMs: 10_000 });
  });

  test('a minimum above one hour does not panic: full syncs become as rare', () => {
    const file = 'mode: nftables\nnftables: {syncPeriod: 3h, minSyncPeriod: 2h}';
    expect(configOf(loadFile(file)).modes.nftables.fullSyncPeriodMs).toBe(7_200_000);
  });

  test('a maximum below the minimum is rejected', () => {
    expect(refusal('iptables: {minSyncPeriod: 30s, maxSyncPeriod: 20s}')).toBe(
      'KubeProxyConfiguration.MaxSyncPeriod: Invalid value: 20s: must be greater than or equal ' +
        'to KubeProxyConfiguration.MinSyncPeriod, 30s',
    );
  });

  test('the values of an unused section are not checked against each other', () => {
    const file = 'mode: iptables\nnftables: {syncPeriod: -1s}\nipvs: {syncPeriod: -1s}';
    const { config, warnings } = running(loadFile(file));
    expect(config.modes.nftables.syncPeriodMs).toBe(30_000);
    expect(warnings).toContain('nftables.syncPeriod is not used: -1s: must be greater than 0');
  });

  test('a block whose value is changed is reported', () => {
    const { warnings } = running(
      loadFile(
        [
          'nodePortAddresses: [192.168.1.7/16, 010.0.0.0/8, 10.0.0.0/8, "fd00::7/64"]',
          'clusterCIDR: 10.244.1.0/16,FD00:244::0/32',
          'ipvs: {excludeCIDRs: [10.1.0.0/8]}\n',
        ].join('\n'),
      ),
    );
    expect(warnings).toEqual([
      'clusterCIDR: 10.244.1.0/16 is taken as 10.244.0.0/16',
      'nodePortAddresses: 192.168.1.7/16 is taken as 192.168.0.0/16',
      'nodePortAddresses: 010.0.0.0/8 is taken as 10.0.0.0/8',
      'nodePortAddresses: fd00::7/64 is taken as fd00::/64',
      'ipvs.excludeCIDRs: 10.1.0.0/8 is taken as 10.0.0.0/8',
    ]);
  });
});

describe('bind addresses', () => {
  test.each(['0.0.0.0', '::', '::0', '127.0.0.1', '010.001.0.01'])('%s is accepted', (text) => {
    expect(loadFile(`bindAddress: "${text}"`).kind).toBe('run');
  });

  test('leading zeros are decimal', () => {
    const { bindAddress } = configOf(loadFile('bindAddress: 172.30.0.041'));
    expect(formatAddress(bindAddress.bytes)).toBe('172.30.0.41');
  });

  test.each(['[::]', '1.2.3', 'node-1', 'fe80::1%eth0', '1.2.3.4/8'])('%s is rejected', (text) => {
    expect(refusal(`bindAddress: "${text}"`)).toBe(
      `KubeProxyConfiguration.BindAddress: Invalid value: "${text}": ` +
        'not a valid textual representation of an IP address',
    );
  });

  const served = [
    ['0.0.0.0', '0.0.0.0:10256'],
    ['::1', '[::1]:10256'],
    ['1.2.3.4:1', '1.2.3.4:1'],
    ['[::]:65535', '[::]:65535'],
  ] as const;
  test.each(served)('healthz on %s is %s', (given, shown) => {
    const { document } = configOf(loadFile(`healthzBindAddress: "${given}"`));
    expect(document.healthzBindAddress).toBe(shown);
  });

  test.each([
    ['[fd00:1::5]', '"[fd00:1::5]": must be IP:port'],
    ['1.2.3.4:0', '"0": must be a valid port'],
    ['1.2.3.4:65536', '"65536": must be a valid port'],
    ['1.2.3.4:http', '"http": must be a valid port'],
    ['node:80', '"node": must be a valid IP'],
    [':80', '"": must be a valid IP'],
    ['[1.2.3.4:80', '"[1.2.3.4:80": must be IP:port'],
  ])('metrics cannot be served on %s', (given, error) => {
    expect(refusal(`metricsBindAddress: "${given}"`)).toBe(
      `KubeProxyConfiguration.MetricsBindAddress: Invalid value: ${error}`,
    );
  });
});

describe('clusterCIDR', () => {
  const path = 'KubeProxyConfiguration.DetectLocalConfiguration.ClusterCIDRs';

  test.each([
    ['10.0.0.0/8', ['10.0.0.0/8']],
    ['10.1.2.3/8', ['10.0.0.0/8']],
    ['203.0.113.000/025', ['203.0.113.0/25']],
    ['fd00::/8,10.0.0.0/8', ['fd00::/8', '10.0.0.0/8']],
    ['', []],
  ])('%s is accepted', (text, cidrs) => {
    const { clusterCIDR, detectLocal } = configOf(loadFile(`clusterCIDR: "${text}"`));
    expect(detectLocal).toEqual({ kind: 'ClusterCIDR', isDefault: true });
    expect(clusterCIDR.map(formatCIDR)).toEqual(cidrs);
  });

  test.each([
    ['10.0.0.0', '[0]: Invalid value: "10.0.0.0": must be a valid CIDR'],
    ['10.0.0.0/8, fd00::/8', '[1]: Invalid value: " fd00::/8": must be a valid CIDR'],
    ['10.0.0.0/33', '[0]: Invalid value: "10.0.0.0/33": must be a valid CIDR'],
    [
      '10.0.0.0/8,11.0.0.0/8',
      ': Invalid value: ["10.0.0.0/8", "11.0.0.0/8"]: must be one CIDR or one of each family',
    ],
    [
      '10.0.0.0/8,fd00::/8,11.0.0.0/8',
      ': Invalid value: ["10.0.0.0/8", "fd00::/8", "11.0.0.0/8"]: must be one CIDR or one of each',
    ],
  ])('%s is refused, in mode ClusterCIDR only', (text, error) => {
    expect(refusal(`clusterCIDR: "${text}"`)).toContain(`${path}${error}`);
    expect(loadFile(`clusterCIDR: "${text}"\ndetectLocalMode: NodeCIDR`).kind).toBe('run');
  });

  test('is read in other modes, too, where what is not a CIDR is left out and named', () => {
    const text = 'clusterCIDR: 10.0.0.0/8,10.0.0.0/33,11.0.0.0/8\ndetectLocalMode: NodeCIDR';
    const { config, warnings } = running(loadFile(text));
    expect(config.clusterCIDR.map(formatCIDR)).toEqual(['10.0.0.0/8', '11.0.0.0/8']);
    expect(warnings).toEqual(['clusterCIDR: 10.0.0.0/33 is not used: must be a valid CIDR']);
  });
});

describe('detectLocalMode', () => {
  test.each([
    ['NodeCIDR', '', { kind: 'NodeCIDR' }],
    [
      'BridgeInterface',
      'bridgeInterface: br0',
      { kind: 'BridgeInterface', bridgeInterface: 'br0' },
    ],
    [
      'InterfaceNamePrefix',
      'interfaceNamePrefix: veth',
      { kind: 'InterfaceNamePrefix', interfaceNamePrefix: 'veth' },
    ],
  ])('%s carries what it needs', (mode, detail, expected) => {
    const file = `detectLocalMode: ${mode}\ndetectLocal: {${detail}}`;
    expect(configOf(loadFile(file)).detectLocal).toEqual(expected);
  });

  test.each([
    ['BridgeInterface', 'InterfaceName'],
    ['InterfaceNamePrefix', 'InterfacePrefix'],
  ])('%s requires its interface', (mode, path) => {
    expect(refusal(`detectLocalMode: ${mode}`)).toBe(
      `KubeProxyConfiguration.DetectLocalConfiguration.${path}: Invalid value: "": must not be empty`,
    );
  });

  test('an unknown value is rejected with the list of known ones', () => {
    expect(refusal('detectLocalMode: clusterCIDR')).toBe(
      'KubeProxyConfiguration.DetectLocalMode: Unsupported value: "clusterCIDR": supported ' +
        'values: "ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix", ""',
    );
  });
});

describe('nodePortAddresses', () => {
  const path = 'KubeProxyConfiguration.NodePortAddresses';
  const words = 'must be a valid CIDR, or one of "primary", "localhost", "all"';

  test('are all addresses by default, and primary in mode nftables', () => {
    expect(configOf(loadFile('')).nodePortAddresses).toEqual({ kind: 'all' });
    expect(configOf(loadFile('mode: nftables')).nodePortAddresses).toEqual({
      kind: 'listed',
      cidrs: [],
      primary: true,
    });
  });

  const localhost = ['127.0.0.0/8', '::1/128'];

  test.each([
    ['127.0.0.0/8, fd00::/8', ['127.0.0.0/8', 'fd00::/8'], false],
    ['primary, localhost', localhost, true],
    ['10.0.0.0/8, primary', ['10.0.0.0/8'], true],
    ['localhost', localhost, false],
    ['all, localhost', ['0.0.0.0/0', '::/0', ...localhost], false],
  ])('are as given, in mode nftables too: %s', (list, cidrs, primary) => {
    const file = `mode: nftables\nnodePortAddresses: [${list}]`;
    const { nodePortAddresses } = configOf(loadFile(file));
    if (nodePortAddresses.kind !== 'listed') throw new Error('nothing was given');
    expect(nodePortAddresses.cidrs.map(formatCIDR)).toEqual(cidrs);
    expect(nodePortAddresses.primary).toBe(primary);
  });

  test.each([
    ['[10.0.0.1]', `${path}[0]: Invalid value: "10.0.0.1": ${words}`],
    ['[primary, Localhost]', `${path}[1]: Invalid value: "Localhost": ${words}`],
    [
      '[x, 10.0.0.0/8, z]',
      `[${path}[0]: Invalid value: "x": ${words}, ${path}[2]: Invalid value: "z": ${words}]`,
    ],
  ])('%s is refused', (list, error) => {
    expect(refusal(`nodePortAddresses: ${list}`)).toBe(error);
  });
});

describe('validation of other fields', () => {
  test('checks excludeCIDRs in mode ipvs only', () => {
    const file = 'ipvs: {excludeCIDRs: [10.0.0.0/8, x]}';
    expect(refusal(`mode: ipvs\n${file}`)).toBe(
      'KubeProxyConfiguration.KubeProxyIPVSConfiguration.ExcludeCidrs[1]: Invalid value: "x": ' +
        'must be a valid CIDR',
    );
    expect(configOf(loadFile(file)).ipvs.excludeCIDRs).toEqual([]);
  });

  test('permits hidden metrics of the previous minor version, no others', () => {
    expect(loadFile('showHiddenMetricsForVersion: "1.35"').kind).toBe('run');
    expect(refusal('showHiddenMetricsForVersion: "1.34"')).toContain('Invalid value: "1.34": ');
  });

  test.each([
    ['30000-32767', 1],
    ['30000+10', 1],
    ['30000', 1],
    ['0-0', 1],
    ['', 0],
  ])('accepts port range "%s", which has no effect', (text, count) => {
    const { warnings } = running(loadFile(`mode: userspace\nportRange: "${text}"`));
    const words = 'portRange has no effect: no mode allocates proxy ports';
    expect(warnings).toEqual([words].slice(0, count));
  });

  test.each(['2-1', '1-65536', 'x', '-1', '1-2-3'])('rejects port range "%s"', (text) => {
    expect(refusal(`mode: userspace\nportRange: "${text}"`)).toContain(
      `KubeProxyConfiguration.PortRange: Invalid value: "${text}": must be a valid port range`,
    );
    const { warnings } = running(loadFile(`mode: iptables\nportRange: "${text}"`));
    expect(warnings.join('\n')).toContain('portRange is not used: ');
  });

  test('accepts older and Windows fields with a warning', () => {
    const file = 'udpIdleTimeout: 2s\nwinkernel: {networkName: net}\nwindowsRunAsService: true';
    expect(running(loadFile(file)).warnings).toEqual([
      'udpIdleTimeout only matters in mode userspace',
      'winkernel.networkName is for Windows nodes and has no effect here',
      'windowsRunAsService is for Windows nodes and has no effect here',
    ]);
    expect(running(loadFile(`mode: userspace\nudpIdleTimeout: 2s`)).warnings).toEqual([]);
  });

  test('reports all errors together, each once, in kube-proxy’s order and with its line', () => {
    const text = errorOf(
      loadFile('configSyncPeriod: -1s\noomScoreAdj: 2000\nmode: x\nbindAddress: w\nclusterCIDR: z'),
    );
    const paths = [...text.matchAll(/KubeProxyConfiguration\.([\w.]+)/g)].map(([, path]) => path);
    expect(paths).toEqual([
      'KubeProxyLinuxConfiguration.OOMScoreAdj',
      'Mode.ProxyMode',
      'ConfigSyncPeriod',
      'BindAddress',
      'DetectLocalConfiguration.ClusterCIDRs',
    ]);
    expect([...text.matchAll(/^ {2}(\w+) \(line (\d)\): /gm)].map(([, a, b]) => [a, b])).toEqual([
      ['oomScoreAdj', '4'],
      ['mode', '5'],
      ['configSyncPeriod', '3'],
      ['bindAddress', '6'],
      ['clusterCIDR', '7'],
    ]);
  });

  test('names the flags in errors without a file', () => {
    const flags = ['--oom-score-adj=2000', '--proxy-mode=ipvs', '--ipvs-min-sync-period=1h'];
    const text = errorOf(load(flags));
    expect(text).toContain('\n  --oom-score-adj: 2000: must be within');
    expect(text).toContain('\n  --ipvs-min-sync-period: 1h0m0s: must not be above the sync period');
  });
});

describe('rules for external IPs', () => {
  test('allow all by default, and are read from flags or the file', () => {
    expect(configOf(loadFile('mode: nftables')).externalIPs).toEqual({ cidrs: [], namespaces: [] });
    const file = 'externalIPs: {cidrs: [203.0.113.0/24, "fd00::/8"], namespaces: [infra]}';
    const { externalIPs } = configOf(loadFile(file));
    expect(externalIPs.cidrs.map(formatCIDR)).toEqual(['203.0.113.0/24', 'fd00::/8']);
    expect(externalIPs.namespaces).toEqual(['infra']);
    const flags = ['--external-ip-cidrs=203.0.113.0/24,fd00::/8', '--external-ip-namespaces=infra'];
    expect(configOf(load(flags)).externalIPs).toEqual(externalIPs);
  });

  test('are rejected for an invalid block or name', () => {
    expect(refusal('externalIPs: {cidrs: [203.0.113.1]}')).toBe(
      'KubeProxyConfiguration.ExternalIPs.CIDRs[0]: Invalid value: "203.0.113.1": must be a valid CIDR',
    );
    expect(refusal('externalIPs: {namespaces: [ok, Not_ok]}')).toBe(
      'KubeProxyConfiguration.ExternalIPs.Namespaces[1]: Invalid value: "Not_ok": must be the ' +
        'name of a namespace: small letters, digits and hyphens',
    );
  });
});

describe('the name of a second proxy', () => {
  const named = (name: string, more = '') =>
    `mode: nftables\nserviceProxyName: ${JSON.stringify(name)}\n${more}`;

  test.each(['', 'blue', 'Team_1.x-y', 'x'.repeat(63)])('may be %j', (name) => {
    expect(configOf(loadFile(named(name))).serviceProxyName).toBe(name);
  });

  test.each(['-a', 'a b', 'a/b', 'x'.repeat(64)])('is rejected if it is %j', (name) => {
    expect(refusal(named(name))).toContain('must be a label value');
  });

  test.each([
    'mode: iptables',
    'connectTime: all',
    'fastPath: flowtable',
    'failureDetection: eject',
  ])('is rejected with %s, which a node has once', (line) => {
    const file = named('blue', line);
    const own = line.startsWith('mode') ? file.replace('mode: nftables\n', '') : file;
    expect(refusal(own)).toContain('"blue": needs mode nftables, without connectTime, ');
  });
});

describe('limits of clients and namespaces', () => {
  test.each(['connectTime: host', 'mode: nftables\nserviceProxyName: blue'])(
    'are rejected with %j, whose connections they do not see',
    (line) => {
      const file = (most: number) => `${line}\nconnectionLimits: { clientShare: ${most} }\n`;
      expect(refusal(file(5))).toContain('5: needs connectTime off and no serviceProxyName');
      expect(loadFile(file(0)).kind).toBe('run');
    },
  );
});

test('a flow log needs counted bytes, and a known word', () => {
  expect(refusal('flowLog: all\n')).toContain('"all": needs serviceBytes');
  const counted = (word: string) => `flowLog: ${word}\nserviceBytes: true\n`;
  expect(refusal(counted('some'))).toContain('"some": must be off, failed, all');
  expect(configOf(loadFile(counted('failed'))).flowLog).toBe('failed');
  expect(configOf(loadFile('flowLog: off\n')).flowLog).toBe('off');
});

describe('the selector of pods that are excluded from connect time', () => {
  const accepted = [
    '',
    'security.istio.io/tlsMode',
    'sidecar.istio.io/inject=true,app!=x',
    'app in (a, b,), tier notin (c),!old, new==',
    'weight > 3',
  ];
  test.each(accepted)('may be %j', (selector) => {
    const file = `connectTimeExcludedPods: ${JSON.stringify(selector)}`;
    expect(configOf(loadFile(file)).connectTimeExcludedPods).toBe(selector);
  });

  const refused = ['a,', 'a b', '-a', 'a=b=c', 'a in b', 'a in (b', `${'x'.repeat(64)}=y`, 'A.B/c'];
  test.each(refused)('is rejected if it is %j', (selector) => {
    expect(refusal(`connectTimeExcludedPods: ${JSON.stringify(selector)}`)).toContain(
      `KubeProxyConfiguration.ConnectTimeExcludedPods: Invalid value: ${JSON.stringify(selector)}`,
    );
  });

  test('may be a flag, which its error names', () => {
    const { connectTimeExcludedPods } = configOf(load(['--connect-time-excluded-pods=a,!b']));
    expect(connectTimeExcludedPods).toBe('a,!b');
    expect(errorOf(load(['--connect-time-excluded-pods=a b']))).toMatch(
      /connect-time-excluded-pods.*"a b" is no requirement of a label selector/s,
    );
  });
});
