/**
 * The versions of the file. Each gives the same settings; v1alpha2 has other names for some of
 * them, and a few fields more (KEP-784). kube-proxy does not read it yet.
 */
import { type FieldPath, fieldPaths, type GivenSettings, settingTable } from './settings/index.ts';
import type { ValueType } from './settings/spec.ts';
import { rulesOfType } from './types.ts';
import { settingsFrom } from './values.ts';

export const versions = ['v1alpha1', 'v1alpha2'] as const;
export type Version = (typeof versions)[number];

/** A field as a version has it. */
export interface FileField {
  readonly type: ValueType;
  /** The settings that it gives; none = it has no effect. */
  readonly gives: readonly FieldPath[];
  /** See `Setting.keepsZero`. */
  readonly keepsZero: boolean;
}

/** Fields that only v1alpha2 has. */
const added: Readonly<Record<string, FileField & { readonly meaning: string }>> = {
  'detectLocal.clusterCIDRs': {
    type: 'strings',
    gives: ['clusterCIDR'],
    keepsZero: false,
    meaning: '`clusterCIDR` as a list.',
  },
  'ipvs.masqueradeBit': {
    type: 'int32',
    gives: ['iptables.masqueradeBit'],
    keepsZero: true,
    meaning: '`iptables.masqueradeBit` for mode ipvs.',
  },
  nodeIPOverride: {
    type: 'strings',
    gives: ['bindAddress'],
    keepsZero: false,
    meaning: '`bindAddress`. Of several addresses the first is used.',
  },
  ipFamilyPolicy: {
    type: 'string',
    gives: [],
    keepsZero: false,
    meaning: "Accepted, without effect: the families are those of the node's addresses.",
  },
  configHardFail: {
    type: 'bool',
    gives: [],
    keepsZero: true,
    meaning: 'Accepted, without effect: a wrong configuration always ends the start.',
  },
};

/** Settings that v1alpha2 has in other words, or no longer has. */
const withoutPath: ReadonlySet<string> = new Set(['clusterCIDR', 'bindAddress', 'portRange']);

/** Returns the path of a setting in v1alpha2; undefined if it differs, or is missing there. */
export function pathInV1alpha2(path: FieldPath): string | undefined {
  if (withoutPath.has(path)) return undefined;
  return path
    .replace(/^(?=conntrack\.|oomScoreAdj$)/, 'linux.')
    .replace(/^(?:iptables|nftables)\.masqueradeAll$/, 'linux.masqueradeAll')
    .replace(/^(?:iptables|ipvs|nftables)\.(\w*yncPeriod)$/, '$1')
    .replace(/^windowsRunAsService$/, 'windows.runAsService');
}

/** Defaults that v1alpha2 changes. A zero value is kept where it is not the default. */
export const defaultsOf: Readonly<Record<Version, GivenSettings>> = {
  v1alpha1: {},
  v1alpha2: { 'iptables.localhostNodePorts': false, bindAddressHardFail: true },
};

function fieldsOfVersion(version: Version): ReadonlyMap<string, FileField> {
  const fields = new Map<string, FileField>();
  for (const path of fieldPaths) {
    const name = version === 'v1alpha1' ? path : pathInV1alpha2(path);
    if (name === undefined) continue;
    const { type, keepsZero = defaultsOf[version][path] === true } = settingTable[path];
    const gives = [...(fields.get(name)?.gives ?? []), path];
    fields.set(name, { type, gives, keepsZero });
  }
  if (version === 'v1alpha2')
    for (const [name, field] of Object.entries(added)) fields.set(name, field);
  return fields;
}

/** The fields of each version, by their paths. */
export const fileFields: Readonly<Record<Version, ReadonlyMap<string, FileField>>> = {
  v1alpha1: fieldsOfVersion('v1alpha1'),
  v1alpha2: fieldsOfVersion('v1alpha2'),
};

/** The fields that v1alpha2 adds, with what they mean here. */
export const addedFields = Object.entries(added).map(([name, { type, meaning }]) => {
  return { name, type: rulesOfType(type).name, meaning };
});

interface Settled {
  readonly given: GivenSettings;
  /** Where the file gives a setting. */
  readonly places: ReadonlyMap<FieldPath, string>;
  readonly warnings: readonly string[];
}

/** The settings that the fields of a file give. */
export function settle(version: Version, values: ReadonlyMap<string, unknown>): Settled {
  const given = new Map<FieldPath, unknown>();
  const places = new Map<FieldPath, string>();
  const warnings: string[] = [];
  const isIpvs = values.get('mode') === 'ipvs';
  for (const [name, value] of values) {
    if (version === 'v1alpha2' && name === `${isIpvs ? 'iptables' : 'ipvs'}.masqueradeBit`)
      continue;
    for (const path of fileFields[version].get(name)!.gives) {
      given.set(path, asSetting(path, value));
      places.set(path, name);
    }
    const extra = version === 'v1alpha2' && Object.hasOwn(added, name) ? added[name] : undefined;
    const isIgnored =
      extra?.gives.length === 0 || (name === 'nodeIPOverride' && (value as []).length > 1);
    if (extra && isIgnored) warnings.push(`${name}: ${extra.meaning}`);
  }
  return { given: settingsFrom(given), places, warnings };
}

/** Lists of v1alpha2 that are texts in v1alpha1. */
function asSetting(path: FieldPath, value: unknown): unknown {
  if (!Array.isArray(value)) return value;
  if (path === 'clusterCIDR') return value.join(',');
  return path === 'bindAddress' ? value[0] : value;
}
