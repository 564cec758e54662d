import { describe, expect, test } from 'vitest';
import { type ModeName, modeNames } from '../../../src/config/config.ts';
import { configOf, load, loadFile, running } from './support.ts';

function settingsOf(file: string, mode: ModeName) {
  return configOf(loadFile(file)).modes[mode];
}

describe('the settings of each mode', () => {
  test('are the defaults if nothing is set', () => {
    for (const mode of modeNames) {
      expect(settingsOf('', mode)).toEqual({
        masqueradeBit: 14,
        masqueradeMark: 0x4000,
        masqueradeAll: false,
        syncPeriodMs: 30_000,
        minSyncPeriodMs: 0,
        fullSyncPeriodMs: mode === 'ipvs' ? 30_000 : 3_600_000,
      });
    }
  });

  test('are read from the section of the requested mode', () => {
    const file =
      'mode: nftables\n' +
      'nftables: {masqueradeBit: 31, masqueradeAll: true, syncPeriod: 9s, ' +
      'minSyncPeriod: 2s, maxSyncPeriod: 5m}\n' +
      'iptables: {masqueradeBit: 3, syncPeriod: 8s}\n';
    expect(settingsOf(file, 'nftables')).toEqual({
      masqueradeBit: 31,
      masqueradeMark: 0x80000000,
      masqueradeAll: true,
      syncPeriodMs: 9000,
      minSyncPeriodMs: 2000,
      fullSyncPeriodMs: 300_000,
    });
  });

  test('are those of their own section where the file gives one of its periods', () => {
    for (const period of ['syncPeriod: 40s', 'minSyncPeriod: 20s']) {
      const file = `iptables: {syncPeriod: 50s, minSyncPeriod: 5s}\nnftables: {${period}}\n`;
      const { minSyncPeriodMs, syncPeriodMs } = settingsOf(file, 'nftables');
      expect([minSyncPeriodMs, syncPeriodMs]).toEqual(
        period.startsWith('sync') ? [0, 40_000] : [20_000, 30_000],
      );
    }
    expect(settingsOf('mode: ipvs\nipvs: {syncPeriod: 20s}\n', 'ipvs').fullSyncPeriodMs).toBe(
      20_000,
    );
  });

  test("treat kube-proxy's own default of 1s as no wait, and keep any other minimum", () => {
    const minimum = (text: string): number =>
      settingsOf(`nftables: {minSyncPeriod: ${text}}\n`, 'nftables').minSyncPeriodMs;
    expect([minimum('1s'), minimum('500ms'), minimum('1500ms')]).toEqual([0, 500, 1500]);
  });

  test('of ipvs use masquerading of the iptables section', () => {
    const file = 'mode: ipvs\niptables: {masqueradeBit: 0, masqueradeAll: true, syncPeriod: 5s}\n';
    expect(settingsOf(file, 'ipvs')).toMatchObject({
      masqueradeBit: 0,
      masqueradeMark: 1,
      masqueradeAll: true,
      syncPeriodMs: 30_000,
    });
  });

  test('use the iptables section if an empty mode becomes nftables', () => {
    const file = 'iptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 9s}\n';
    expect(settingsOf(file, 'nftables')).toMatchObject({
      masqueradeBit: 7,
      masqueradeAll: true,
      syncPeriodMs: 9000,
    });
  });

  test('ignore zeros and nulls of the nftables section', () => {
    const file =
      'mode: ""\niptables: {masqueradeAll: true, masqueradeBit: 7}\n' +
      'nftables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}\n';
    expect(settingsOf(file, 'nftables')).toMatchObject({ masqueradeBit: 7, masqueradeAll: true });
  });

  test('prefer the nftables section if an empty mode becomes nftables', () => {
    const file =
      'iptables: {masqueradeBit: 7, syncPeriod: 9s}\nnftables: {masqueradeBit: 8, syncPeriod: 5s}\n';
    const { nodePortAddresses, modes } = configOf(loadFile(file));
    expect(modes.nftables).toMatchObject({ masqueradeBit: 8, syncPeriodMs: 5000 });
    // With an empty mode kube-proxy serves node ports everywhere, so that must not shrink.
    expect(nodePortAddresses).toEqual({ kind: 'all' });
  });

  test('keep the nftables section after a fallback from nftables', () => {
    const file =
      'mode: nftables\nnftables: {masqueradeBit: 8, masqueradeAll: true, syncPeriod: 5s}\n';
    expect(settingsOf(file, 'iptables')).toMatchObject({
      masqueradeBit: 8,
      masqueradeAll: true,
      syncPeriodMs: 5000,
    });
  });

  test('ignore an invalid value of an unused section, with a warning', () => {
    const { config, warnings } = running(loadFile('nftables: {masqueradeBit: 40}\n'));
    expect(config.modes.nftables.masqueradeBit).toBe(14);
    expect(warnings).toEqual([
      'nftables.masqueradeBit is not used: 40: must be within the range [0, 31]',
    ]);
  });

  test('use --masquerade-all in every mode, and --iptables-masquerade-bit not in nftables', () => {
    const flags = ['--masquerade-all', '--iptables-masquerade-bit=5', '--proxy-mode=nftables'];
    const { modes } = configOf(load(flags));
    expect(modeNames.map((mode) => modes[mode].masqueradeAll)).toEqual([true, true, true, true]);
    expect([modes.nftables.masqueradeBit, modes.iptables.masqueradeBit]).toEqual([14, 5]);
  });

  test('use IPVS timeouts in mode ipvs only, in whole seconds that are never rounded to 0', () => {
    const file = 'ipvs: {tcpTimeout: 15m, udpTimeout: 500ms, strictARP: true}\n';
    expect(configOf(loadFile(`mode: ipvs\n${file}`)).ipvs).toMatchObject({
      tcpTimeoutSeconds: 900,
      udpTimeoutSeconds: 1,
      strictARP: true,
    });
    expect(configOf(loadFile(file)).ipvs).toMatchObject({
      tcpTimeoutSeconds: 0,
      udpTimeoutSeconds: 0,
    });
  });
});
