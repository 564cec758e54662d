import { describe, expect, test } from 'vitest';
import { modeAdvice } from '../../../src/config/advice.ts';
import { fieldPaths, settingTable } from '../../../src/config/settings/index.ts';
import { configOf, load, loadFile } from './support.ts';

const about = (file: string): string[] =>
  modeAdvice(configOf(loadFile(file))).map((advice) => advice.about);

describe('advice on the proxy mode', () => {
  test('is given if the configuration names iptables, and not if the mode is not set', () => {
    expect(about('mode: iptables\n')).toEqual(['mode iptables']);
    expect(about('mode: ""\n')).toEqual([]);
    expect(about('iptables: {masqueradeAll: true}\n')).toEqual([]);
    expect(modeAdvice(configOf(load(['--proxy-mode=iptables'])))).toHaveLength(1);
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

  test('covers every field of the section ipvs', () => {
    const ofIpvs = fieldPaths.filter((path) => path.startsWith('ipvs.'));
    expect(ofIpvs.filter((path) => settingTable[path].forIpvs === undefined)).toEqual([]);
  });
});
