import { describe, expect, test } from 'vitest';
import { type ModeName, type ModeSettings, modeNames } from '../../../src/config/config.ts';
import { configOf, load, loadFile, running } from './support.ts';

function settingsOf(file: string, mode: ModeName): ModeSettings {
  return configOf(loadFile(file)).modes[mode];
}

describe('what each mode would run with', () => {
  test('is the default when nothing is given', () => {
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

  test('comes from the section of the requested mode', () => {
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

  test("kube-proxy's own default of 1s means no wait, any other minimum is kept", () => {
    const minimum = (text: string): number =>
      settingsOf(`nftables: {minSyncPeriod: ${text}}\n`, 'nftables').minSyncPeriodMs;
    expect([minimum('1s'), minimum('500ms'), minimum('1500ms')]).toEqual([0, 500, 1500]);
  });

  test('mode ipvs masquerades as the iptables section says', () => {
    const file = 'mode: ipvs\niptables: {masqueradeBit: 0, masqueradeAll: true, syncPeriod: 5s}\n';
    expect(settingsOf(file, 'ipvs')).toMatchObject({
      masqueradeBit: 0,
      masqueradeMark: 1,
      masqueradeAll: true,
      syncPeriodMs: 30_000,
    });
  });

  test('an empty mode that becomes nftables keeps what the iptables section gives', () => {
    const file = 'iptables: {masqueradeBit: 7, masqueradeAll: true, syncPeriod: 9s}\n';
    expect(settingsOf(file, 'nftables')).toMatchObject({
      masqueradeBit: 7,
      masqueradeAll: true,
      syncPeriodMs: 9000,
    });
  });

  test('zeros and nulls of the nftables section do not count as given', () => {
    const file =
      'mode: ""\niptables: {masqueradeAll: true, masqueradeBit: 7}\n' +
      'nftables: {masqueradeAll: false, masqueradeBit: null, minSyncPeriod: 0s, syncPeriod: 0s}\n';
    expect(settingsOf(file, 'nftables')).toMatchObject({ masqueradeBit: 7, masqueradeAll: true });
  });

  test('an empty mode that becomes nftables prefers what its own section gives', () => {
    const file =
      'iptables: {masqueradeBit: 7, syncPeriod: 9s}\nnftables: {masqueradeBit: 8, syncPeriod: 5s}\n';
    const { nodePortAddresses, modes } = configOf(loadFile(file));
    expect(modes.nftables).toMatchObject({ masqueradeBit: 8, syncPeriodMs: 5000 });
    // With an empty mode kube-proxy serves node ports everywhere, so that must not shrink.
    expect(nodePortAddresses).toEqual({ kind: 'all' });
  });

  test('falling back from nftables keeps what its section gives', () => {
    const file =
      'mode: nftables\nnftables: {masqueradeBit: 8, masqueradeAll: true, syncPeriod: 5s}\n';
    expect(settingsOf(file, 'iptables')).toMatchObject({
      masqueradeBit: 8,
      masqueradeAll: true,
      syncPeriodMs: 5000,
    });
  });

  test('a wrong value in a section that is not asked for is not used, with a warning', () => {
    const { config, warnings } = running(loadFile('nftables: {masqueradeBit: 40}\n'));
    expect(config.modes.nftables.masqueradeBit).toBe(14);
    expect(warnings).toEqual([
      'nftables.masqueradeBit is not used: 40: must be within the range [0, 31]',
    ]);
  });

  test('--masquerade-all holds in every mode, --iptables-masquerade-bit not in nftables', () => {
    const flags = ['--masquerade-all', '--iptables-masquerade-bit=5', '--proxy-mode=nftables'];
    const { modes } = configOf(load(flags));
    expect(modeNames.map((mode) => modes[mode].masqueradeAll)).toEqual([true, true, true, true]);
    expect([modes.nftables.masqueradeBit, modes.iptables.masqueradeBit]).toEqual([14, 5]);
  });

  test('IPVS timeouts count in mode ipvs only', () => {
    const file = 'ipvs: {tcpTimeout: 15m, udpTimeout: 5s, strictARP: true}\n';
    expect(configOf(loadFile(`mode: ipvs\n${file}`)).ipvs).toMatchObject({
      tcpTimeoutMs: 900_000,
      udpTimeoutMs: 5000,
      strictARP: true,
    });
    expect(configOf(loadFile(file)).ipvs).toMatchObject({ tcpTimeoutMs: 0, udpTimeoutMs: 0 });
  });
});
