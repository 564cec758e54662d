/** Checks which modes the kernel supports, and which one would run. */
import type { Config } from '../../config/config.ts';
import { type Finding, ok, problem, warning } from '../../host/finding.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { MissingFeature } from '../../kernel/nft/probe.ts';
import { ModeError, type ModeRegistry, selectMode } from '../../modes/index.ts';
import type { ProxyMode } from '../../modes/proxy-mode.ts';

interface ModesFound {
  readonly findings: readonly Finding[];
  /** The mode that would run; undefined = none can. */
  readonly mode: ProxyMode | undefined;
}

/**
 * Probes as a start does: by transactions that the kernel refuses, and in IPVS by a virtual service
 * and a link that are deleted again. Throws what `probe` throws.
 */
export async function checkModes(
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
