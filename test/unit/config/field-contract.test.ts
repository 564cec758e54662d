import { describe, expect, test } from 'vitest';
import { decodeFile } from '../../../src/config/file.ts';
import { type FieldPath, fieldPaths, settingTable } from '../../../src/config/settings/index.ts';
import { rulesOf } from '../../../src/config/types.ts';
import { defaultSettings, withDefaults } from '../../../src/config/values.ts';
import { bytes, errorOf, header, loadFile } from './support.ts';

/** Sections 2.2 to 2.6 and 2.8 of the behaviour document, and the older reference. */
type Kind = 'string' | 'bool' | 'int32' | 'duration' | 'strings' | 'float32' | 'other';
type Zero = 'kept' | 'default';
const contract: readonly (readonly [string, Kind, string, Zero])[] = [
  ['featureGates', 'other', '', 'default'],
  ['clientConnection.kubeconfig', 'string', '', 'default'],
  ['clientConnection.acceptContentTypes', 'string', '', 'default'],
  ['clientConnection.contentType', 'string', 'application/vnd.kubernetes.protobuf', 'default'],
  ['clientConnection.qps', 'float32', '5', 'default'],
  ['clientConnection.burst', 'int32', '10', 'default'],
  ['hostnameOverride', 'string', '', 'default'],
  ['bindAddress', 'string', '0.0.0.0', 'default'],
  ['healthzBindAddress', 'string', '0.0.0.0:10256', 'default'],
  ['metricsBindAddress', 'string', '127.0.0.1:10249', 'default'],
  ['bindAddressHardFail', 'bool', 'false', 'default'],
  ['enableProfiling', 'bool', 'false', 'default'],
  ['showHiddenMetricsForVersion', 'string', '', 'default'],
  ['mode', 'string', '', 'default'],
  ['detectLocalMode', 'string', '', 'default'],
  ['detectLocal.bridgeInterface', 'string', '', 'default'],
  ['detectLocal.interfaceNamePrefix', 'string', '', 'default'],
  ['clusterCIDR', 'string', '', 'default'],
  ['nodePortAddresses', 'strings', '[]', 'default'],
  ['oomScoreAdj', 'int32', '-999', 'kept'],
  ['configSyncPeriod', 'duration', '15m0s', 'default'],
  ['portRange', 'string', '', 'default'],
  ['windowsRunAsService', 'bool', 'false', 'default'],
  ['iptables.masqueradeBit', 'int32', '14', 'kept'],
  ['iptables.masqueradeAll', 'bool', 'false', 'default'],
  ['iptables.localhostNodePorts', 'bool', 'true', 'kept'],
  ['iptables.syncPeriod', 'duration', '30s', 'default'],
  ['iptables.minSyncPeriod', 'duration', '1s', 'default'],
  ['nftables.masqueradeBit', 'int32', '14', 'kept'],
  ['nftables.masqueradeAll', 'bool', 'false', 'default'],
  ['nftables.syncPeriod', 'duration', '30s', 'default'],
  ['nftables.minSyncPeriod', 'duration', '1s', 'default'],
  ['ipvs.syncPeriod', 'duration', '30s', 'default'],
  ['ipvs.minSyncPeriod', 'duration', '0s', 'default'],
  ['ipvs.scheduler', 'string', '', 'default'],
  ['ipvs.excludeCIDRs', 'strings', '[]', 'default'],
  ['ipvs.strictARP', 'bool', 'false', 'default'],
  ['ipvs.tcpTimeout', 'duration', '0s', 'default'],
  ['ipvs.tcpFinTimeout', 'duration', '0s', 'default'],
  ['ipvs.udpTimeout', 'duration', '0s', 'default'],
  ['conntrack.maxPerCore', 'int32', '32768', 'kept'],
  ['conntrack.min', 'int32', '131072', 'kept'],
  ['conntrack.tcpEstablishedTimeout', 'duration', '24h0m0s', 'kept'],
  ['conntrack.tcpCloseWaitTimeout', 'duration', '1h0m0s', 'kept'],
  ['conntrack.tcpBeLiberal', 'bool', 'false', 'default'],
  ['conntrack.udpTimeout', 'duration', '0s', 'default'],
  ['conntrack.udpStreamTimeout', 'duration', '0s', 'default'],
  ['winkernel.networkName', 'string', '', 'default'],
  ['winkernel.sourceVip', 'string', '', 'default'],
  ['winkernel.enableDSR', 'bool', 'false', 'default'],
  ['winkernel.rootHnsEndpointName', 'string', '', 'default'],
  ['winkernel.forwardHealthCheckVip', 'bool', 'false', 'default'],
  ['udpIdleTimeout', 'duration', '250ms', 'default'],
  ['logging.format', 'string', 'text', 'default'],
  ['logging.flushFrequency', 'other', '5s', 'default'],
  ['logging.verbosity', 'other', '0', 'default'],
  ['logging.vmodule', 'other', '', 'default'],
  ['logging.options.text.splitStream', 'bool', 'false', 'default'],
  ['logging.options.text.infoBufferSize', 'other', '0', 'default'],
  ['logging.options.json.splitStream', 'bool', 'false', 'default'],
  ['logging.options.json.infoBufferSize', 'other', '0', 'default'],
];

/** A value of the file, what it reads as, values of wrong types, and the type's zero. */
const samples = {
  string: { good: '"x"', shown: 'x', bad: ['1', 'true', '[a]', '{a: 1}'], zero: '""' },
  bool: { good: 'true', shown: 'true', bad: ['"true"', '1', '[]'], zero: 'false' },
  int32: {
    good: '7',
    shown: '7',
    bad: ['"7"', '7.5', '2147483648', '-2147483649', 'x', '{}'],
    zero: '0',
  },
  float32: { good: '2.5', shown: '2.5', bad: ['"2.5"', 'true', '1e99'], zero: '0' },
  duration: { good: '90s', shown: '1m30s', bad: ['30', '"PT30S"', '1d', 'true'], zero: '0s' },
  strings: { good: '[a, b]', shown: '[a,b]', bad: ['a', '[1]', '{a: b}', '[{a: b}]'], zero: '[]' },
} as const;

const special: Readonly<
  Record<string, { good: string; shown: string; bad: readonly string[]; zero: string }>
> = {
  featureGates: { good: '{A: true}', shown: 'A=true', bad: ['{A: 1}', '[A]', 'A'], zero: '{}' },
  'logging.flushFrequency': {
    good: '1500000000',
    shown: '1.5s',
    bad: ['1.5', '"5"', 'true'],
    zero: '0',
  },
  'logging.verbosity': { good: '3', shown: '3', bad: ['-1', '2147483648', '"3"'], zero: '0' },
  'logging.vmodule': {
    good: '[{filePattern: a, verbosity: 2}]',
    shown: 'a=2',
    bad: ['a=2', '[a=2]', '[{filePattern: 1}]', '[{filePattern: a, verbosity: x}]'],
    zero: '[]',
  },
};
const quantity = { good: '"2Ki"', shown: '2Ki', bad: ['"2 Ki"', 'true', '[]'], zero: '"0"' };

function sampleOf(path: string, kind: Kind) {
  return kind === 'other' ? (special[path] ?? quantity) : samples[kind];
}

/** A file that holds one field. */
function fileWith(path: string, value: string): string {
  const keys = path.split('.');
  const last = keys.pop();
  const opening = keys.map((key, depth) => `${'  '.repeat(depth)}${key}:\n`).join('');
  return `${header}${opening}${'  '.repeat(keys.length)}${last}: ${value}\n`;
}

function read(path: string, value: string): string {
  const file = decodeFile(bytes(fileWith(path, value)));
  if (!file.ok) return file.text;
  const field = path as FieldPath;
  return rulesOf(field).format(withDefaults(file.given)[field]);
}

describe.each(contract)('field %s', (path, kind, standard, zeroMeans) => {
  const sample = sampleOf(path, kind);
  const line = 2 + path.split('.').length;

  test(`is ${JSON.stringify(standard)} by default, and when it is null`, () => {
    const field = path as FieldPath;
    expect(rulesOf(field).format(defaultSettings[field])).toBe(standard);
    expect(read(path, 'null')).toBe(standard);
  });

  test('takes a value of its type', () => {
    expect(read(path, sample.good)).toBe(sample.shown);
  });

  test.each(kind === 'int32' ? ['-2147483648', '2147483647'] : [])('takes %s', (value) => {
    expect(read(path, value)).toBe(value);
  });

  test(`given as zero is ${zeroMeans}`, () => {
    const zero = rulesOf(path as FieldPath).format(rulesOf(path as FieldPath).zero);
    expect(read(path, sample.zero)).toBe(zeroMeans === 'kept' ? zero : standard);
  });

  test.each(sample.bad)('refuses %s with its path and line', (bad) => {
    expect(read(path, bad)).toMatch(`failed to decode: ${path} (line ${line}): `);
  });
});

/** Field, what else the file holds, values in bounds; where kube-proxy says so, values beyond. */
type Bound = readonly [
  ...(readonly [field: string, rest: string, within: string]),
  ...(readonly [path?: string, detail?: string, beyond?: string]),
];
const not0 = 'must be greater than or equal to 0';
const above0 = 'must be greater than 0';
const bit = 'must be within the range [0, 31]';
const range = 'must be within the range ';
const linux = 'KubeProxyLinuxConfiguration';
const conntrack = `${linux}.KubeProxyConntrackConfiguration`;
const ipvs = 'KubeProxyIPVSConfiguration';
const pathOf = (field: string): string => field[0]!.toUpperCase() + field.slice(1);
const [ofIptables, ofNftables] = [
  'KubeProxyIPTablesConfiguration',
  'KubeProxyNFTablesConfiguration',
];
const bounds: readonly Bound[] = [
  ['iptables.masqueradeBit', 'mode: nftables', '0 31', `${ofIptables}.MasqueradeBit`, bit, '-1 32'],
  ['nftables.masqueradeBit', 'mode: nftables', '0 31', `${ofNftables}.MasqueradeBit`, bit, '-1 32'],
  ['nftables.masqueradeBit', 'mode: iptables', '-1 32'],
  [
    'oomScoreAdj',
    '',
    '-1000 0 1000',
    `${linux}.OOMScoreAdj`,
    `${range}[-1000, 1000]`,
    '-1001 1001',
  ],
  ['clientConnection.burst', '', '0 1', 'ClientConnection.Burst', not0, '-1'],
  ['configSyncPeriod', '', '1ns', 'ConfigSyncPeriod', above0, '-1s'],
  ['conntrack.maxPerCore', '', '0', `${conntrack}.MaxPerCore`, not0, '-1'],
  ['conntrack.min', '', '0', `${conntrack}.Min`, not0, '-1'],
  ...['EstablishedTimeout', 'CloseWaitTimeout'].map((name): Bound => {
    return [`conntrack.tcp${name}`, '', '0s', `${conntrack}.TCP${name}`, not0, '-1s'];
  }),
  ['conntrack.udpTimeout', '', '1s', `${conntrack}.UDPTimeout`, not0, '-1s'],
  ['conntrack.udpStreamTimeout', '', '1s', `${conntrack}.UDPStreamTimeout`, not0, '-1s'],
  ['ipvs.tcpTimeout', 'mode: ipvs', '1s', `${ipvs}.TCPTimeout`, not0, '-1s'],
  ['ipvs.tcpFinTimeout', 'mode: ipvs', '1s', `${ipvs}.TCPFinTimeout`, not0, '-1s'],
  ['ipvs.udpTimeout', 'mode: ipvs', '1s', `${ipvs}.UDPTimeout`, not0, '-1s'],
  ['ipvs.udpTimeout', 'mode: iptables', '-1s'],
  ['ipvs.syncPeriod', 'mode: ipvs', '1ns', 'SyncPeriod', above0, '-1s'],
  ['iptables.syncPeriod', 'mode: iptables', '1s', 'SyncPeriod', above0, '-1s'],
  ['nftables.syncPeriod', 'mode: nftables', '1s', 'SyncPeriod', above0, '-1s'],
  ['ipvs.minSyncPeriod', 'mode: ipvs', '30s', 'MinSyncPeriod', not0, '-1s'],
  ['iptables.minSyncPeriod', 'mode: iptables', '30s', 'MinSyncPeriod', not0, '-1s'],
  ['iptables.minSyncPeriod', 'mode: userspace', '30s', 'MinSyncPeriod', not0, '-1s'],
  ['iptables.minSyncPeriod', 'mode: ipvs', '-1s'],
  ['nftables.minSyncPeriod', 'mode: nftables', '30s', 'MinSyncPeriod', not0, '-1s'],
  ['nftables.maxSyncPeriod', 'mode: nftables', '1s 9h', 'MaxSyncPeriod', not0, '-1s'],
  ['iptables.maxSyncPeriod', '', '1s 9h', 'MaxSyncPeriod', not0, '-1s'],
  ...[
    ...['serviceLimits.frontends', 'serviceLimits.frontendEndpoints', 'serviceLimits.endpoints'],
    ...['serviceLimits.sourceRanges', 'serviceLimits.affinityPorts'],
    ...['serviceLimits.namespaceFactor', 'fastPathPackets'],
  ].map((field): Bound => [field, '', '0 1', pathOf(field), not0, '-1']),
  ...Object.entries({
    failureDetectionMaxEjected: 100,
    'connectionLimits.clientConnections': 1_000_000,
    'connectionLimits.clientShare': 100,
    'connectionLimits.namespaceConnections': 1_000_000,
    'connectionLimits.namespaceShare': 100,
  }).map(([field, most]): Bound => {
    return [field, '', `0 ${most}`, pathOf(field), `${range}[0, ${most}]`, `-1 ${most + 1}`];
  }),
  ['udpIdleTimeout', 'mode: userspace', '1ms', 'UDPIdleTimeout', above0, '-1s'],
  ['udpIdleTimeout', 'mode: iptables', '-1s'],
];

describe.for(bounds)('bounds of %s with "%s"', ([field, rest, within, path, detail, beyond]) => {
  const read = (value: string) =>
    loadFile(`${rest}\n${fileWith(field, value).slice(header.length)}`);

  test.each(within.split(' '))('%s is within', (value) => {
    expect(read(value).kind).toBe('run');
  });

  test.each(beyond?.split(' ') ?? [])('%s is beyond', (value) => {
    const text = errorOf(read(value));
    expect(text.split('\n')[0]).toContain('Error: failed validate: ');
    expect(text).toContain(`KubeProxyConfiguration.${path}: Invalid value: ${value}: ${detail}`);
    expect(text).toMatch(new RegExp(`\\n {2}${field} \\(line \\d+\\): ${value}: `));
  });
});

test('every bounded field is in the table of bounds, except those of logging', () => {
  const bounded = fieldPaths.filter((path) => settingTable[path].bounds !== undefined);
  const inTable = new Set(bounds.map(([path]) => path));
  // Its errors come before all others, see the rules of logging.
  expect(bounded.filter((path) => !inTable.has(path))).toEqual(['logging.flushFrequency']);
});

test('the fields are kube-proxy’s and the older reference’s, and our own marked ones', () => {
  const known = new Set(contract.map(([path]) => path));
  const ours = fieldPaths.filter((path) => !known.has(path));
  expect(fieldPaths.filter((path) => settingTable[path].origin === 'own')).toEqual(ours);
  expect(contract.filter(([path]) => !(fieldPaths as readonly string[]).includes(path))).toEqual(
    [],
  );
});
