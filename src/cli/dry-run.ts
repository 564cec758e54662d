/** `--dry-run` of a start: prints what it would write, set and take over. */

import { engineSettings } from '../agent/engine-settings.ts';
import type { Config } from '../config/config.ts';
import { checkConfig } from '../host/checks.ts';
import { isConntrackLiberal } from '../host/conntrack.ts';
import { hostFiles } from '../host/files.ts';
import { type Finding, worst } from '../host/finding.ts';
import { findInstance, formatHolder, lockNameOf } from '../host/instance-lock.ts';
import { availableFamilies, interfaceAddresses } from '../host/interfaces.ts';
import { nodeName } from '../host/node-name.ts';
import { dryRunOf } from '../kernel/dry-run.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { openKernel } from '../kernel/native-kernel.ts';
import { builtModes, selectMode } from '../modes/index.ts';
import type { ModeFacts } from '../modes/mode.ts';
import type { ProxyMode } from '../modes/proxy-mode.ts';
import { printable } from '../serve/printable.ts';
import { type DryRun, dryRun } from '../sync/dry-run.ts';
import { type Machine, thisMachine } from '../tools/preflight/machine.ts';
import { checkPredecessors, instanceCheck } from '../tools/preflight/predecessors.ts';
import { checkSettings } from '../tools/preflight/settings.ts';
import type { ShadowCluster } from '../tools/shadow/cluster.ts';
import { openCluster } from './open-cluster.ts';
import { terminal } from './terminal.ts';

/** The most Services to name, unless -v asks for all. */
const namesMax = 20;

/** Rejects if a start would. */
export async function runDryRun(config: Config, warnings: readonly string[]): Promise<void> {
  const print = (line: string): void => void terminal.stdout.write(`${printable(line)}\n`);
  for (const warning of warnings) print(`Warning: ${warning}`);
  const kernel = openKernel();
  try {
    const { serviceProxyName } = config;
    const registry = builtModes(undefined, serviceProxyName);
    const choice = await selectMode(config.mode, kernel, registry, config.ipvs);
    for (const { from, reason } of choice.fallbacks) print(`Mode ${from} ${reason}`);
    print(`Mode ${choice.mode.name}`);
    const running = await runningHere(lockNameOf(serviceProxyName));
    if (running !== undefined) {
      print(`Another Fairlead runs here: ${running}; this compares with what it has written`);
    }
    const { cluster, close } = await openCluster(config, choice.mode);
    try {
      // Rules of another Fairlead can be read, and nothing is written.
      const reader = { ...dryRunOf(kernel), ...(running !== undefined && { isOwn: () => true }) };
      for (const line of await plan(config, choice.mode, reader, cluster)) print(line);
    } finally {
      await close();
    }
    for (const line of settingsLines(config, choice.mode, thisMachine())) print(line);
    // A second proxy takes nothing over.
    const modes = serviceProxyName === '' ? [...registry.values()] : undefined;
    const found = modes && (await checkPredecessors(kernel, modes, choice.mode));
    const others = (found ?? []).filter(({ check }) => check !== instanceCheck);
    for (const line of linesOf('Takeover', others)) print(line);
    print('Nothing was written.');
    if (worst(others) === 'problem') throw new Error('a start would fail, as is said above');
  } finally {
    kernel.close();
  }
}

/** The Fairlead of this network namespace. */
async function runningHere(lock: string): Promise<string | undefined> {
  const found = await findInstance(lock);
  return found.kind === 'taken' ? formatHolder(found.holder) : undefined;
}

async function plan(
  config: Config,
  mode: ProxyMode,
  kernel: Kernel,
  cluster: ShadowCluster,
): Promise<string[]> {
  const host = hostFiles();
  const families = availableFamilies(host);
  const { node } = cluster.state;
  const own = { nodeName: nodeName(config.hostnameOverride), interfaces: interfaceAddresses() };
  const warnings = checkConfig(config, { ...own, families, node });
  const lines = warnings.map((text) => `Warning: ${text}`);
  const isLiberal = isConntrackLiberal(host);
  const forwardings = [...cluster.forwardings()];
  for (const settings of engineSettings({ config, mode, families, node, isLiberal }).families) {
    const { family } = settings;
    const planner = mode.planner(settings, cluster.environment(family));
    const desired = forwardings.filter((forwarding) => forwarding.family === family);
    const found = await dryRun(planner, kernel, desired);
    lines.push(...planLines(family, desired.length, found, config.logging.verbosity));
    const filter = mode.filterPlanner?.(settings);
    if (filter === undefined) continue;
    const checked = desired.filter(({ healthCheckNodePort }) => healthCheckNodePort !== 0);
    const accepted = await dryRun(filter, kernel, checked);
    const label = `${family}, table filter of iptables`;
    lines.push(...planLines(label, checked.length, accepted, config.logging.verbosity));
  }
  return lines;
}

function planLines(label: string, known: number, found: DryRun, verbosity: number): string[] {
  const { drift, different, writes } = found;
  const { missing, wrong, unwanted } = drift;
  const kinds = [...writes].map(([kind, count]) => `${count} × ${wordsOf(kind)}`);
  const shown = verbosity > 0 ? different : different.slice(0, namesMax);
  const more = different.length - shown.length;
  return [
    `${label}: ${different.length} of ${known} Service ports differ; ` +
      `${missing} objects are missing, ${wrong} wrong, ${unwanted} unwanted`,
    ...(kinds.length === 0 ? [] : [`${label}: would write ${kinds.join(', ')}`]),
    ...(shown.length === 0 ? [] : [`${label}: ${shown.join(', ')}`]),
    ...(more === 0 ? [] : [`${label}: and ${more} more, which -v=1 names`]),
  ];
}

/** `elements add` of `elementsAdd`. */
function wordsOf(kind: string): string {
  return kind.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

/** The sysctls that a start would set, or would have to set and cannot. Right ones are left out. */
export function settingsLines(config: Config, mode: ModeFacts, machine: Machine): string[] {
  return linesOf('Settings', checkSettings(config, mode, machine).filter(isOfInterest));
}

function isOfInterest({ level, text }: Finding): boolean {
  return level !== 'ok' || text.includes('expected ');
}

function linesOf(what: string, findings: readonly Finding[]): string[] {
  return findings.map(({ check, text, advice }) => {
    return `${what}: ${check}: ${text}${advice === '' ? '' : ` → ${advice}`}`;
  });
}
