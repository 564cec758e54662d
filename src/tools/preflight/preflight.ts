/** All checks of a node before Fairlead is installed on it. Changes nothing for good. */
import { adviceOn } from '../../config/advice.ts';
import type { Config } from '../../config/config.ts';
import { type Finding, ok, problem, warning } from '../../host/finding.ts';
import { isKernelError, isNotPermitted } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { MissingFeature } from '../../kernel/nft/probe.ts';
import { builtModes, ModeError, type ModeRegistry, selectMode } from '../../modes/index.ts';
import type { ProxyMode } from '../../modes/proxy-mode.ts';
import { keepsProxyTable } from '../../takeover/sign.ts';
import { checkAgents } from './agents.ts';
import type { Machine } from './machine.ts';
import { checkPorts } from './ports.ts';
import { checkPredecessors } from './predecessors.ts';
import { checkConntrack, checkReliances, checkSettings } from './settings.ts';

interface PreflightOptions {
  readonly config: Config;
  readonly kernel: Kernel;
  readonly machine: Machine;
}

/** The findings, in the order in which an operator reads them. */
export async function preflight({ config, kernel, machine }: PreflightOptions): Promise<Finding[]> {
  const registry = builtModes();
  let mode: ProxyMode | undefined;
  const asked = await answered('modes', async () => {
    const found = await checkModes(config, kernel, registry);
    mode = found.mode;
    return found.findings;
  });
  return [
    ...checkPrivileges(machine),
    ...asked,
    ...adviceOn(config).map(({ about, text, advice }) => ({
      check: about,
      level: 'ok' as const,
      text,
      advice,
    })),
    ...(await answered('predecessors', () =>
      checkPredecessors(kernel, [...registry.values()], mode),
    )),
    ...(await answered('other agents', () =>
      checkAgents(kernel, {
        keepsProxyTable: mode !== undefined && keepsProxyTable(config, mode),
        acceptsHealthChecks: mode?.ownsChain?.('filter', 'KUBE-NODEPORTS') === true,
      }),
    )),
    ...(mode === undefined ? [] : checkSettings(config, mode, machine)),
    ...checkReliances(config, machine),
    ...checkConntrack(config, machine),
    ...checkPorts(config, machine),
  ];
}

/** Makes an error of the kernel a finding, so that the other checks are still made. */
async function answered(
  check: string,
  ask: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const isDenied = isNotPermitted(error);
    const advice = isDenied ? 'run as root, or add CAP_NET_ADMIN' : 'ask again';
    if (!isKernelError(error)) throw error;
    return [problem(check, `the kernel does not answer: ${error.message}`, advice)];
  }
}

/** Bits of `CapEff` (linux/capability.h). */
const CAP_NET_ADMIN = 12n;

export function checkPrivileges(machine: Machine): Finding[] {
  return [checkCapability(machine), checkProcSys(machine), ...checkLock(machine)];
}

function checkCapability(machine: Machine): Finding {
  const check = 'CAP_NET_ADMIN';
  const mask = /^CapEff:\s*([0-9a-f]+)/m.exec(machine.read('/proc/self/status') ?? '')?.[1] ?? '0';
  if ((BigInt(`0x${mask}`) >> CAP_NET_ADMIN) & 1n) return ok(check, 'this process has it');
  return problem(check, 'this process lacks it', 'run as root, or add the capability');
}

function checkProcSys(machine: Machine): Finding {
  const check = '/proc/sys';
  if (machine.isWritable('/proc/sys/net/ipv4/ip_forward')) return ok(check, 'can be written');
  const advice =
    'run an init container with --init-only, as the hardened profile has it, or set the sysctls yourself';
  return warning(check, 'is read-only for this process', advice);
}

const lockPath = '/run/xtables.lock';

/** Programs of iptables-legacy and kube-proxy lock this file. A container needs the node's. */
function checkLock(machine: Machine): Finding[] {
  const inode = machine.inode(lockPath);
  if (inode === undefined) {
    return [ok(lockPath, 'is not there: no program of iptables-legacy has run since the boot')];
  }
  const locks = (machine.read('/proc/locks') ?? '').split('\n').map((line) => line.split(/\s+/));
  const held = locks.find((columns) => columns[5]?.endsWith(`:${inode}`));
  if (held === undefined) return [ok(lockPath, 'no process holds it')];
  const advice = 'Fairlead cleans up iptables-legacy when that process releases the lock';
  return [warning(lockPath, `process ${held[4]} holds it`, advice)];
}

interface ModesFound {
  readonly findings: readonly Finding[];
  /** The mode that would run; undefined = none can. */
  readonly mode: ProxyMode | undefined;
}

/**
 * Checks which modes the kernel supports, and which one would run. Probes as a start does: by
 * transactions that the kernel refuses, and in IPVS by a virtual service and a link that are
 * deleted again. Throws what `probe` throws.
 */
async function checkModes(
  config: Pick<Config, 'mode' | 'ipvs'>,
  kernel: Kernel,
  registry: ModeRegistry,
): Promise<ModesFound> {
  const settings = config.ipvs;
  const findings: Finding[] = [];
  const asked = new Map<ProxyMode['name'], ProxyMode>();
  for (const mode of registry.values()) {
    const missing = await mode.probe(kernel, settings);
    asked.set(mode.name, { ...mode, probe: async () => missing });
    findings.push(findingOf(mode, missing, config.mode));
  }
  try {
    const choice = await selectMode(config.mode, kernel, asked, settings);
    const { mode, fallbacks, notAsIptables } = choice;
    const [fallback] = fallbacks;
    const check = 'mode to run';
    if (notAsIptables !== undefined) {
      const text = `nftables, and packets meet what it does: kube-proxy's default ${notAsIptables}`;
      return { mode, findings: [...findings, warning(check, text, 'ask for mode nftables')] };
    }
    if (config.mode !== '' && fallback !== undefined) {
      const text = `${mode.name} would run instead of ${config.mode}`;
      const advice = `give ${config.mode} what it needs, or ask for mode ${mode.name}`;
      return { mode, findings: [...findings, warning(check, text, advice)] };
    }
    const why = config.mode === '' ? 'the best that this kernel can do' : 'as configured';
    return { mode, findings: [...findings, ok(check, `${mode.name}: ${why}`)] };
  } catch (error) {
    if (!(error instanceof ModeError)) throw error;
    const advice = 'give one of the modes above what it needs';
    return {
      mode: undefined,
      findings: [...findings, problem('mode to run', 'none can run', advice)],
    };
  }
}

function findingOf(
  { name }: ProxyMode,
  missing: readonly MissingFeature[],
  requested: string,
): Finding {
  const check = `mode ${name}`;
  if (missing.length === 0) return ok(check, 'the kernel can do it');
  const features = missing.map(({ feature }) => feature).join(', ');
  const text = `the kernel lacks ${features}`;
  if (name !== requested) return ok(check, `${text}; this mode is not requested`);
  return warning(check, text, [...new Set(missing.map(({ advice }) => advice))].join('; '));
}
