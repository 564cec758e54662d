/**
 * From flags to settings, with kube-proxy's precedence (behaviour document 1.3): without a file the
 * flags lie over the defaults; with a file only a few of them still count.
 */
import type { FieldPath, GivenSettings, Settings } from './fields/index.ts';
import { type FlagName, flagNames, flagTable } from './flag-table.ts';
import type { ParsedFlags } from './flags.ts';
import { appendPort, defaultSettings, settingsFrom, syncSection } from './settings.ts';

/** What the flags give, for a start without a file. */
export function givenByFlags(flags: ParsedFlags): GivenSettings {
  const values = new Map<FieldPath, unknown>();
  for (const name of flagNames) {
    const { field } = flagTable[name];
    if (field !== undefined && flags.isSet(name)) values.set(field, flags.value(name));
  }
  // Read apart, because it also counts with a file and has its own rules.
  values.delete('hostnameOverride');
  if (flags.isSet('masquerade-all')) {
    values.set('iptables.masqueradeAll', flags.value('masquerade-all'));
    values.set('nftables.masqueradeAll', flags.value('masquerade-all'));
  }
  const section = syncSection(flags.value('proxy-mode'));
  for (const name of syncFlags[section === 'ipvs' ? 'ipvs' : 'iptables']) {
    if (flags.isSet(name)) values.set(syncField(name, section), flags.value(name));
  }
  return settingsFrom(values);
}

const syncFlags = {
  iptables: ['iptables-sync-period', 'iptables-min-sync-period', 'iptables-max-sync-period'],
  ipvs: ['ipvs-sync-period', 'ipvs-min-sync-period'],
} as const;

type SyncFlag = (typeof syncFlags)['iptables' | 'ipvs'][number];

/** The iptables-* flags set the active mode's periods, also those of mode nftables. */
function syncField(name: SyncFlag, section: 'nftables' | 'iptables' | 'ipvs'): FieldPath {
  if (name.endsWith('-min-sync-period')) return `${section}.minSyncPeriod`;
  // Mode ipvs has no -max- flag, so its section is not asked for one.
  if (name === 'iptables-max-sync-period' && section !== 'ipvs') return `${section}.maxSyncPeriod`;
  return `${section}.syncPeriod`;
}

/** Settings of a start without a file. */
export function settingsOfFlags(flags: ParsedFlags, given: GivenSettings): Settings {
  const settings: Settings = {
    ...defaultSettings,
    // Without a file, mode ipvs has the default of the flag, not that of the file.
    'ipvs.minSyncPeriod': flags.value('ipvs-min-sync-period'),
    ...given,
  };
  // Like kube-proxy, a configuration that is only written does not fold in the port flags.
  if (flags.value('write-config-to') !== '') return settings;
  return {
    ...settings,
    healthzBindAddress: listenAddress(settings.healthzBindAddress, flags.value('healthz-port')),
    metricsBindAddress: listenAddress(settings.metricsBindAddress, flags.value('metrics-port')),
  };
}

/** Port 0 means "do not serve", which is written as an empty address. */
function listenAddress(address: string, port: number): string {
  return port === 0 ? '' : appendPort(address, port);
}

/** A file's settings with the logging flags laid over them; the patterns of flags come first. */
export function withLoggingFlags(settings: Settings, flags: ParsedFlags): Settings {
  const values = new Map<FieldPath, unknown>();
  for (const name of flagNames) {
    const { field, group } = flagTable[name];
    if (group === 'logging' && field !== undefined && flags.isSet(name)) {
      values.set(field, flags.value(name));
    }
  }
  const vmodule = [...flags.value('vmodule'), ...settings['logging.vmodule']];
  return { ...settings, ...settingsFrom(values), 'logging.vmodule': vmodule };
}

/** Flags that stand on the command line and do not count because a file is given. */
export function droppedFlags(flags: ParsedFlags): readonly FlagName[] {
  return flagNames.filter(
    (name) => flags.isSet(name) && name !== 'config' && flagTable[name].withConfig !== 'kept',
  );
}
