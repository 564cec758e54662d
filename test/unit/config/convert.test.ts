import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { CommandResult } from '../../../src/tools/import/conversion.ts';
import { convert, type ImportSource, validateFile } from '../../../src/tools/import/index.ts';
import { bytes } from './support.ts';

const begin = 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\n';

function convertFixture(from: ImportSource, name: string): CommandResult {
  return convert(from, readFileSync(new URL(`fixtures/${name}`, import.meta.url)));
}

function convertText(from: ImportSource, text: string): CommandResult {
  return convert(from, bytes(text));
}

/** A conversion must yield a file that loads. */
function expectValid(result: CommandResult): void {
  expect(result.exitCode).toBe(0);
  expect(validateFile('converted.yaml', bytes(result.text))).toMatchObject({ exitCode: 0 });
}

describe('config convert from OpenShift', () => {
  test('converts the sync period and the arguments of a Network', () => {
    const result = convertFixture('openshift', 'openshift-network.yaml');
    expect(result.text).toBe(
      `${begin}healthzBindAddress: 0.0.0.0:10255\niptables:\n  maxSyncPeriod: 1m0s\n` +
        '  minSyncPeriod: 30s\n  syncPeriod: 30s\nkind: KubeProxyConfiguration\n' +
        'metricsBindAddress: 0.0.0.0:29102\nmode: iptables\n',
    );
    const at = 'spec.kubeProxyConfig';
    const standard = "the operator's default: became";
    expect(result.notes).toEqual([
      `${standard} healthzBindAddress: 0.0.0.0:10255`,
      `${standard} metricsBindAddress: 0.0.0.0:29102`,
      `${standard} mode: iptables`,
      `${at}.iptablesSyncPeriod: became iptables.syncPeriod: 30s`,
      `${at}.proxyArguments.iptables-min-sync-period: became iptables.minSyncPeriod: 30s`,
      `${at}.proxyArguments.iptables-max-sync-period: became iptables.maxSyncPeriod: 1m0s`,
    ]);
    expectValid(result);
  });

  test('accepts a List with the Network, and uses its pod CIDR', () => {
    const result = convertFixture('openshift', 'openshift-list.yaml');
    expect(result.text).toContain('clusterCIDR: 10.132.0.0/14\n');
    expect(result.notes).toContain('spec.clusterNetwork: became clusterCIDR: 10.132.0.0/14');
    expect(result.notes).toContain('spec.serviceNetwork: left out: not for the proxy');
    expectValid(result);
  });

  const network = (spec: string): string =>
    `apiVersion: operator.openshift.io/v1\nkind: Network\nspec: ${spec}\n`;

  test('prefers arguments to fields, and the last value of an argument', () => {
    const spec =
      '{kubeProxyConfig: {bindAddress: 10.0.0.1, iptablesSyncPeriod: 10s, proxyArguments: ' +
      '{iptables-sync-period: ["20s", "40s"], node-port-addresses: ["10.0.0.0/8,fd00::/8"]}}}';
    const result = convertText('openshift', network(spec));
    expect(result.text).toContain('  syncPeriod: 40s\n');
    expect(result.text).toContain('bindAddress: 10.0.0.1\n');
    expect(result.text).toContain('nodePortAddresses:\n- 10.0.0.0/8\n- fd00::/8\n');
    expectValid(result);
  });

  test('reports all errors together, with their positions', () => {
    const spec =
      '{kubeProxyConfig: {iptablesSyncPeriod: PT30S, x: 1, proxyArguments: ' +
      '{masquerade-al: ["true"], v: [2], iptables-masquerade-bit: ["32"]}}}';
    const result = convertText('openshift', network(spec));
    expect(result).toMatchObject({ text: '', exitCode: 1 });
    const at = 'spec.kubeProxyConfig';
    expect(result.notes).toContain(`${at}.x: left out: it is not known`);
    expect(result.notes.filter((note) => note.startsWith('error: '))).toEqual([
      `error: ${at}.proxyArguments.v: must be a list of strings; put quotes around the number 2`,
      `error: ${at}.iptablesSyncPeriod: iptables.syncPeriod: time: invalid duration "PT30S"`,
      `error: ${at}.proxyArguments.masquerade-al: is not an argument that the operator knows ` +
        '(did you mean masquerade-all?)',
      'error: iptables.masqueradeBit: 32: must be within the range [0, 31]',
    ]);
  });

  test('omits two blocks of one family', () => {
    const spec = '{clusterNetwork: [{cidr: 10.0.0.0/8}, {cidr: 11.0.0.0/8}], kubeProxyConfig: {}}';
    const result = convertText('openshift', network(spec));
    expect(result.text).not.toContain('clusterCIDR');
    expect(result.notes.join()).toContain('clusterCIDR takes one block a family');
    const dual = '{clusterNetwork: [{cidr: 10.0.0.0/8}, {cidr: "fd00::/48"}]}';
    const { text } = convertText('openshift', network(dual));
    expect(text).toContain('clusterCIDR: 10.0.0.0/8,fd00::/48\n');
  });

  test.each([
    ['kind: Network\napiVersion: config.openshift.io/v1\n', 'one Network of operator.openshift.io'],
    ['kind: List\napiVersion: v1\nitems: []\n', 'none is in it'],
    [network('{kubeProxyConfig: 1}'), 'spec.kubeProxyConfig: must be a mapping, not the number 1'],
    [network('{kubeProxyConfig: {proxyArguments: [a]}}'), 'must be a mapping of flags, not a list'],
    ['a: [', '(line 1): yaml: '],
    ['', 'one Network of operator.openshift.io'],
  ])('rejects %j', (text, error) => {
    const result = convertText('openshift', text);
    expect(result.exitCode).toBe(1);
    expect(result.notes.join('\n')).toContain(error);
  });
});

describe('config convert from OVHcloud', () => {
  test('converts a customization, and tolerates an extra comma', () => {
    const result = convertFixture('ovhcloud', 'ovhcloud-customization.txt');
    expect(result.text).toBe(
      `${begin}iptables:\n  minSyncPeriod: 1s\n  syncPeriod: 30s\n` +
        'ipvs:\n  scheduler: rr\n  syncPeriod: 30s\nkind: KubeProxyConfiguration\n',
    );
    expect(result.notes[0]).toBe(
      'file: a comma after the last member, which JSON does not allow, was skipped (line 13)',
    );
    expect(result.notes).toContain('apiServer: left out: not for the proxy');
    expect(result.notes).toContain('kubeProxy.ipvs.syncPeriod: became ipvs.syncPeriod: 30s');
    expectValid(result);
  });

  test('uses the mode in the payload of a cluster, and tolerates comments', () => {
    const result = convertFixture('ovhcloud', 'ovhcloud-cluster.txt');
    expect(result.text).toContain('mode: ipvs\n');
    expect(result.text).toContain('  tcpTimeout: 15m0s\n');
    expect(result.notes).toContain('kubeProxyMode: became mode: ipvs');
    expect(result.notes).toContain('region: left out: not for the proxy');
    expect(result.notes[0]).toContain('comments, which JSON does not have, were skipped (line 7)');
    expectValid(result);
  });

  test('replaces all fields by a payload', () => {
    const result = convertFixture('ovhcloud', 'ovhcloud-replacement.txt');
    expect(result.text).toBe(
      `${begin}iptables:\n  syncPeriod: 2m0s\nkind: KubeProxyConfiguration\n`,
    );
    expect(result.notes).toContain('kubeProxy.ipvs: not given: its fields have their defaults');
    expectValid(result);
  });

  test.each([
    ['{"kubeProxy": {}}', true],
    ['{"kubeProxyMode": "iptables", "customization": {}}', false],
    ['{"kubeProxyMode": null, "customization": {}}', true],
  ])('reports that the mode is not set in %s: %s', (text, isReported) => {
    const result = convertText('ovhcloud', text);
    const notes = result.notes.filter((note) => note.startsWith('kubeProxyMode: not given: '));
    expect(notes.length > 0).toBe(isReported);
    expectValid(result);
  });

  test.each([
    '{"region": "GRA5", "customization": {}}',
    '{"region": "GRA5", "name": "my-super-cluster"}',
    '{"kubeProxy": {"nftables": {}, "iptables": {"x": "PT1S", "syncPeriod": null}}}',
  ])('prints no empty file where it left out all of %s', (text) => {
    const result = convertText('ovhcloud', text);
    expect(result).toMatchObject({ text: '', exitCode: 1 });
    expect(result.notes).toContain('error: file: nothing in it is a setting of the proxy');
  });

  test('takes zero for the default in every form of the documented example', () => {
    const section = '{"minSyncPeriod": "PT0S", "syncPeriod": "PT0S"}';
    const proxy = `{"iptables": ${section}, "ipvs": {"scheduler": "rr", "syncPeriod": "PT0S"}}`;
    for (const text of [
      `{"kubeProxyMode": "ipvs", "customization": {"kubeProxy": ${proxy}}}`,
      `{"kubeProxy": ${proxy}}`,
      proxy,
    ]) {
      const result = convertText('ovhcloud', text);
      expect(result.notes.join('\n')).toContain('iptables.syncPeriod: 0s means the default, 30s');
      expect(result.text).toContain('ipvs:\n  scheduler: rr\n');
      expectValid(result);
    }
  });

  test('reports the position of a missing comma', () => {
    expect(convertFixture('ovhcloud', 'ovhcloud-missing-comma.txt')).toEqual({
      text: '',
      notes: ['error: line 5: Missing , between flow map items, at: "syncPeriod": "PT60S"'],
      exitCode: 1,
    });
  });

  test.each([
    [
      '{"kubeProxy": {"iptables": {"syncPeriod": "30s"}}}',
      'kubeProxy.iptables.syncPeriod: "30s" is not a duration',
    ],
    [
      '{"kubeProxy": {"ipvs": {"udpTimeout": 3}}}',
      'kubeProxy.ipvs.udpTimeout: must be a string, not the number 3',
    ],
    [
      '{"kubeProxy": {"iptables": {"syncPeriod": "-PT3S"}}}',
      'iptables.syncPeriod: -3s: must be greater than 0',
    ],
    ['{"kubeProxy": []}', 'kubeProxy: must be an object, not a list'],
    ['{"kubeProxyMode": "fast"}', 'mode: "fast": must be '],
    ['[]', 'must be an object, not a list'],
    ['{"a" 1}', 'line 1: Missing , or : between flow map items, at: {"a" 1}'],
    ['{"a": 1,, "b": 2}', 'line 1: Unexpected , in flow map'],
    ['{"a": ["1" "2"]}', 'line 1: Missing , or : between flow sequence items'],
    ['{"a": "x', 'line 1: Missing closing "quote'],
    ['{"a": "\\x"}', 'line 1: Invalid escape sequence'],
    ['{"a": {"b": 1}\n', 'line 2: Flow map must end with a }'],
    ['{} {}', 'line 1: Unexpected flow-map-start at node end'],
    ['', 'must be an object, not nothing'],
    [`${'{"a": '.repeat(60)}1${'}'.repeat(60)}`, 'nested more than 50 levels deep'],
  ])('%s is refused', (text, error) => {
    const result = convertText('ovhcloud', text);
    expect(result.exitCode).toBe(1);
    expect(result.notes.join('\n')).toContain(error);
  });

  test('omits fields that the API does not have, with a note', () => {
    const text =
      '{"kubeProxyMode": "ipvs", "customization": {"kubeProxy": ' +
      '{"nftables": {}, "iptables": {"x": "PT1S", "syncPeriod": null}}}}';
    const { notes, exitCode } = convertText('ovhcloud', text);
    expect(exitCode).toBe(0);
    expect(notes).toContain('customization.kubeProxy.nftables: left out: not known');
    expect(notes).toContain('customization.kubeProxy.iptables.x: left out: not known');
  });
});
