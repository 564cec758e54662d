/**
 * From flags to settings, with kube-proxy's precedence (behaviour document 1.3): without a file the
 * flags lie over the defaults; with a file only a few of them still count.
 */
import type { FieldPath, GivenSettings, Settings } from './fields/index.ts';
import { type FlagName, flagNames, flagTable } from './flag-table.ts';
import type { ParsedFlags } from './flags.ts';
import { appendPort, defaultSettings, settingsFrom, syncSection } from './settings.ts';

/** A field that a flag on the command line sets. */
export interface FlagField {
  readonly flag: FlagName;
  readonly field: FieldPath;
  readonly value: unknown;
}

/** What the flags on the command line set, field by field. */
export function flagFields(flags: ParsedFlags): readonly FlagField[] {
  const section = syncSection(flags.value('proxy-mode'));
  const active: readonly FlagName[] = syncFlags[section === 'ipvs' ? 'ipvs' : 'iptables'];
  return flagNames
    .filter((flag) => flags.isSet(flag))
    .flatMap((flag) =>
      fieldsOf(flag, section, active).map((field) => ({ flag, field, value: flags.value(flag) })),
    );
}

function fieldsOf(flag: FlagName, section: SyncSection, active: readonly FlagName[]): FieldPath[] {
  const { field } = flagTable[flag];
  if (field !== undefined) return [field];
  if (flag === 'masquerade-all') return ['iptables.masqueradeAll', 'nftables.masqueradeAll'];
  return active.includes(flag) ? [syncField(flag, section)] : [];
}

/** What the flags give, for a start without a file. */
export function givenByFlags(flags: ParsedFlags): GivenSettings {
  return settingsFrom(new Map(flagFields(flags).map(({ field, value }) => [field, value])));
}

const syncFlags = {
  iptables: ['iptables-sync-period', 'iptables-min-sync-period', 'iptables-max-sync-period'],
  ipvs: ['ipvs-sync-period', 'ipvs-min-sync-period'],
} as const;

type SyncSection = ReturnType<typeof syncSection>;

/** The iptables-* flags set the active mode's periods, also those of mode nftables. */
function syncField(name: FlagName, section: SyncSection): FieldPath {
  if (name.endsWith('-min-sync-period')) return `${section}.minSyncPeriod`;
  // Mode ipvs has no -max- flag, so its section is not asked for one.
  if (name === 'iptables-max-sync-period' && section !== 'ipvs') return `${section}.maxSyncPeriod`;
  return `${section}.syncPeriod`;
}

/** Settings of a start without a file. */
export function settingsOfFlags(flags: ParsedFlags, given: GivenSettings): Settings {
  const settings: Settings = { ...defaultSettings, ...ipvsDefault(flags), ...given };
  // Like kube-proxy, a configuration that is only written does not fold in the port flags.
  if (flags.value('write-config-to') !== '') return settings;
  return { ...settings, ...listenAddresses(flags, settings) };
}

/** Without a file, mode ipvs has the default of the flag, not that of the file. */
function ipvsDefault(flags: ParsedFlags): GivenSettings {
  if (flags.value('proxy-mode') !== 'ipvs') return {};
  return { 'ipvs.minSyncPeriod': flags.value('ipvs-min-sync-period') };
}

/** The two addresses with what the deprecated port flags say. */
export function listenAddresses(
  flags: ParsedFlags,
  settings: Settings,
): Pick<Settings, 'healthzBindAddress' | 'metricsBindAddress'> {
  return {
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
