/** `fairlead config convert` and `fairlead config validate`, without their input and output. */
import { modeAdvice } from '../../config/advice.ts';
import { loadConfig } from '../../config/load.ts';
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
    const { message, problems, warnings } = result;
    const errors = problems.length === 0 ? [message] : problems;
    const lines = [`Error: ${place} is not valid`, ...errors.map((error) => `  ${error}`)];
    return { text: '', notes: [...warnings, ...lines], exitCode: 1 };
  }
  if (result.kind !== 'run') throw new Error(`--config leads to ${result.kind}`);
  const advice = modeAdvice(result.config)
    .filter(({ advice }) => advice !== '')
    .map(({ about, text, advice }) => `${about} ${text}: ${advice}`);
  const notes = [...result.warnings, ...advice];
  return { text: `${place} is valid\n`, notes, exitCode: 0 };
}
