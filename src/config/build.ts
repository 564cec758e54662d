/** Makes the frozen Config out of validated settings: parses, converts units, resolves modes. */
import { parseAddress, parseCIDR } from '../net/address.ts';
import { type HostPort, parseEndpoint } from '../net/host-port.ts';
import { cidrReading } from '../net/reading.ts';
import {
  addressKeywords,
  type Config,
  type ConntrackConfig,
  type DetectLocal,
  type IpvsConfig,
  type LogFormat,
  type NodePortAddresses,
  type RequestedMode,
  type SourceConfig,
  serviceLimitDefaults,
  type UserspaceConfig,
} from './config.ts';
import { toMs } from './duration.ts';
import type { ParsedFlags } from './flags.ts';
import { resolveModes } from './mode-settings.ts';
import { type FieldPath, flagKeys, type GivenSettings, type Settings } from './settings/index.ts';
import { checkField } from './validate.ts';
import { defaultSettings, toDocument } from './values.ts';
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
  const modes = resolveModes(settings, given);
  const userspace = resolveUserspace(settings);
  const config: Config = {
    kubernetesVersion: reportedVersion(flags.value('--version')),
    source: resolveSource(settings, flags),
    ignoreOtherInstance: flags.value('--ignore-other-instance'),
    hostnameOverride: settings.hostnameOverride.trim().toLowerCase(),
    bindAddress: must(parseAddress(settings.bindAddress), settings.bindAddress),
    healthzBindAddress: parseHostPort(settings.healthzBindAddress),
    metricsBindAddress: parseHostPort(settings.metricsBindAddress),
    readBindAddress: parseHostPort(settings.readBindAddress),
    bindAddressHardFail: settings.bindAddressHardFail,
    profiling: settings.enableProfiling,
    serviceMetrics: settings.serviceMetrics,
    mode: settings.mode as RequestedMode,
    modes: modes.modes,
    iptables: { localhostNodePorts: settings['iptables.localhostNodePorts'] },
    connectTime: settings.connectTime as Config['connectTime'],
    connectTimeExcludedPods: settings.connectTimeExcludedPods,
    fastPath: settings.fastPath as Config['fastPath'],
    fastPathPackets: settings.fastPathPackets,
    failureDetection: settings.failureDetection as Config['failureDetection'],
    failureDetectionMaxEjected: settings.failureDetectionMaxEjected,
    ownTables: flags.value('--own-tables'),
    ipvs: { ...resolveIpvs(settings), counters: flags.value('--ipvs-counters') },
    userspace: userspace.value,
    detectLocal: resolveDetectLocal(settings, given),
    // It is checked in mode ClusterCIDR only; `cidrWarnings` names what is left out in others.
    clusterCIDR: settings.clusterCIDR.split(',').flatMap((text) => parseCIDR(text) ?? []),
    nodePortAddresses: resolveNodePortAddresses(settings.nodePortAddresses),
    externalIPs: {
      cidrs: settings['externalIPs.cidrs'].map((text) => must(parseCIDR(text), text)),
      namespaces: [...settings['externalIPs.namespaces']],
    },
    serviceLimits: resolveServiceLimits(settings),
    oomScoreAdj: settings.oomScoreAdj,
    conntrack: resolveConntrack(settings),
    featureGates: { ...gates },
    logging: {
      format: chosenFormat(given, flags),
      verbosity: settings['logging.verbosity'],
    },
    configPath: flags.value('--config') === '' ? undefined : flags.value('--config'),
    document: toDocument(settings),
    given: Object.keys(given),
    flags: [...flagKeys]
      .map(([name, key]) => ({ name, value: flags.text(key) }))
      .sort((a, b) => (a.name < b.name ? -1 : 1)),
  };
  const warnings = [...modes.warnings, ...userspace.warnings, ...cidrWarnings(settings)];
  return { config: deepFreeze(config), warnings };
}

function must<T>(value: T | undefined, text: string): T {
  if (value === undefined) throw new Error(`${JSON.stringify(text)} passed validation unparsed`);
  return value;
}

function reportedVersion(flag: string): string {
  return flag.startsWith('v') ? flag : kubernetesVersion;
}

function parseHostPort(text: string): HostPort | undefined {
  return text === '' ? undefined : must(parseEndpoint(text), text);
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
      dropManagedFields: settings.dropManagedFields,
    },
    qps: settings['clientConnection.qps'],
    burst: settings['clientConnection.burst'],
  };
}

function resolveIpvs(settings: Settings): Omit<IpvsConfig, 'counters'> {
  // Only mode ipvs looks at these, and only for it have they been checked.
  const isActive = settings.mode === 'ipvs';
  const excluded = isActive ? settings['ipvs.excludeCIDRs'] : [];
  return {
    scheduler: settings['ipvs.scheduler'] || 'rr',
    excludeCIDRs: excluded.map((text) => must(parseCIDR(text), text)),
    strictARP: settings['ipvs.strictARP'],
    tcpTimeoutMs: isActive ? toMs(settings['ipvs.tcpTimeout']) : 0,
    tcpFinTimeoutMs: isActive ? toMs(settings['ipvs.tcpFinTimeout']) : 0,
    udpTimeoutMs: isActive ? toMs(settings['ipvs.udpTimeout']) : 0,
  };
}

/** Mode userspace may be fallen back to, so its fields are read whatever the mode. */
function resolveUserspace(settings: Settings): { value: UserspaceConfig; warnings: string[] } {
  const warnings = [
    ...checkField(settings, 'udpIdleTimeout'),
    ...checkField(settings, 'portRange'),
  ].map(({ field, detail }) => `${field} is not used: ${detail}`);
  const idle = settings.udpIdleTimeout;
  return {
    value: { udpIdleTimeoutMs: toMs(idle > 0n ? idle : defaultSettings.udpIdleTimeout) },
    warnings,
  };
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

function resolveNodePortAddresses(addresses: readonly string[]): NodePortAddresses {
  if (addresses.length === 0) return { kind: 'all' };
  const texts = addresses.filter((text) => text !== 'primary').flatMap(blocksOf);
  return {
    kind: 'listed',
    cidrs: texts.map((text) => must(parseCIDR(text), text)),
    primary: addresses.includes('primary'),
  };
}

function blocksOf(text: string): readonly string[] {
  return Object.hasOwn(addressKeywords, text) ? addressKeywords[text]! : [text];
}

function resolveServiceLimits(settings: Settings): Config['serviceLimits'] {
  const limit = (what: keyof typeof serviceLimitDefaults): number =>
    settings[`serviceLimits.${what}`] || serviceLimitDefaults[what];
  return {
    frontends: limit('frontends'),
    frontendEndpoints: settings['serviceLimits.frontendEndpoints'],
    endpoints: limit('endpoints'),
    sourceRanges: limit('sourceRanges'),
    affinityPorts: limit('affinityPorts'),
    namespaceFactor: limit('namespaceFactor'),
  };
}

function resolveConntrack(settings: Settings): ConntrackConfig {
  return {
    maxPerCore: settings['conntrack.maxPerCore'],
    min: settings['conntrack.min'],
    tcpEstablishedTimeoutMs: toMs(settings['conntrack.tcpEstablishedTimeout']),
    tcpCloseWaitTimeoutMs: toMs(settings['conntrack.tcpCloseWaitTimeout']),
    tcpBeLiberal: settings['conntrack.tcpBeLiberal'],
    udpTimeoutMs: toMs(settings['conntrack.udpTimeout']),
    udpStreamTimeoutMs: toMs(settings['conntrack.udpStreamTimeout']),
  };
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
