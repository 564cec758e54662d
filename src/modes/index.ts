/** Which modes there are, and which one runs. A new mode is a folder here and a line below. */
import type { Kernel } from '../kernel/kernel.ts';
import type { MissingFeature, ModeName, ProxyMode } from './mode.ts';
import { nftablesMode } from './nftables/mode.ts';

/** Best first. */
const modes: ReadonlyMap<ModeName, ProxyMode> = new Map([[nftablesMode.name, nftablesMode]]);

/** Every mode of this build, best first. */
export function availableModes(): ProxyMode[] {
  return [...modes.values()];
}

/** No mode can do what was asked for; the message says why and what to do. */
export class ModeError extends Error {
  override readonly name = 'ModeError';
}

/**
 * The mode to run, after asking the kernel whether it can. Empty = the best one that it can do.
 * Throws ModeError, and what `probe` throws.
 */
export async function selectMode(requested: ModeName | '', kernel: Kernel): Promise<ProxyMode> {
  const candidates = requested === '' ? availableModes() : [modeNamed(requested)];
  const lacking: string[] = [];
  for (const mode of candidates) {
    const missing = await mode.probe(kernel);
    if (missing.length === 0) return mode;
    lacking.push(`mode ${mode.name} needs what this kernel lacks: ${describe(missing)}`);
  }
  throw new ModeError(lacking.join('; '));
}

function modeNamed(name: ModeName): ProxyMode {
  const mode = modes.get(name);
  if (mode !== undefined) return mode;
  const known = [...modes.keys()].join(', ');
  throw new ModeError(`mode ${name} is not in this version; available: ${known} (--proxy-mode)`);
}

function describe(missing: readonly MissingFeature[]): string {
  return missing.map(({ feature, advice }) => `${feature}: ${advice}`).join('; ');
}
