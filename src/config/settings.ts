/**
 * Sets of field values: the defaults, and what becomes of the fields that a file gives
 * (behaviour document 2.2, 2.3: a zero value means "not given", some defaults hang together).
 */
import { parseAddress } from '../net/address.ts';
import { rulesOf } from './field-types.ts';
import {
  type FieldPath,
  fieldPaths,
  fields,
  type GivenSettings,
  type Settings,
} from './fields/index.ts';
import { joinHostPort } from './host-port.ts';

const healthzPort = 10256;
const metricsPort = 10249;

/** Makes settings out of loose values; the one place where the table's types are trusted. */
export function settingsFrom(values: ReadonlyMap<FieldPath, unknown>): GivenSettings {
  return Object.fromEntries(values) as GivenSettings;
}

function computeDefault(path: FieldPath): unknown {
  const text = fields[path].default;
  if (text === undefined) return rulesOf(path).zero;
  const parsed = rulesOf(path).parse(text);
  if (!parsed.ok) throw new Error(`default of ${path}: ${parsed.error}`);
  return parsed.value;
}

/** Every field at its default. */
export const defaultSettings = Object.freeze(
  settingsFrom(new Map(fieldPaths.map((path) => [path, computeDefault(path)]))),
) as Settings;

/** Whether a value in a file counts as "not given" because it is the type's zero value. */
export function meansDefault(path: FieldPath, value: unknown): boolean {
  const rules = rulesOf(path);
  return fields[path].keepsZero !== true && rules.format(value) === rules.format(rules.zero);
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
export function appendPort(address: string, port: number): string {
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

/** The section of the file that holds the sync periods of a requested mode. */
export function syncSection(mode: string): 'nftables' | 'iptables' | 'ipvs' {
  return mode === 'nftables' || mode === 'ipvs' ? mode : 'iptables';
}

/** The section that holds masqueradeBit and masqueradeAll of a requested mode. */
export function masqueradeSection(mode: string): 'nftables' | 'iptables' {
  return mode === 'nftables' ? mode : 'iptables';
}
