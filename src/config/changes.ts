/** What changed between two configurations, and whether that can take effect while we run. */
import { isDeepStrictEqual } from 'node:util';
import type { Config, ModeName } from './config.ts';
import { fieldPaths, settingTable } from './settings/index.ts';
import type { Setting } from './settings/spec.ts';

/** Fields by their names in the file, for the log. */
export interface ConfigChanges {
  /** These take effect immediately. */
  readonly live: readonly string[];
  /** These need a new process. */
  readonly restart: readonly string[];
}

/** What the file calls a part of Config, where that is not its name. */
const fileNames: Readonly<Partial<Record<keyof Config, string>>> = {
  source: 'clientConnection',
  profiling: 'enableProfiling',
  detectLocal: 'detectLocalMode/detectLocal',
  // Its fields are in no section there.
  userspace: '',
};

/** Parts of Config that no field of the file makes, or that are made from other parts. */
const notOfFile: ReadonlySet<string> = new Set<keyof Config>([
  'kubernetesVersion',
  'ignoreOtherInstance',
  'ownTables',
  'modes',
  'given',
  'configPath',
  'document',
  'flags',
]);

/** Parts whose fields are named one by one. */
const sections: ReadonlySet<string> = new Set<keyof Config>([
  'conntrack',
  'externalIPs',
  'featureGates',
  'ipvs',
  'iptables',
  'logging',
  'serviceLimits',
  'userspace',
]);

/**
 * `mode` is the running one. Only settings of the mode that will run count, not those of others.
 */
export function configChanges(before: Config, after: Config, mode: ModeName): ConfigChanges {
  const live: string[] = [];
  const restart: string[] = [];
  for (const key of Object.keys(after) as (keyof Config)[]) {
    if (notOfFile.has(key)) continue;
    for (const name of changedIn(key, before[key], after[key])) {
      const needed = restartOf(name);
      const isRestart = needed === 'always' || (needed === 'in its mode' && key === mode);
      (isRestart ? restart : live).push(name);
    }
  }
  const next = after.mode === before.mode || after.mode === '' ? mode : after.mode;
  const { masqueradeMark: _, ...settingsBefore } = before.modes[next];
  const { masqueradeMark: __, ...settingsAfter } = after.modes[next];
  live.push(...fieldsChanged(next, settingsBefore, settingsAfter));
  return { live, restart };
}

/** What the table says of a field, or of the first field of a section. */
function restartOf(name: string): Setting['restart'] {
  const [first = ''] = name.split('/');
  const path =
    fieldPaths.find((path) => path === first || first.startsWith(`${path}.`)) ??
    fieldPaths.find((path) => path.startsWith(`${first}.`));
  return path && settingTable[path].restart;
}

function changedIn(key: keyof Config, before: unknown, after: unknown): string[] {
  const name = fileNames[key] ?? key;
  if (sections.has(key)) return fieldsChanged(name, before as object, after as object);
  return isDeepStrictEqual(before, after) ? [] : [name];
}

function fieldsChanged(section: string, before: object, after: object): string[] {
  const was = new Map<string, unknown>(Object.entries(before));
  return Object.entries(after)
    .filter(([name, value]) => !isDeepStrictEqual(was.get(name), value))
    .map(([name]) => (section === '' ? '' : `${section}.`) + withoutUnit(name));
}

/** Durations are milliseconds here and have no unit in their names there. */
function withoutUnit(name: string): string {
  return name.replace(/Ms$/, '');
}
