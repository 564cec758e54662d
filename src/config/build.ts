/** Makes the frozen Config out of validated settings: parses, converts units, resolves modes. */
import { parseAddress, parseCIDR } from '../net/address.ts';
import type { ServiceLimits } from '../state/budget.ts';
import { cidrWarnings } from './cidr-warnings.ts';
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
  type UserspaceConfig,
} from './config.ts';
import { toDocument } from './document.ts';
import { toMs } from './duration.ts';
import type { GivenSettings, Settings } from './fields/index.ts';
import { serviceLimitDefaults } from './fields/limits.ts';
import { flagNames } from './flag-table.ts';
import type { ParsedFlags } from './flags.ts';
import { deepFreeze } from './freeze.ts';
import { type HostPort, splitHostPort } from './host-port.ts';
import { resolveModes } from './mode-settings.ts';
import { defaultSettings } from './settings.ts';
import { checkBounds, checkPortRange } from './validate.ts';
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
    kubernetesVersion: reportedVersion(flags.value('version')),
    source: resolveSource(settings, flags),
    ignoreOtherInstance: flags.value('ignore-other-instance'),
    hostnameOverride: settings.hostnameOverride.trim().toLowerCase(),
    bindAddress: must(parseAddress(settings.bindAddress), settings.bindAddress),
    healthzBindAddress: parseHostPort(settings.healthzBindAddress),
    metricsBindAddress: parseHostPort(settings.metricsBindAddress),
    bindAddressHardFail: settings.bindAddressHardFail,
    profiling: settings.enableProfiling,
    serviceMetrics: settings.serviceMetrics,
    mode: settings.mode as RequestedMode,
    modes: modes.modes,
    iptables: { localhostNodePorts: settings['iptables.localhostNodePorts'] },
    connectTime: settings.connectTime as Config['connectTime'],
    connectTimeExcludedPods: settings.connectTimeExcludedPods,
    ownTables: flags.value('own-tables'),
    ipvs: { ...resolveIpvs(settings), counters: flags.value('ipvs-counters') },
    userspace: userspace.value,
    detectLocal: resolveDetectLocal(settings),
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
    configPath: flags.value('config') === '' ? undefined : flags.value('config'),
    document: toDocument(settings),
    flags: [...flagNames].sort().map((name) => ({ name, value: flags.text(name) })),
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
  if (text === '') return undefined;
  const { host, port } = must(splitHostPort(text), text);
  return { address: must(parseAddress(host), text), port: Number(port) };
}

function resolveSource(settings: Settings, flags: ParsedFlags): SourceConfig {
  const directory = flags.value('manifests');
  if (directory !== '') return { kind: 'manifests', directory };
  return {
    kind: 'kubernetes',
    kubeconfigPath: settings['clientConnection.kubeconfig'],
    masterUrl: flags.value('master'),
    contentTypes: {
      contentType: settings['clientConnection.contentType'],
      acceptContentTypes: settings['clientConnection.acceptContentTypes'],
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
    ...checkBounds(settings, 'udpIdleTimeout'),
    ...checkPortRange(settings.portRange),
  ].map(({ field, detail }) => `${field} is not used: ${detail}`);
  const idle = settings.udpIdleTimeout;
  return {
    value: { udpIdleTimeoutMs: toMs(idle > 0n ? idle : defaultSettings.udpIdleTimeout) },
    warnings,
  };
}

function resolveDetectLocal(settings: Settings): DetectLocal {
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
    default: {
      const parts = settings.clusterCIDR === '' ? [] : settings.clusterCIDR.split(',');
      return { kind: 'ClusterCIDR', cidrs: parts.map((text) => must(parseCIDR(text), text)) };
    }
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

function resolveServiceLimits(settings: Settings): ServiceLimits {
  const limit = (what: keyof typeof serviceLimitDefaults): number =>
    settings[`serviceLimits.${what}`] || serviceLimitDefaults[what];
  return {
    frontends: limit('frontends'),
    frontendEndpoints: settings['serviceLimits.frontendEndpoints'],
    endpoints: limit('endpoints'),
    sourceRanges: limit('sourceRanges'),
    affinityPorts: limit('affinityPorts'),
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
export function chosenFormat(given: GivenSettings, flags: ParsedFlags): LogFormat {
  const said = flags.isSet('logging-format') ? flags.value('logging-format') : undefined;
  const format = said ?? given['logging.format'];
  return format === 'text' || format === 'json' ? format : 'auto';
}
