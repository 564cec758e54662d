import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { bytes, configOf, errorOf, load, loadFile } from './support.ts';

function written(flags: readonly string[], file?: string): string {
  const result = load(['--write-config-to=out.yaml', ...flags], file);
  return result.kind === 'write-config' ? result.text : errorOf(result);
}

describe('a written configuration', () => {
  test('contains every field with its effective value, in alphabetical order', async () => {
    await expect(written([])).toMatchFileSnapshot('fixtures/written-defaults.txt');
  });

  test('contains periods and masqueradeAll only in the section of the mode', async () => {
    const file =
      'mode: nftables\nnftables: {masqueradeAll: true, syncPeriod: 9s, maxSyncPeriod: 10m}\n' +
      'iptables: {masqueradeAll: true, masqueradeBit: 3, syncPeriod: 8s}\n' +
      'featureGates: {ComponentFlagz: false}\nlogging: {vmodule: [{filePattern: a, verbosity: 1}]}\n';
    await expect(written([], file)).toMatchFileSnapshot('fixtures/written-nftables.txt');
  });

  test.each([
    ['mode: iptables\niptables: {syncPeriod: 7s, masqueradeAll: true}\n'],
    ['mode: ipvs\nipvs: {scheduler: sh, excludeCIDRs: [10.0.0.0/8], minSyncPeriod: 2s}\n'],
    ['mode: nftables\nnodePortAddresses: [10.0.0.0/8]\nclusterCIDR: 10.0.0.0/8,fd00::/8\n'],
    ['mode: userspace\nudpIdleTimeout: 3s\nportRange: 100-200\n'],
    ['bindAddress: "fd00::1"\nhostnameOverride: "yes"\nconntrack: {maxPerCore: 0}\n'],
    ['oomScoreAdj: 0\niptables: {localhostNodePorts: false}\nwinkernel: {enableDSR: true}\n'],
  ])('is read with the same meaning: %j', (file) => {
    // What is written says everything, also what log lines look like.
    const first = configOf(load(['--logging-format=text'], file));
    const again = loadConfig(['--config=proxy.yaml'], { readFile: () => bytes(written([], file)) });
    const { flags: _, given: __, detectLocal, ...meaning } = configOf(again);
    expect(first).toMatchObject(meaning);
    // That a mode is the default one is for messages alone.
    expect({ isDefault: false, ...first.detectLocal }).toMatchObject({
      ...detectLocal,
      isDefault: expect.any(Boolean),
    });
  });

  test('has udpIdleTimeout in mode userspace alone, since kube-proxy does not know it', () => {
    const has = ['userspace', 'iptables'].map((mode) => written([`--proxy-mode=${mode}`]));
    expect(has.map((text) => text.includes('udpIdleTimeout: 250ms'))).toEqual([true, false]);
  });

  test('is not written if there is an error', () => {
    expect(written(['--proxy-mode=x'])).toContain('Error: failed validate: ');
  });

  test('does not merge the port flags', () => {
    expect(written(['--healthz-port=0'])).toContain('healthzBindAddress: 0.0.0.0:10256\n');
    expect(written(['--healthz-bind-address=1.2.3.4'])).toContain('must be IP:port');
  });

  test('is the content of /configz, with primary unexpanded', () => {
    expect(configOf(loadFile('mode: nftables\n')).document).toMatchObject({
      apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
      kind: 'KubeProxyConfiguration',
      mode: 'nftables',
      nodePortAddresses: ['primary'],
      detectLocalMode: 'ClusterCIDR',
      iptables: { syncPeriod: '0s', masqueradeBit: 14 },
      nftables: { syncPeriod: '30s', minSyncPeriod: '1s' },
    });
  });
});
