/**
 * Sets of values: the defaults, what becomes of what a file or a command line gives (behaviour
 * document 1.3, 2.2, 2.3), and the public form of all (1.5).
 */

import { isDeepStrictEqual } from 'node:util';
import { stringify } from 'yaml';
import { isModeName, type ModeName, modeTable } from '../modes/mode-table.ts';
import { joinHostPort, parseAddress } from '../net/address.ts';
import type { ParsedFlags } from './flags.ts';
import {
  type FieldPath,
  fieldPaths,
  type GivenSettings,
  type SettingKey,
  type Settings,
  settingKeys,
  settingTable,
} from './settings/index.ts';
import { defaultOf, isZero, type Json, rulesOf } from './types.ts';

const healthzPort = 10256;
const metricsPort = 10249;

export const apiVersion = 'kubeproxy.config.k8s.io/v1alpha1';
export const kind = 'KubeProxyConfiguration';

/** Makes settings out of loose values; the one place where the table's types are trusted. */
export function settingsFrom(values: Iterable<readonly [FieldPath, unknown]>): GivenSettings {
  return Object.fromEntries(values) as GivenSettings;
}

/** Every field at its default. */
export const defaultSettings = Object.freeze(
  settingsFrom(fieldPaths.map((path) => [path, defaultOf(path)])),
) as Settings;

/** Whether a value in a file counts as "not given" because it is the type's zero value. */
export function meansDefault(path: FieldPath, value: unknown): boolean {
  return settingTable[path].keepsZero !== true && isZero(path, value);
}

/** A file's fields with defaults for the rest; default addresses have the bind address's family. */
export function withDefaults(given: GivenSettings): Settings {
  const settings = { ...defaultSettings, ...given };
  const isIPv4 = parseAddress(settings.bindAddress)?.family === 'IPv4';
  const healthz = given.healthzBindAddress ?? (isIPv4 ? '0.0.0.0' : '::');
  const metrics = given.metricsBindAddress ?? (isIPv4 ? '127.0.0.1' : '::1');
  return {
    ...settings,
    healthzBindAddress: appendPort(healthz, healthzPort),
    metricsBindAddress: appendPort(metrics, metricsPort),
  };
}

/** Adds the port to a bare IP address; anything else stays as it is and is judged later. */
function appendPort(address: string, port: number): string {
  return parseAddress(address) ? joinHostPort(address, port) : address;
}

/**
 * What Linux fills in: detectLocalMode, and node ports only on primary addresses in nftables mode.
 * An empty mode stays empty: which one is best is asked of the kernel later.
 */
export function withPlatformDefaults(settings: Settings): Settings {
  const primaryOnly = settings.mode === 'nftables' && settings.nodePortAddresses.length === 0;
  return {
    ...settings,
    detectLocalMode: settings.detectLocalMode === '' ? 'ClusterCIDR' : settings.detectLocalMode,
    nodePortAddresses: primaryOnly ? ['primary'] : settings.nodePortAddresses,
  };
}

export type SyncSection = (typeof modeTable)[ModeName]['section'];

/** The section of the file that holds the sync periods of a requested mode. */
export function syncSection(mode: string): SyncSection {
  return isModeName(mode) ? modeTable[mode].section : 'iptables';
}

/** The section that holds masqueradeBit and masqueradeAll of a requested mode. */
export function masqueradeSection(mode: string): 'nftables' | 'iptables' {
  return mode === 'nftables' ? mode : 'iptables';
}

/** A field that a flag on the command line sets. */
interface FlagField {
  readonly flag: SettingKey;
  readonly field: FieldPath;
  readonly value: unknown;
}

/** What the flags on the command line set, field by field. */
export function flagFields(flags: ParsedFlags): readonly FlagField[] {
  const section = syncSection(flags.value('mode'));
  return settingKeys
    .filter((flag) => flags.isSet(flag))
    .flatMap((flag) =>
      fieldsOf(flag, section).map((field) => ({ flag, field, value: flags.value(flag) })),
    );
}

/** The iptables-* flags set the active mode's periods, also those of mode nftables. */
function fieldsOf(flag: SettingKey, section: SyncSection): FieldPath[] {
  if (flag === '--masquerade-all') return ['iptables.masqueradeAll', 'nftables.masqueradeAll'];
  const [, mode, bound] = /^--(iptables|ipvs)-(?:(min|max)-)?sync-period$/.exec(flag) ?? [];
  if (mode !== undefined) {
    if ((mode === 'ipvs') !== (section === 'ipvs')) return [];
    return [`${section}.${bound === undefined ? 'sync' : `${bound}Sync`}Period` as FieldPath];
  }
  return flag.startsWith('--') ? [] : [flag as FieldPath];
}

/** What the flags give, for a start without a file. */
export function givenByFlags(flags: ParsedFlags): GivenSettings {
  return settingsFrom(flagFields(flags).map(({ field, value }) => [field, value]));
}

/** Settings of a start without a file. */
export function settingsOfFlags(flags: ParsedFlags, given: GivenSettings): Settings {
  // Without a file, mode ipvs has the default of the flag, not that of the file.
  const ipvs =
    flags.value('mode') === 'ipvs'
      ? { 'ipvs.minSyncPeriod': flags.value('--ipvs-min-sync-period') }
      : {};
  const settings: Settings = { ...defaultSettings, ...ipvs, ...given };
  // Like kube-proxy, a configuration that is only written does not fold in the port flags.
  if (flags.value('--write-config-to') !== '') return settings;
  return { ...settings, ...listenAddresses(flags, settings) };
}

/** The two addresses with what the deprecated port flags say. Port 0 means "do not serve". */
export function listenAddresses(
  flags: ParsedFlags,
  settings: Settings,
): Pick<Settings, 'healthzBindAddress' | 'metricsBindAddress'> {
  const listen = (address: string, port: number) => (port === 0 ? '' : appendPort(address, port));
  return {
    healthzBindAddress: listen(settings.healthzBindAddress, flags.value('--healthz-port')),
    metricsBindAddress: listen(settings.metricsBindAddress, flags.value('--metrics-port')),
  };
}

/**
 * A file's settings with the flags laid over them that count with a file; the patterns of flags
 * come first.
 */
export function withKeptFlags(settings: Settings, flags: ParsedFlags): Settings {
  // The name of the node has rules of its own: see `check` in load.ts.
  const kept = fieldPaths.filter((path) => settingTable[path].withConfig === 'kept');
  const set = kept.filter((path) => path !== 'hostnameOverride' && flags.isSet(path));
  const vmodule = [...flags.value('logging.vmodule'), ...settings['logging.vmodule']];
  const given = settingsFrom(set.map((path) => [path, flags.value(path)]));
  return { ...settings, ...given, 'logging.vmodule': vmodule };
}

/** Returns the flags of the command line that have no effect because a file is given. */
export function droppedFlags(flags: ParsedFlags): readonly SettingKey[] {
  return settingKeys.filter(
    (key) => flags.isSet(key) && key !== '--config' && settingTable[key].withConfig !== 'kept',
  );
}

type JsonObject = { readonly [key: string]: Json };

/**
 * All of a complete configuration: what --write-config-to writes and /configz serves. Like
 * kube-proxy, it gives sync periods and masqueradeAll only in the section of the active mode and
 * zero values in the others.
 */
export function toDocument(settings: Settings): JsonObject {
  const root = typeMeta();
  for (const path of fieldPaths) {
    const value = isActive(settings, path) ? settings[path] : rulesOf(path).zero;
    if (settingTable[path].omitted && isDeepStrictEqual(value, defaultSettings[path])) continue;
    // kube-proxy 1.36 does not know this field, so it appears only where it matters.
    if (path === 'udpIdleTimeout' && settings.mode !== 'userspace') continue;
    const encoded = rulesOf(path).encode(value);
    put(root, path, Array.isArray(encoded) && encoded.length === 0 ? null : encoded);
  }
  return root;
}

/** Only the fields that are given: what a conversion yields. */
export function toSparseDocument(given: GivenSettings): JsonObject {
  const root = typeMeta();
  for (const path of fieldPaths) {
    if (given[path] !== undefined) put(root, path, rulesOf(path).encode(given[path]));
  }
  return root;
}

/** YAML with sorted keys, in a form that YAML 1.1 readers such as kube-proxy's take alike. */
export function formatDocument(document: JsonObject): string {
  return stringify(document, {
    version: '1.1',
    sortMapEntries: true,
    lineWidth: 0,
    indentSeq: false,
  });
}

interface MutableObject {
  [key: string]: Json | MutableObject;
}

function typeMeta(): MutableObject & JsonObject {
  return { apiVersion, kind };
}

function put(root: MutableObject, path: FieldPath, value: Json): void {
  const keys = path.split('.');
  const last = keys.pop() ?? path;
  let at = root;
  for (const key of keys) {
    const next = (at[key] ?? {}) as MutableObject;
    at[key] = next;
    at = next;
  }
  at[last] = value;
}

function isActive(settings: Settings, path: FieldPath): boolean {
  const [section = '', name = ''] = path.split('.');
  if (name.endsWith('yncPeriod')) return section === syncSection(settings.mode);
  if (name === 'masqueradeAll') return section === masqueradeSection(settings.mode);
  return true;
}
