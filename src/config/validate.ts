/**
 * kube-proxy's rules for a complete configuration, in its order and words (behaviour document 2.2
 * to 2.4, 2.8). Every violation is found in one go; nothing is repaired.
 */
import { type CIDR, parseAddress, parseCIDR } from '../net/address.ts';
import { addressKeywords, connectTimes, modeNames } from './config.ts';
import { quote } from './go-values.ts';
import { splitHostPort } from './host-port.ts';
import { selectorFault } from './label-selector.ts';
import { type FieldPath, type SettingKey, type Settings, settingTable } from './settings/index.ts';
import type { Bounds } from './settings/spec.ts';
import { rulesOf } from './types.ts';
import { type SyncSection, syncSection } from './values.ts';

/** One violated rule. */
export interface Violation {
  /** Path of the field in the file. */
  readonly field: FieldPath;
  /** What is wrong, without the field's name. */
  readonly detail: string;
  /** kube-proxy's line: `KubeProxyConfiguration.SyncPeriod: Invalid value: "0s": must be …` */
  readonly text: string;
}

const root = 'KubeProxyConfiguration';

const goSections: Readonly<Record<string, string>> = {
  conntrack: 'KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration',
  iptables: 'KubeProxyIPTablesConfiguration',
  ipvs: 'KubeProxyIPVSConfiguration',
  nftables: 'KubeProxyNFTablesConfiguration',
};

/** kube-proxy's name of a field: that of Go's structures. */
function errorPath(field: FieldPath): string {
  const names = field.split('.').map((name, depth) => {
    const isSection = depth === 0 && Object.hasOwn(goSections, name);
    if (isSection) return goSections[name];
    return name.replace(/^(?:tcp|udp|.)/, (start) => start.toUpperCase());
  });
  return `${root}.${settingTable[field].errorPath ?? names.join('.')}`;
}

function violation(field: FieldPath, type: string, detail: string, suffix = ''): Violation {
  return { field, detail, text: `${errorPath(field)}${suffix}: ${type}: ${detail}` };
}

function invalid(field: FieldPath, value: string, detail: string, suffix = ''): Violation {
  return {
    ...violation(field, `Invalid value: ${value}`, detail, suffix),
    detail: `${value}: ${detail}`,
  };
}

/** What a value must be to keep the bounds, in kube-proxy's words. */
function describeBounds(bounds: Bounds): string {
  switch (bounds.kind) {
    case 'range':
      return `must be within the range [${bounds.min}, ${bounds.max}]`;
    case 'not-negative':
      return 'must be greater than or equal to 0';
    case 'positive':
      return 'must be greater than 0';
  }
}

/** Bounds and further rules of a setting in a few words, for --help and the documentation. */
export function settingRules(key: SettingKey): string {
  const { bounds, rules } = settingTable[key];
  return [bounds === undefined ? '' : boundsInShort(bounds), rules ?? '']
    .filter((part) => part !== '')
    .join('; ');
}

function boundsInShort(bounds: Bounds): string {
  switch (bounds.kind) {
    case 'range':
      return `${bounds.min} to ${bounds.max}`;
    case 'not-negative':
      return '0 or more';
    case 'positive':
      return 'above 0';
  }
}

function keepsBounds(bounds: Bounds, value: unknown): boolean {
  if (typeof value !== 'number' && typeof value !== 'bigint') return true;
  switch (bounds.kind) {
    case 'range':
      return value >= bounds.min && value <= bounds.max;
    case 'not-negative':
      return value >= 0;
    case 'positive':
      return value > 0;
  }
}

/** Checks the bounds of the table, whatever the mode. */
export function checkBounds(settings: Settings, field: FieldPath): Violation[] {
  const { bounds } = settingTable[field];
  if (bounds === undefined || keepsBounds(bounds, settings[field])) return [];
  return [invalid(field, rulesOf(field).format(settings[field]), describeBounds(bounds))];
}

/** Checks the bounds of the table where they are enforced in the requested mode. */
function bounded(settings: Settings, ...checked: readonly FieldPath[]): Violation[] {
  return checked
    .filter((field) => settingTable[field].boundsIn?.includes(settings.mode) ?? true)
    .flatMap((field) => checkBounds(settings, field));
}

/** Checks that a name is not blank. `given` is kube-proxy's word for where it comes from. */
export function checkHostname(name: string, given = 'hostnameOverride'): Violation[] {
  if (name === '' || name.trim() !== '') return [];
  const detail = 'must not be only white space';
  return [{ field: 'hostnameOverride', detail, text: `empty ${given} is invalid` }];
}

/**
 * All rules except those of the node's name, of logging and of
 * feature gates.
 */
export function validate(settings: Settings): Violation[] {
  const section = syncSection(settings.mode);
  return [
    ...bounded(settings, 'iptables.masqueradeBit', 'ipvs.tcpTimeout', 'ipvs.tcpFinTimeout'),
    ...bounded(settings, 'ipvs.udpTimeout'),
    ...(settings.mode === 'ipvs' ? checkCIDRs(settings, 'ipvs.excludeCIDRs') : []),
    ...bounded(settings, 'nftables.masqueradeBit', 'conntrack.maxPerCore', 'conntrack.min'),
    ...bounded(settings, 'conntrack.tcpEstablishedTimeout', 'conntrack.tcpCloseWaitTimeout'),
    ...bounded(settings, 'conntrack.udpTimeout', 'conntrack.udpStreamTimeout', 'oomScoreAdj'),
    ...checkMode(settings.mode),
    ...checkConnectTime(settings.connectTime),
    ...checkSelector(settings.connectTimeExcludedPods),
    ...bounded(settings, 'clientConnection.burst', 'configSyncPeriod'),
    ...checkSyncPeriods(settings, section),
    ...checkBindAddress(settings.bindAddress),
    ...checkHostPort(settings, 'healthzBindAddress'),
    ...checkHostPort(settings, 'metricsBindAddress'),
    ...checkNodePortAddresses(settings.nodePortAddresses),
    ...checkCIDRs(settings, 'externalIPs.cidrs'),
    ...checkNamespaces(settings['externalIPs.namespaces']),
    ...checkHiddenMetrics(settings.showHiddenMetricsForVersion),
    ...checkDetectLocal(settings),
    ...bounded(settings, 'serviceLimits.frontends', 'serviceLimits.frontendEndpoints'),
    ...bounded(settings, 'serviceLimits.endpoints', 'serviceLimits.sourceRanges'),
    ...bounded(settings, 'serviceLimits.affinityPorts'),
    ...checkUserspace(settings),
  ];
}

function checkConnectTime(reach: string): Violation[] {
  if ((connectTimes as readonly string[]).includes(reach)) return [];
  return [invalid('connectTime', quote(reach), `must be ${connectTimes.join(', ')}`)];
}

function checkSelector(selector: string): Violation[] {
  const fault = selectorFault(selector);
  return fault === undefined ? [] : [invalid('connectTimeExcludedPods', quote(selector), fault)];
}

function checkMode(mode: string): Violation[] {
  if (mode === '' || (modeNames as readonly string[]).includes(mode)) return [];
  const modes = [...modeNames].sort().join(', ');
  const detail =
    mode === 'kernelspace'
      ? `kernelspace is the mode of Windows nodes; on Linux it must be ${modes} or blank`
      : `must be ${modes} or blank (blank means the best mode that the kernel can do)`;
  return [invalid('mode', quote(mode), detail)];
}

/** Only the pair of the active mode is checked, under one name whatever the section. */
export function checkSyncPeriods(settings: Settings, section: SyncSection): Violation[] {
  const period = settings[`${section}.syncPeriod`];
  const min = settings[`${section}.minSyncPeriod`];
  const format = rulesOf(`${section}.syncPeriod`).format;
  const result = [
    ...checkBounds(settings, `${section}.syncPeriod`),
    ...checkBounds(settings, `${section}.minSyncPeriod`),
  ];
  if (min > period) {
    const theirs = `must be greater than or equal to ${root}.MinSyncPeriod`;
    result.push({
      field: `${section}.minSyncPeriod`,
      detail: `${format(min)}: must not be above the sync period, ${format(period)}`,
      // kube-proxy names the period here and shows the minimum.
      text: invalid(`${section}.syncPeriod`, format(min), theirs).text,
    });
  }
  if (section === 'ipvs') return result;
  const max = settings[`${section}.maxSyncPeriod`];
  result.push(...checkBounds(settings, `${section}.maxSyncPeriod`));
  if (max > 0n && max < min) {
    const detail = `must be greater than or equal to ${root}.MinSyncPeriod, ${format(min)}`;
    result.push(invalid(`${section}.maxSyncPeriod`, format(max), detail));
  }
  return result;
}

function checkBindAddress(text: string): Violation[] {
  if (parseAddress(text)) return [];
  const detail = 'not a valid textual representation of an IP address';
  return [invalid('bindAddress', quote(text), detail)];
}

/** Empty means "not served"; a file cannot say it, only a flag can. */
function checkHostPort(
  settings: Settings,
  field: 'healthzBindAddress' | 'metricsBindAddress',
): Violation[] {
  if (settings[field] === '') return [];
  const split = splitHostPort(settings[field]);
  if (!split) return [invalid(field, quote(settings[field]), 'must be IP:port')];
  const result: Violation[] = [];
  if (!parseAddress(split.host)) {
    result.push(invalid(field, quote(split.host), 'must be a valid IP'));
  }
  const port = /^[+-]?\d{1,10}$/.test(split.port) ? Number(split.port) : 0;
  if (port < 1 || port > 65535) {
    result.push(invalid(field, quote(split.port), 'must be a valid port'));
  }
  return result;
}

function checkCIDRs(
  settings: Settings,
  field: 'ipvs.excludeCIDRs' | 'externalIPs.cidrs',
): Violation[] {
  return settings[field].flatMap((text, index) =>
    parseCIDR(text) ? [] : [invalid(field, quote(text), 'must be a valid CIDR', `[${index}]`)],
  );
}

function checkNamespaces(names: readonly string[]): Violation[] {
  const detail = 'must be the name of a namespace: small letters, digits and hyphens';
  return names.flatMap((name, index) => {
    if (/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return [];
    return [invalid('externalIPs.namespaces', quote(name), detail, `[${index}]`)];
  });
}

function checkNodePortAddresses(addresses: readonly string[]): Violation[] {
  const words = ['primary', ...Object.keys(addressKeywords)];
  const detail = `must be a valid CIDR, or one of ${words.map(quote).join(', ')}`;
  return addresses.flatMap((text, index) =>
    words.includes(text) || parseCIDR(text)
      ? []
      : [invalid('nodePortAddresses', quote(text), detail, `[${index}]`)],
  );
}

function checkHiddenMetrics(version: string): Violation[] {
  if (version === '' || version === '1.35') return [];
  const detail = "must be omitted or '1.35', the previous minor version";
  return [invalid('showHiddenMetricsForVersion', quote(version), detail)];
}

const detectLocalModes = ['ClusterCIDR', 'NodeCIDR', 'BridgeInterface', 'InterfaceNamePrefix', ''];

function checkDetectLocal(settings: Settings): Violation[] {
  const mode = settings.detectLocalMode;
  if (!detectLocalModes.includes(mode)) {
    const detail = `supported values: ${detectLocalModes.map(quote).join(', ')}`;
    return [
      {
        ...violation('detectLocalMode', `Unsupported value: ${quote(mode)}`, detail),
        detail: `${quote(mode)}: ${detail}`,
      },
    ];
  }
  const field = {
    BridgeInterface: 'detectLocal.bridgeInterface',
    InterfaceNamePrefix: 'detectLocal.interfaceNamePrefix',
  } as const;
  if (mode === 'BridgeInterface' || mode === 'InterfaceNamePrefix') {
    return settings[field[mode]] === '' ? [invalid(field[mode], '""', 'must not be empty')] : [];
  }
  return mode === 'ClusterCIDR' ? checkClusterCIDR(settings.clusterCIDR) : [];
}

/** Split at commas without trimming, as kube-proxy does. */
function checkClusterCIDR(text: string): Violation[] {
  if (text === '') return [];
  const parts = text.split(',');
  const example = '10.100.0.0/16,fde4:8dba:82e1::/48';
  const shown = `[${parts.map(quote).join(', ')}]`;
  const pairDetail = `must be one CIDR or one of each family (e.g. ${example})`;
  const whole = invalid('clusterCIDR', shown, pairDetail);
  if (parts.length > 2) return [whole];
  const cidrs: CIDR[] = [];
  const result: Violation[] = [];
  for (const [index, part] of parts.entries()) {
    const cidr = parseCIDR(part);
    if (cidr) cidrs.push(cidr);
    else result.push(invalid('clusterCIDR', quote(part), 'must be a valid CIDR', `[${index}]`));
  }
  if (cidrs.length === 2 && cidrs[0]?.address.family === cidrs[1]?.address.family) {
    result.push(whole);
  }
  return result;
}

/** Fields that only mode userspace has a use for; elsewhere kube-proxy ignores them. */
function checkUserspace(settings: Settings): Violation[] {
  if (settings.mode !== 'userspace') return [];
  return [...checkBounds(settings, 'udpIdleTimeout'), ...checkPortRange(settings.portRange)];
}

/** `30000-32767`, `30000+100` (the first and 100 more), one port, or nothing. */
export function checkPortRange(text: string): Violation[] {
  const [, first, sign, second = '0'] = /^(\d{1,6})(?:([-+])(\d{1,6}))?$/.exec(text.trim()) ?? [];
  const last = sign === '-' ? Number(second) : Number(first) + Number(second);
  if (text.trim() === '' || (Number(first) <= last && last <= 65535)) return [];
  const detail = 'must be a valid port range (e.g. 300-2000)';
  return [invalid('portRange', quote(text), detail)];
}

/** kube-proxy's one line for several errors: duplicates once, brackets around more than one. */
export function aggregate(texts: readonly string[]): string {
  const unique = [...new Set(texts)];
  return unique.length === 1 ? unique[0]! : `[${unique.join(', ')}]`;
}

function loggingViolation(field: FieldPath, type: string, detail: string, suffix = ''): Violation {
  const path = `${field.replace('logging.', '')}${suffix}`;
  const text = `${path}: ${type}: ${detail}`;
  return { field, detail: `${type.replace('Invalid value: ', '')}: ${detail}`, text };
}

/**
 * kube-proxy's rules for the logging section (behaviour document 2.8). They are checked before all
 * others and their paths have no prefix, because logging is set up first.
 */
export function checkLogging(
  settings: Settings,
  gates: Readonly<Record<string, boolean>>,
): Violation[] {
  const format = settings['logging.format'];
  const result: Violation[] = [];
  if (format !== 'text' && format !== 'json') {
    const type = `Invalid value: ${quote(format)}`;
    result.push(loggingViolation('logging.format', type, 'Unsupported log format'));
  }
  if (format === 'json' && gates.LoggingBetaOptions !== true) {
    const detail = 'Log format json is disabled, see LoggingBetaOptions feature';
    result.push(loggingViolation('logging.format', 'Forbidden', detail));
  }
  for (const found of checkBounds(settings, 'logging.flushFrequency')) {
    result.push({ ...found, text: `flushFrequency: Invalid value: ${found.detail}` });
  }
  return [...result, ...checkVModule(settings), ...checkAlphaOptions(settings, gates)];
}

function checkVModule(settings: Settings): Violation[] {
  const field = 'logging.vmodule';
  const items = settings[field];
  const result: Violation[] = [];
  if (items.length > 0 && settings['logging.format'] !== 'text') {
    result.push(loggingViolation(field, 'Forbidden', 'Only supported for text log format'));
  }
  for (const [index, { filePattern }] of items.entries()) {
    const at = `[${index}]`;
    if (filePattern === '') {
      result.push(loggingViolation(field, 'Required value', 'File pattern must not be empty', at));
    }
    if (/[=,]/.test(filePattern)) {
      const detail = 'File pattern must not contain equal sign or comma';
      result.push(loggingViolation(field, `Invalid value: ${quote(filePattern)}`, detail, at));
    }
  }
  return result;
}

function checkAlphaOptions(
  settings: Settings,
  gates: Readonly<Record<string, boolean>>,
): Violation[] {
  if (gates.LoggingAlphaOptions === true) return [];
  const used: FieldPath[] = [];
  for (const format of ['text', 'json'] as const) {
    if (settings[`logging.options.${format}.splitStream`]) {
      used.push(`logging.options.${format}.splitStream`);
    }
    if (settings[`logging.options.${format}.infoBufferSize`].bytes !== 0) {
      used.push(`logging.options.${format}.infoBufferSize`);
    }
  }
  return used.map((field) =>
    loggingViolation(field, 'Forbidden', 'Feature LoggingAlphaOptions is disabled'),
  );
}
