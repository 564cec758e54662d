import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { formatCIDR } from '../../../src/net/address.ts';
import { configOf, load, running } from './support.ts';

function fixture(name: string) {
  const readFile = (path: string) => readFileSync(new URL(`fixtures/${path}`, import.meta.url));
  return running(loadConfig([`--config=${name}`], { readFile }));
}

describe('the file that kubeadm writes', () => {
  test('is loaded without a warning and has the defaults', () => {
    const { config, warnings } = fixture('kubeadm.yaml');
    const flags = [
      '--kubeconfig=/var/lib/kube-proxy/kubeconfig.conf',
      '--cluster-cidr=10.244.0.0/16',
    ];
    const provenance = { flags: [], given: [] };
    const { configPath, modes, ...rest } = { ...config, ...provenance };
    const {
      configPath: _,
      modes: expectedModes,
      ...expected
    } = {
      ...configOf(load(flags)),
      ...provenance,
    };
    expect(warnings).toEqual([]);
    expect(configPath).toBe('kubeadm.yaml');
    expect(rest).toEqual(expected);
    expect(modes.iptables).toEqual(expectedModes.iptables);
    expect(modes.nftables).toEqual(expectedModes.nftables);
  });
});

describe('a file with every field of the older reference', () => {
  test('is accepted completely', () => {
    const { config } = fixture('older-reference.yaml');
    expect(config).toMatchObject({
      mode: 'userspace',
      hostnameOverride: 'node-7.example.com',
      bindAddressHardFail: true,
      profiling: true,
      source: { kubeconfigPath: '/etc/proxy/kubeconfig', qps: 20, burst: 40 },
      userspace: { udpIdleTimeoutMs: 2000 },
      ipvs: { scheduler: 'wlc', strictARP: true },
      conntrack: {
        maxPerCore: 0,
        min: 1000,
        tcpEstablishedTimeoutMs: 7_200_000,
        tcpCloseWaitTimeoutMs: 60_000,
      },
      oomScoreAdj: -998,
      detectLocal: { kind: 'NodeCIDR' },
    });
    expect(config.modes.userspace).toEqual({
      masqueradeBit: 15,
      masqueradeMark: 0x8000,
      masqueradeAll: true,
      syncPeriodMs: 45_000,
      minSyncPeriodMs: 5000,
      fullSyncPeriodMs: 3_600_000,
    });
    const { nodePortAddresses } = config;
    const cidrs = nodePortAddresses.kind === 'listed' ? nodePortAddresses.cidrs : [];
    expect(cidrs.map(formatCIDR)).toEqual(['127.0.0.0/8']);
  });

  test('causes warnings only for fields without effect', () => {
    const { warnings } = fixture('older-reference.yaml');
    expect(warnings.filter((line) => !line.startsWith('winkernel.'))).toEqual([
      'portRange has no effect: no mode allocates proxy ports',
    ]);
  });
});
