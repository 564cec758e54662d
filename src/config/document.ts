/**
 * The public form of a configuration: what --write-config-to writes and /configz serves
 * (behaviour document 1.5). Like kube-proxy, it gives sync periods and masqueradeAll only in the
 * section of the active mode and zero values in the others.
 */
import { stringify } from 'yaml';
import { type Json, rulesOf } from './field-types.ts';
import { type FieldPath, fieldPaths, type GivenSettings, type Settings } from './fields/index.ts';
import { apiVersion, kind } from './file.ts';
import { masqueradeSection, syncSection } from './settings.ts';

/** Fields that are left out when they hold their zero value. */
const omittedWhenZero: ReadonlySet<FieldPath> = new Set([
  'featureGates',
  'logging.vmodule',
  'logging.options.text.splitStream',
  'logging.options.json.splitStream',
  'windowsRunAsService',
  'nftables.maxSyncPeriod',
  'iptables.maxSyncPeriod',
  'serviceMetrics',
  'connectTimeExcludedPods',
  'externalIPs.cidrs',
  'externalIPs.namespaces',
  'serviceLimits.frontends',
  'serviceLimits.frontendEndpoints',
  'serviceLimits.endpoints',
  'serviceLimits.sourceRanges',
  'serviceLimits.affinityPorts',
]);

type JsonObject = { readonly [key: string]: Json };

/** All of a complete configuration. */
export function toDocument(settings: Settings): JsonObject {
  const root = typeMeta();
  for (const path of fieldPaths) {
    const value = isActive(settings, path) ? settings[path] : rulesOf(path).zero;
    const isZero = rulesOf(path).format(value) === rulesOf(path).format(rulesOf(path).zero);
    if (isZero && omittedWhenZero.has(path)) continue;
    // kube-proxy 1.36 does not know these fields, so they appear only where they matter.
    if (path === 'connectTime' && value === 'off') continue;
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
