/** What changed between two configurations, and whether that can take effect while we run. */
import { isDeepStrictEqual } from 'node:util';
import type { Config, ModeName } from './config.ts';
import { type FieldPath, fieldPaths, settingTable } from './settings/index.ts';

/** Fields by their names in the file, for the log. */
export interface ConfigChanges {
  /** These take effect immediately. */
  readonly live: readonly string[];
  /** These need a new process. */
  readonly restart: readonly string[];
}

/** Parts of Config that several fields make: name, one of the fields, and the part. */
const apart: readonly (readonly [string, FieldPath, (config: Config) => unknown])[] = [
  ['clientConnection', 'clientConnection.kubeconfig', ({ source }) => source],
  ['detectLocalMode/detectLocal', 'detectLocalMode', ({ detectLocal }) => detectLocal],
  ['logging.format', 'logging.format', ({ logging }) => logging.format],
];

/**
 * `mode` is the running one. Only settings of the mode that will run count, not those of others.
 */
export function configChanges(before: Config, after: Config, mode: ModeName): ConfigChanges {
  const live: string[] = [];
  const restart: string[] = [];
  const compare = (name: string, path: FieldPath, partOf: (config: Config) => unknown): void => {
    if (isDeepStrictEqual(partOf(before), partOf(after))) return;
    const { restart: needed } = settingTable[path];
    const isInMode = needed === 'in its mode' && path.startsWith(`${mode}.`);
    (needed === 'always' || isInMode ? restart : live).push(name);
  };
  for (const path of fieldPaths) {
    const { config: place } = settingTable[path];
    if (place !== undefined) compare(path, path, (config) => partAt(config, place));
  }
  for (const [name, path, partOf] of apart) compare(name, path, partOf);
  for (const gate of Object.keys(after.featureGates)) {
    compare(`featureGates.${gate}`, 'featureGates', ({ featureGates }) => featureGates[gate]);
  }
  const next = after.mode === before.mode || after.mode === '' ? mode : after.mode;
  const { masqueradeMark: _, ...settingsBefore } = before.modes[next];
  const { masqueradeMark: __, ...settingsAfter } = after.modes[next];
  live.push(...fieldsChanged(next, settingsBefore, settingsAfter));
  return { live, restart };
}

function partAt(config: Config, place: string): unknown {
  let at: unknown = config;
  for (const name of place.split('.')) at = (at as Readonly<Record<string, unknown>>)[name];
  return at;
}

function fieldsChanged(section: string, before: object, after: object): string[] {
  const was = new Map<string, unknown>(Object.entries(before));
  return Object.entries(after)
    .filter(([name, value]) => !isDeepStrictEqual(was.get(name), value))
    .map(([name]) => `${section}.${withoutUnit(name)}`);
}

/** Durations are milliseconds here and have no unit in their names there. */
function withoutUnit(name: string): string {
  return name.replace(/Ms$/, '');
}
