/** `fairlead config convert` and `fairlead config validate`, without their input and output. */
import { adviceOn } from '../../config/advice.ts';
import { errorsOf, loadConfig } from '../../config/load.ts';
import { configurationIn, importKubeadm } from './configuration.ts';
import { type CommandResult, Conversion, finish } from './conversion.ts';
import { type DistributionName, distributionNames, importDistribution } from './distributions.ts';
import { importFlagFile } from './flags.ts';
import { importOpenShift } from './openshift.ts';
import { importOvhcloud } from './ovhcloud.ts';

const importers = {
  openshift: importOpenShift,
  ovhcloud: importOvhcloud,
  flags: importFlagFile,
  kubeadm: importKubeadm,
} as const;
export type ImportSource = keyof typeof importers | DistributionName;
export const importSources: readonly ImportSource[] = [
  ...(Object.keys(importers) as (keyof typeof importers)[]),
  ...distributionNames,
];

/** Turns the file's bytes into KubeProxyConfiguration YAML and says what became of each field. */
export function convert(from: ImportSource, bytes: Uint8Array): CommandResult {
  const conversion = new Conversion();
  if (from in importers) importers[from as keyof typeof importers](bytes, conversion);
  else importDistribution(from as DistributionName, bytes, conversion);
  return finish(conversion);
}

/**
 * Checks a configuration as a start with `--config` would, or the one that is in the file: as a
 * later document, in a ConfigMap, a List, Helm values.
 */
export function validateFile(path: string, bytes: Uint8Array): CommandResult {
  const taken = configurationIn(bytes);
  if ('error' in taken) return { text: '', notes: [`Error: ${taken.error}`], exitCode: 1 };
  const { place, warnings } = taken;
  const where = place === '' ? path : `${place}, in ${path},`;
  const result = loadConfig([`--config=${path}`], { readFile: () => taken.configuration });
  if (result.kind === 'error') {
    const errors = errorsOf(result).map((error) => `  ${error}`);
    const lines = [`Error: ${where} is not valid`, ...errors];
    return { text: '', notes: [...result.warnings, ...lines], exitCode: 1 };
  }
  if (result.kind !== 'run') throw new Error(`--config leads to ${result.kind}`);
  const advice = adviceOn(result.config)
    .filter(({ advice }) => advice !== '')
    .map(({ about, text, advice }) => `${about} ${text}: ${advice}`);
  const notes = [...warnings, ...result.warnings, ...advice];
  return { text: `${where} is valid\n`, notes, exitCode: 0 };
}
