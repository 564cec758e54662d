/** `fairlead config convert` and `fairlead config validate`, without their input and output. */
import { loadConfig } from '../load.ts';
import { unwrapConfigMap } from './config-map.ts';
import { type CommandResult, Conversion, finish } from './conversion.ts';
import { importFlagFile } from './flags.ts';
import { importOpenShift } from './openshift.ts';
import { importOvhcloud } from './ovhcloud.ts';

const importers = {
  openshift: importOpenShift,
  ovhcloud: importOvhcloud,
  flags: importFlagFile,
} as const;
export type ImportSource = keyof typeof importers;
export const importSources = Object.keys(importers) as readonly ImportSource[];

/** Turns the file's bytes into KubeProxyConfiguration YAML and says what became of each field. */
export function convert(from: ImportSource, bytes: Uint8Array): CommandResult {
  const conversion = new Conversion();
  importers[from](bytes, conversion);
  return finish(conversion);
}

/** Checks a configuration, or the one in a ConfigMap, as a start with `--config` would. */
export function validateFile(path: string, bytes: Uint8Array): CommandResult {
  const unwrapped = unwrapConfigMap(bytes);
  if (!unwrapped.ok) return { text: '', notes: [`Error: ${unwrapped.error}`], exitCode: 1 };
  const place = unwrapped.place === undefined ? path : `${unwrapped.place}, in ${path},`;
  const result = loadConfig([`--config=${path}`], { readFile: () => unwrapped.bytes });
  if (result.kind === 'error') {
    return { text: '', notes: result.text.trimEnd().split('\n'), exitCode: 1 };
  }
  const warnings = result.kind === 'run' ? result.warnings : [];
  return { text: `${place} is valid\n`, notes: warnings, exitCode: 0 };
}
