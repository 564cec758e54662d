/** Makes the frozen Config out of validated settings: parses, converts units, resolves modes. */
import { parseCIDR } from '../net/address.ts';
import { cidrReading } from '../net/reading.ts';
import type { Config, DetectLocal, LogFormat, SourceConfig } from './config.ts';
import { toMs } from './duration.ts';
import type { ParsedFlags } from './flags.ts';
import { resolveModes } from './mode-settings.ts';
import {
  type FieldPath,
  flagKeys,
  type GivenSettings,
  type Made,
  type SettingKey,
  type Settings,
  settingKeys,
  settingTable,
} from './settings/index.ts';
import type { Setting } from './settings/spec.ts';
import { checkField } from './validate.ts';
import { toDocument } from './values.ts';
import { kubernetesVersion } from './version.ts';

interface BuildInput {
  /** Complete and valid. */
  readonly settings: Settings;
  /** The settings that were given; the others have their defaults. */
  readonly given: GivenSettings;
  readonly gates: Readonly<Record<string, boolean>>;
  readonly flags: ParsedFlags;
}

/** `settings` has passed `validate`; a value that does not parse here is a bug and throws. */
export function buildConfig(input: BuildInput): { config: Config; warnings: readonly string[] } {
  const { settings, given, gates, flags } = input;
  const { modes, warnings: ofModes } = resolveModes(settings, given);
  const made = madeOf(settings, flags);
  const config: Config = {
    ...made,
    kubernetesVersion: reportedVersion(flags.value('--version')),
    source: resolveSource(settings, flags),
    modes,
    detectLocal: resolveDetectLocal(settings, given),
    featureGates: { ...gates },
    logging: { ...made.logging, format: chosenFormat(given, flags) },
    configPath: flags.value('--config') === '' ? undefined : flags.value('--config'),
    document: toDocument(settings),
    given: Object.keys(given),
    flags: [...flagKeys]
      .map(([name, key]) => ({ name, value: flags.text(key) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
  const warnings = [...ofModes, ...userspaceWarnings(settings), ...cidrWarnings(settings)];
  return { config: deepFreeze(config), warnings };
}

/** What settings make by themselves, each at its place. */
function madeOf(settings: Settings, flags: ParsedFlags): Made {
  const root: Record<string, unknown> = {};
  for (const key of settingKeys) {
    const { config: place, make = asIs } = settingTable[key] as Setting;
    if (place === undefined) continue;
    const value = make(isField(key) ? settings[key] : flags.value(key), settings);
    const [first = '', name] = place.split('.');
    if (name === undefined) root[first] = value;
    else root[first] = { ...(root[first] as object | undefined), [name]: value };
  }
  return root as Made;
}

function asIs(value: unknown): unknown {
  return typeof value === 'bigint' ? toMs(value) : value;
}

function isField(key: SettingKey): key is FieldPath {
  return !key.startsWith('--');
}

function reportedVersion(flag: string): string {
  return flag.startsWith('v') ? flag : kubernetesVersion;
}

function resolveSource(settings: Settings, flags: ParsedFlags): SourceConfig {
  const directory = flags.value('--manifests');
  if (directory !== '') return { kind: 'manifests', directory };
  return {
    kind: 'kubernetes',
    kubeconfigPath: settings['clientConnection.kubeconfig'],
    masterUrl: flags.value('--master'),
    contentTypes: {
      contentType: settings['clientConnection.contentType'],
      acceptContentTypes: settings['clientConnection.acceptContentTypes'],
    },
    qps: settings['clientConnection.qps'],
    burst: settings['clientConnection.burst'],
  };
}

/** Mode userspace may be fallen back to, so its fields are read whatever the mode. */
function userspaceWarnings(settings: Settings): string[] {
  const faults = [...checkField(settings, 'udpIdleTimeout'), ...checkField(settings, 'portRange')];
  return faults.map(({ field, detail }) => `${field} is not used: ${detail}`);
}

function resolveDetectLocal(settings: Settings, given: GivenSettings): DetectLocal {
  switch (settings.detectLocalMode) {
    case 'NodeCIDR':
      return { kind: 'NodeCIDR' };
    case 'BridgeInterface': {
      const bridgeInterface = settings['detectLocal.bridgeInterface'];
      return { kind: 'BridgeInterface', bridgeInterface };
    }
    case 'InterfaceNamePrefix': {
      const interfaceNamePrefix = settings['detectLocal.interfaceNamePrefix'];
      return { kind: 'InterfaceNamePrefix', interfaceNamePrefix };
    }
    default:
      return { kind: 'ClusterCIDR', isDefault: !given.detectLocalMode };
  }
}

/** The format of the command line, else of the file. A value that does not exist is ignored. */
function chosenFormat(given: GivenSettings, flags: ParsedFlags): LogFormat {
  const said = flags.isSet('logging.format') ? flags.value('logging.format') : undefined;
  const format = said ?? given['logging.format'];
  return format === 'text' || format === 'json' ? format : 'auto';
}

/** Blocks that are taken as something else than they say. Of valid settings. */
function cidrWarnings(settings: Settings): string[] {
  const lists: readonly (readonly [FieldPath, readonly string[]])[] = [
    ['clusterCIDR', settings.clusterCIDR.split(',')],
    ['nodePortAddresses', settings.nodePortAddresses],
    ['externalIPs.cidrs', settings['externalIPs.cidrs']],
    ['ipvs.excludeCIDRs', settings['ipvs.excludeCIDRs']],
  ];
  return lists.flatMap(([field, texts]) =>
    texts.flatMap((text) => {
      const cidr = parseCIDR(text);
      if (cidr === undefined && field === 'clusterCIDR' && text !== '') {
        return [`${field}: ${text} is not used: must be a valid CIDR`];
      }
      const reading = cidr && cidrReading(text, cidr);
      return reading === undefined ? [] : [`${field}: ${text} is taken as ${reading}`];
    }),
  );
}

/** Freezes an object and all that it holds; bytes (address buffers) cannot be frozen and stay. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}
