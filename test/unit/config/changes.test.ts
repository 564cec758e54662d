import { describe, expect, it } from 'vitest';
import { configChanges } from '../../../src/config/changes.ts';
import type { Config, ModeName } from '../../../src/config/config.ts';
import { loadConfig } from '../../../src/config/load.ts';

const head = { apiVersion: 'kubeproxy.config.k8s.io/v1alpha1', kind: 'KubeProxyConfiguration' };

function configOf(fields: object): Config {
  const readFile = () => Buffer.from(JSON.stringify({ ...head, ...fields }));
  const result = loadConfig(['--config=/file'], { readFile });
  if (result.kind !== 'run') throw new Error(JSON.stringify(result));
  return result.config;
}

function changes(before: object, after: object, mode: ModeName = 'nftables') {
  return configChanges(configOf(before), configOf(after), mode);
}

const nothing = { live: [], restart: [] };

describe('a changed configuration', () => {
  it('has no changes if only the notation differs', () => {
    expect(changes({}, {})).toEqual(nothing);
    expect(changes({}, { conntrack: { maxPerCore: 32768 }, metricsBindAddress: '' })).toEqual(
      nothing,
    );
  });

  it.each<[object, string[]]>([
    [{ logging: { verbosity: 4 } }, ['logging.verbosity']],
    [{ clusterCIDR: '10.0.0.0/8' }, ['clusterCIDR']],
    [{ detectLocalMode: 'NodeCIDR' }, ['detectLocalMode/detectLocal']],
    [{ nodePortAddresses: ['10.0.0.0/8'] }, ['nodePortAddresses']],
    [
      { externalIPs: { cidrs: ['203.0.113.0/24'], namespaces: ['infra'] } },
      ['externalIPs.cidrs', 'externalIPs.namespaces'],
    ],
    [
      { conntrack: { min: 5, tcpCloseWaitTimeout: '5s' } },
      ['conntrack.min', 'conntrack.tcpCloseWaitTimeout'],
    ],
    [{ oomScoreAdj: -1 }, ['oomScoreAdj']],
    [
      {
        nftables: { masqueradeBit: 3, masqueradeAll: true, syncPeriod: '7s', minSyncPeriod: '2s' },
      },
      [
        'nftables.masqueradeBit',
        'nftables.masqueradeAll',
        'nftables.syncPeriod',
        'nftables.minSyncPeriod',
      ],
    ],
    [{ iptables: { localhostNodePorts: false } }, ['iptables.localhostNodePorts']],
    [{ udpIdleTimeout: '1s' }, ['udpIdleTimeout']],
  ])('takes effect immediately in %j', (fields, live) => {
    expect(changes({}, fields)).toEqual({ live, restart: [] });
  });

  it('names the fields of the mode that will run', () => {
    const after = { mode: 'iptables', iptables: { masqueradeAll: true } };
    const { live } = changes({ mode: 'nftables', nodePortAddresses: ['all'] }, after);
    expect(live).toEqual(['mode', 'nodePortAddresses', 'iptables.masqueradeAll']);
  });

  it.each<[object, string[]]>([
    [{ clientConnection: { kubeconfig: '/other' } }, ['clientConnection']],
    [{ healthzBindAddress: '0.0.0.0:1' }, ['healthzBindAddress']],
    [{ metricsBindAddress: '127.0.0.1:1' }, ['metricsBindAddress']],
    [{ readBindAddress: '127.0.0.1:1' }, ['readBindAddress']],
    [{ bindAddressHardFail: true }, ['bindAddressHardFail']],
    [{ bindAddress: '10.0.0.1' }, ['bindAddress']],
    [{ hostnameOverride: 'other' }, ['hostnameOverride']],
    [{ enableProfiling: true }, ['enableProfiling']],
    [
      { featureGates: { AllowServiceExternalIPs: false } },
      ['featureGates.AllowServiceExternalIPs'],
    ],
    [{ logging: { format: 'json' } }, ['logging.format']],
  ])('requires a new process for a change of %j', (fields, restart) => {
    expect(changes({}, fields)).toEqual({ live: [], restart });
  });

  it('is applied to other modes, and requires a new process in the section of the running mode', () => {
    expect(changes({ mode: 'iptables' }, { mode: 'ipvs' }, 'iptables')).toEqual({
      live: ['mode'],
      restart: [],
    });
    expect(changes({}, { iptables: { localhostNodePorts: false } }, 'iptables')).toEqual({
      live: [],
      restart: ['iptables.localhostNodePorts'],
    });
    expect(changes({ mode: 'ipvs' }, { mode: 'ipvs', ipvs: { scheduler: 'wrr' } }, 'ipvs')).toEqual(
      {
        live: [],
        restart: ['ipvs.scheduler'],
      },
    );
  });
});
