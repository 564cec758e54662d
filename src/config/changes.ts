/** What changed between two configurations, and whether that can take effect while we run. */
import { isDeepStrictEqual } from 'node:util';
import type { Config, ModeName } from './config.ts';

/** Fields by their names in the file, for the log. */
export interface ConfigChanges {
  /** These take effect at once. */
  readonly live: readonly string[];
  /** These need a new process. */
  readonly restart: readonly string[];
}

type Effect =
  | 'live'
  | 'restart'
  /** A section that only matters while its mode runs. */
  | 'mode'
  /** Made from other fields, or about the command line. */
  | 'none';

const effects: Readonly<Record<Exclude<keyof Config, 'modes'>, Effect>> = {
  kubernetesVersion: 'none',
  source: 'restart',
  ignoreOtherInstance: 'none',
  hostnameOverride: 'restart',
  bindAddress: 'restart',
  healthzBindAddress: 'restart',
  metricsBindAddress: 'restart',
  bindAddressHardFail: 'restart',
  profiling: 'restart',
  serviceMetrics: 'live',
  mode: 'live',
  ownTables: 'restart',
  connectTime: 'live',
  connectTimeExcludedPods: 'live',
  iptables: 'mode',
  ipvs: 'mode',
  userspace: 'live',
  detectLocal: 'live',
  nodePortAddresses: 'live',
  externalIPs: 'live',
  serviceLimits: 'live',
  oomScoreAdj: 'live',
  conntrack: 'live',
  featureGates: 'restart',
  logging: 'restart',
  configPath: 'none',
  document: 'none',
  flags: 'none',
};

/** What the file calls a field, where that is not the name in Config. */
const fileNames: Readonly<Record<string, string>> = {
  source: 'clientConnection',
  profiling: 'enableProfiling',
  detectLocal: 'detectLocalMode/detectLocal/clusterCIDR',
};

/** Fields whose fields are named one by one. */
const sections: ReadonlySet<string> = new Set([
  'conntrack',
  'externalIPs',
  'featureGates',
  'ipvs',
  'iptables',
  'logging',
  'serviceLimits',
  'userspace',
]);

/** `mode` is the one that runs. What other modes would run with is no change. */
export function configChanges(before: Config, after: Config, mode: ModeName): ConfigChanges {
  const live: string[] = [];
  const restart: string[] = [];
  for (const key of Object.keys(effects) as (keyof typeof effects)[]) {
    for (const name of changedIn(key, before[key], after[key])) {
      const effect = name === 'logging.verbosity' ? 'live' : effects[key];
      const isRestart = effect === 'restart' || (effect === 'mode' && key === mode);
      if (effect !== 'none') (isRestart ? restart : live).push(name);
    }
  }
  const { masqueradeMark: _, ...settingsBefore } = before.modes[mode];
  const { masqueradeMark: __, ...settingsAfter } = after.modes[mode];
  live.push(...fieldsChanged(mode, settingsBefore, settingsAfter));
  return { live, restart };
}

function changedIn(key: string, before: unknown, after: unknown): string[] {
  if (sections.has(key)) return fieldsChanged(key, before as object, after as object);
  return isDeepStrictEqual(before, after) ? [] : [fileNames[key] ?? withoutUnit(key)];
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
