/** Helpers of the configuration tests: files as text, and results of the kind that is expected. */
import type { Config } from '../../../src/config/config.ts';
import { type LoadResult, loadConfig } from '../../../src/config/load.ts';

export const header =
  'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n';

export function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

/** Loads with these flags; `file` is the body of the file that `--config=proxy.yaml` names. */
export function load(flags: readonly string[], file?: string): LoadResult {
  const argv = file === undefined ? flags : ['--config=proxy.yaml', ...flags];
  return loadConfig(argv, { readFile: () => bytes(`${header}${file ?? ''}`) });
}

export function loadFile(file: string): LoadResult {
  return load([], file);
}

type Running = Extract<LoadResult, { kind: 'run' }>;

export function running(result: LoadResult): Running {
  if (result.kind !== 'run') throw new Error(`not a run but ${JSON.stringify(result)}`);
  return result;
}

export function configOf(result: LoadResult): Config {
  return running(result).config;
}

/** The error's text, or a word about what came instead. */
export function errorOf(result: LoadResult): string {
  return result.kind === 'error' ? result.text : `no error: ${result.kind}`;
}
