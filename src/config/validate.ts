/**
 * Whether a complete configuration is valid: the checks of the table of settings, in kube-proxy's
 * order (behaviour document 2.2 to 2.4, 2.8). Every violation is found in one go; nothing is
 * repaired.
 */
import { boundsInShort, describeBounds, type Fault, keepsBounds } from './settings/checks.ts';
import {
  type FieldPath,
  fieldPaths,
  type SettingKey,
  type Settings,
  settingTable,
} from './settings/index.ts';
import { rulesOf } from './types.ts';
import { type SyncSection, syncSection } from './values.ts';

/** One violated rule. */
export interface Violation {
  /** Path of the field in the file. */
  readonly field: FieldPath;
  /** The key in it that is wrong, where the field is a mapping; absent = the field. */
  readonly entry?: string;
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

/** kube-proxy's name of a field: that of Go's structures. Logging is set up before, without them. */
function errorPath(field: FieldPath): string {
  if (field.startsWith('logging.')) return field.slice('logging.'.length);
  const names = field.split('.').map((name, depth) => {
    const isSection = depth === 0 && Object.hasOwn(goSections, name);
    if (isSection) return goSections[name];
    return name.replace(/^(?:tcp|udp|.)/, (start) => start.toUpperCase());
  });
  return `${root}.${settingTable[field].errorPath ?? names.join('.')}`;
}

function violation(field: FieldPath, fault: Fault): Violation {
  const { at = '', detail, kind = 'Invalid value', shown } = fault;
  const said = shown === undefined ? kind : `${kind}: ${shown}`;
  return {
    field,
    detail: `${shown ?? kind}: ${detail}`,
    text: `${errorPath(field)}${at}: ${said}: ${detail}`,
  };
}

/** Bounds and further rules of a setting in a few words, for --help and the documentation. */
export function settingRules(key: SettingKey): string {
  const { bounds, rules } = settingTable[key];
  return [bounds === undefined ? '' : boundsInShort(bounds), rules ?? '']
    .filter((part) => part !== '')
    .join('; ');
}

type Gates = Readonly<Record<string, boolean>>;

/** Checks one field, whatever the mode. */
export function checkField(settings: Settings, field: FieldPath, gates: Gates = {}): Violation[] {
  const { bounds, check } = settingTable[field];
  const value = settings[field];
  const faults: Fault[] = [];
  if (bounds !== undefined && !keepsBounds(bounds, value)) {
    faults.push({ shown: rulesOf(field).format(value), detail: describeBounds(bounds) });
  }
  faults.push(...(check?.(value, { ...settings, gates }) ?? []));
  return faults.map((fault) => violation(field, fault));
}

/** kube-proxy's name of the flag or field that gave a node's name is `given`. */
export function checkHostname(name: string, given = 'hostnameOverride'): Violation[] {
  if (name === '' || name.trim() !== '') return [];
  const detail = 'must not be only white space';
  return [{ field: 'hostnameOverride', detail, text: `empty ${given} is invalid` }];
}

/** The fields that kube-proxy checks before those of periods. */
const first: readonly FieldPath[] = [
  'iptables.masqueradeBit',
  'ipvs.tcpTimeout',
  'ipvs.tcpFinTimeout',
  'ipvs.udpTimeout',
  'ipvs.excludeCIDRs',
  'nftables.masqueradeBit',
  'conntrack.maxPerCore',
  'conntrack.min',
  'conntrack.tcpEstablishedTimeout',
  'conntrack.tcpCloseWaitTimeout',
  'conntrack.udpTimeout',
  'conntrack.udpStreamTimeout',
  'oomScoreAdj',
  'mode',
  'clientConnection.burst',
  'configSyncPeriod',
];

/** Those of periods, which `checkSyncPeriods` checks. */
const periods = /yncPeriod$/;

/** The rest, in the order of the table. */
const last = fieldPaths.filter(
  (path) => !first.includes(path) && !periods.test(path) && !path.startsWith('logging.'),
);

/** All rules except those of the node's name, of logging and of feature gates. */
export function validate(settings: Settings): Violation[] {
  const checked = (fields: readonly FieldPath[]): Violation[] =>
    fields
      .filter((field) => settingTable[field].checkedIn?.includes(settings.mode) ?? true)
      .flatMap((field) => checkField(settings, field));
  return [
    ...checked(first),
    ...checkSyncPeriods(settings, syncSection(settings.mode)),
    ...checked(last),
  ];
}

/** Only the pair of the active mode is checked, under one name whatever the section. */
export function checkSyncPeriods(settings: Settings, section: SyncSection): Violation[] {
  const period = settings[`${section}.syncPeriod`];
  const min = settings[`${section}.minSyncPeriod`];
  const { format } = rulesOf(`${section}.syncPeriod`);
  const result = [
    ...checkField(settings, `${section}.syncPeriod`),
    ...checkField(settings, `${section}.minSyncPeriod`),
  ];
  if (min > period) {
    const detail = `must be greater than or equal to ${root}.MinSyncPeriod`;
    result.push({
      field: `${section}.minSyncPeriod`,
      detail: `${format(min)}: must not be above the sync period, ${format(period)}`,
      // kube-proxy names the period here and shows the minimum.
      text: violation(`${section}.syncPeriod`, { shown: format(min), detail }).text,
    });
  }
  if (section === 'ipvs') return result;
  const max = settings[`${section}.maxSyncPeriod`];
  result.push(...checkField(settings, `${section}.maxSyncPeriod`));
  if (max > 0n && max < min) {
    const detail = `must be greater than or equal to ${root}.MinSyncPeriod, ${format(min)}`;
    result.push(violation(`${section}.maxSyncPeriod`, { shown: format(max), detail }));
  }
  return result;
}

/** The rules for the logging section, which are checked before all others. */
export function checkLogging(settings: Settings, gates: Gates): Violation[] {
  return fieldPaths
    .filter((path) => path.startsWith('logging.'))
    .flatMap((field) => checkField(settings, field, gates));
}

/** kube-proxy's one line for several errors: duplicates once, brackets around more than one. */
export function aggregate(texts: readonly string[]): string {
  const unique = [...new Set(texts)];
  return unique.length === 1 ? unique[0]! : `[${unique.join(', ')}]`;
}
