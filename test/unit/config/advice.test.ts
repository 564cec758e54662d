import { describe, expect, test } from 'vitest';
import { adviceOn, modeDifferences } from '../../../src/config/advice.ts';
import { fieldPaths, settingTable } from '../../../src/config/settings/index.ts';
import { configOf, load, loadFile } from './support.ts';

const about = (file: string): string[] =>
  adviceOn(configOf(loadFile(file))).map((advice) => advice.about);

describe('advice on a configuration', () => {
  test('is given if the configuration names iptables', () => {
    expect(about('mode: iptables\n')).toEqual(['mode iptables']);
    expect(adviceOn(configOf(load(['--proxy-mode=iptables'])))).toHaveLength(1);
  });

  test('names what packets meet with an empty mode', () => {
    const packets = modeDifferences.map((difference) => difference.packets);
    const empty = ['mode empty', ...packets.map((words) => `mode empty: packets ${words}`)];
    expect(about('mode: ""\n')).toEqual(empty);
    const [, ...shown] = adviceOn(configOf(loadFile('mode: ""\n')));
    const others = modeDifferences.map(({ empty: own }) => own !== undefined);
    expect(shown.map(({ advice }) => advice.startsWith('by kube-proxy'))).toEqual(others);
    expect(about('iptables: {masqueradeAll: true}\n')).toEqual(empty);
    expect(about('mode: nftables\n')).toEqual([]);
  });

  test('describes the effect of each ipvs setting', () => {
    const file =
      'mode: ipvs\nipvs: {scheduler: lc, excludeCIDRs: [10.0.0.0/8], strictARP: true, ' +
      'tcpTimeout: 5s, tcpFinTimeout: 5s, udpTimeout: 5s, syncPeriod: 9s, minSyncPeriod: 2s}\n' +
      'iptables: {masqueradeBit: 3, masqueradeAll: true}\nnodePortAddresses: [10.0.0.0/8]\n';
    expect(about(file).sort()).toEqual([
      'iptables.masqueradeAll',
      'iptables.masqueradeBit',
      'ipvs.excludeCIDRs',
      'ipvs.minSyncPeriod',
      'ipvs.scheduler',
      'ipvs.strictARP',
      'ipvs.syncPeriod',
      'ipvs.tcpFinTimeout',
      'ipvs.tcpTimeout',
      'ipvs.udpTimeout',
      'mode ipvs',
      'nodePortAddresses',
    ]);
    expect(about('mode: ipvs\n')).toEqual(['mode ipvs']);
  });

  test('leads to the page on external IPs, if their limits or the gate are given', () => {
    const gate = 'featureGates: {AllowServiceExternalIPs';
    const given = ['externalIPs: {namespaces: [a]}', `${gate}: true}`, `${gate}: false}`];
    const found = given.map((line) => about(`mode: nftables\n${line}\n`));
    expect(found).toEqual([['externalIPs'], ['externalIPs'], []]);
  });

  test('covers every field of the section ipvs', () => {
    const ofIpvs = fieldPaths.filter((path) => path.startsWith('ipvs.'));
    expect(ofIpvs.filter((path) => settingTable[path].forIpvs === undefined)).toEqual([]);
  });
});
