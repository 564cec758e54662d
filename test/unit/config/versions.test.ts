import { describe, expect, test } from 'vitest';
import type { Config } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { fieldPaths } from '../../../src/config/settings/index.ts';
import { fileFields, pathInV1alpha2 } from '../../../src/config/versions.ts';
import { bytes, configOf, errorOf, loadFile, running } from './support.ts';

const header2 = 'apiVersion: kubeproxy.config.k8s.io/v1alpha2\nkind: KubeProxyConfiguration\n';

function load2(file: string) {
  return loadConfig(['--config=proxy.yaml'], { readFile: () => bytes(header2 + file) });
}

/** What a configuration means, without how it was written. */
function meaning({ given: _, ...config }: Config) {
  return config;
}

describe('a file of v1alpha2', () => {
  test('has the same meaning as one of v1alpha1, under its own names', () => {
    const second =
      'mode: nftables\nsyncPeriod: 9s\nminSyncPeriod: 2s\nmaxSyncPeriod: 2h\n' +
      'linux:\n  conntrack: {maxPerCore: 7, min: 8, tcpBeLiberal: true}\n' +
      '  oomScoreAdj: -5\n  masqueradeAll: true\n' +
      'detectLocal: {clusterCIDRs: [10.0.0.0/8, fd00::/8]}\nnodeIPOverride: [10.0.0.1]\n' +
      'iptables: {localhostNodePorts: true, masqueradeBit: 3}\nnftables: {masqueradeBit: 4}\n' +
      'bindAddressHardFail: false\nnodePortAddresses: [localhost]\nfeatureGates: {ComponentFlagz: false}\n';
    const section = (bit: number) =>
      `{masqueradeBit: ${bit}, masqueradeAll: true, syncPeriod: 9s, minSyncPeriod: 2s, ` +
      'maxSyncPeriod: 2h';
    const first =
      `mode: nftables\nnftables: ${section(4)}}\niptables: ${section(3)}, localhostNodePorts: true}\n` +
      'ipvs: {syncPeriod: 9s, minSyncPeriod: 2s}\n' +
      'conntrack: {maxPerCore: 7, min: 8, tcpBeLiberal: true}\noomScoreAdj: -5\n' +
      'clusterCIDR: 10.0.0.0/8,fd00::/8\nbindAddress: 10.0.0.1\n' +
      'nodePortAddresses: [localhost]\nfeatureGates: {ComponentFlagz: false}\n';
    const { config, warnings } = running(load2(second));
    expect(warnings).toEqual([]);
    expect(meaning(config)).toEqual(meaning(configOf(loadFile(first))));
  });

  test('has two different defaults', () => {
    const config = configOf(load2(''));
    expect(config.iptables.localhostNodePorts).toBe(false);
    expect(config.bindAddressHardFail).toBe(true);
    expect(config.given).toEqual([]);
    const { bindAddressHardFail: _, document: __, iptables: ___, ...rest } = meaning(config);
    expect(meaning(configOf(loadFile('')))).toMatchObject(rest);
  });

  test('sets a separate mark for mode ipvs', () => {
    const bits = (mode: string) => {
      const file = `mode: ${mode}\niptables: {masqueradeBit: 1}\nipvs: {masqueradeBit: 2}\n`;
      return configOf(load2(file)).modes;
    };
    expect(bits('ipvs').ipvs.masqueradeBit).toBe(2);
    expect(bits('iptables').iptables.masqueradeBit).toBe(1);
    expect(configOf(load2('mode: ipvs\niptables: {masqueradeBit: 1}\n')).modes.ipvs).toMatchObject({
      masqueradeBit: 14,
    });
  });

  test('is reported with its own field names and lines', () => {
    const file =
      'linux:\n  conntrack: {min: -1}\ndetectLocal:\n  clusterCIDRs: [x]\nsyncPeriod: -1s\n';
    const error = errorOf(load2(`mode: nftables\n${file}`));
    expect(error).toContain('\n  linux.conntrack.min (line 5): -1: must be ');
    expect(error).toContain('\n  detectLocal.clusterCIDRs (line 7): "x": must be a valid CIDR');
    expect(error).toContain('\n  syncPeriod (line 8): -1s: must be greater than 0');
    expect(errorOf(load2('linux: {oomScoreAdj: much}\n'))).toContain(
      'linux.oomScoreAdj (line 3): must be a whole number, not the string "much"',
    );
  });

  test('rejects removed or moved fields, and reports fields without effect', () => {
    const moved = 'clusterCIDR: 10.0.0.0/8\nportRange: "1"\nbindAddress: 1.2.3.4\noomScoreAdj: 1\n';
    expect(running(load2(moved)).warnings).toEqual([
      'Using lenient decoding as strict decoding failed: unknown fields, ignored: ' +
        'clusterCIDR (line 3), portRange (line 4), bindAddress (line 5), oomScoreAdj (line 6, did you mean linux.oomScoreAdj?)',
    ]);
    const idle = 'ipFamilyPolicy: RequireDualStack\nnodeIPOverride: [fd00::1, 10.0.0.1]\n';
    const { config, warnings } = running(load2(idle));
    expect(config.bindAddress.family).toBe('IPv6');
    expect(warnings).toEqual([
      expect.stringMatching(/^ipFamilyPolicy: Accepted, without effect: /),
      expect.stringMatching(/^nodeIPOverride: .*the first is used\.$/),
    ]);
  });

  test('has every field of v1alpha1, except the removed ones', () => {
    const given = new Set([...fileFields.v1alpha2.values()].flatMap(({ gives }) => gives));
    expect(fieldPaths.filter((path) => !given.has(path))).toEqual(['portRange']);
    expect(fieldPaths.filter((path) => pathInV1alpha2(path) === undefined)).toEqual([
      'bindAddress',
      'clusterCIDR',
      'portRange',
    ]);
  });
});

test('an unknown version is rejected with the message of kube-proxy', () => {
  const file = bytes('apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration\n');
  expect(errorOf(loadConfig(['--config=a'], { readFile: () => file }))).toContain(
    'no kind "KubeProxyConfiguration" is registered for version "kubeproxy.config.k8s.io/v1"',
  );
});
