/**
 * The settings that each mode would run with. The requested mode has its own section. Another mode,
 * which runs because `mode` is empty or as a fallback, has its own section where the file gives it,
 * else the requested mode's. So `iptables.masqueradeAll: true` with an empty mode also counts when
 * nftables is chosen.
 */
import { type ModeName, type ModeSettings, modeNames } from './config.ts';
import { toMs } from './duration.ts';
import type { GivenSettings, Settings } from './settings/index.ts';
import { checkField, checkSyncPeriods } from './validate.ts';
import { masqueradeSection, type SyncSection, syncSection } from './values.ts';

/** kube-proxy's fixed longest time between two full syncs, in nanoseconds. */
const fullSyncPeriodNs = 3_600_000_000_000n;

/**
 * kube-proxy's default, which is also in generated files. It protects kube-proxy from the cost of
 * its own syncs. Here a sync costs what changed, and changes that come during a batch are
 * collected. So this value means "no wait" here; any other value was asked for.
 */
const upstreamMinSyncPeriodNs = 1_000_000_000n;

interface ResolvedModes {
  readonly modes: Readonly<Record<ModeName, ModeSettings>>;
  readonly warnings: readonly string[];
}

export function resolveModes(settings: Settings, given: GivenSettings): ResolvedModes {
  const warnings = new Set<string>();
  const warn = (text: string): unknown => warnings.add(text);
  const resolve = (mode: ModeName): ModeSettings => {
    const masqueradeBit = resolveBit(mode, settings, given, warn);
    const section = resolveSyncSection(mode, settings, given, warn);
    const min = settings[`${section}.minSyncPeriod`];
    return {
      masqueradeBit,
      masqueradeMark: (1 << masqueradeBit) >>> 0,
      masqueradeAll: resolveMasqueradeAll(mode, settings, given),
      syncPeriodMs: toMs(settings[`${section}.syncPeriod`]),
      minSyncPeriodMs: toMs(min === upstreamMinSyncPeriodNs ? 0n : min),
      fullSyncPeriodMs: toMs(resolveFullSyncPeriod(mode, section, settings)),
    };
  };
  const modes = Object.fromEntries(modeNames.map((mode) => [mode, resolve(mode)]));
  return { modes: modes as Record<ModeName, ModeSettings>, warnings: [...warnings] };
}

type Warn = (text: string) => unknown;

function resolveBit(mode: ModeName, settings: Settings, given: GivenSettings, warn: Warn): number {
  const own = `${masqueradeSection(mode)}.masqueradeBit` as const;
  const asked = `${masqueradeSection(settings.mode)}.masqueradeBit` as const;
  if (own === asked) return settings[own];
  const [wrong] = checkField(settings, own);
  if (wrong) warn(`${own} is not used: ${wrong.detail}`);
  return (wrong ? undefined : given[own]) ?? given[asked] ?? settings[asked];
}

function resolveMasqueradeAll(mode: ModeName, settings: Settings, given: GivenSettings): boolean {
  const own = `${masqueradeSection(mode)}.masqueradeAll` as const;
  const asked = `${masqueradeSection(settings.mode)}.masqueradeAll` as const;
  return own === asked ? settings[own] : (given[own] ?? settings[asked]);
}

/** The section whose sync periods the mode takes. */
function resolveSyncSection(
  mode: ModeName,
  settings: Settings,
  given: GivenSettings,
  warn: Warn,
): SyncSection {
  const own = syncSection(mode);
  const asked = syncSection(settings.mode);
  if (own === asked) return own;
  const gives = (section: typeof own): boolean =>
    given[`${section}.syncPeriod`] !== undefined || given[`${section}.minSyncPeriod`] !== undefined;
  const [wrong] = checkSyncPeriods(settings, own);
  // Nothing falls back to ipvs, so its section counts only when it is requested.
  if (own === 'ipvs') return wrong ? asked : own;
  if (wrong) warn(`${wrong.field} is not used: ${wrong.detail}`);
  if (!wrong && gives(own)) return own;
  return wrong || gives(asked) ? asked : own;
}

function resolveFullSyncPeriod(mode: ModeName, section: SyncSection, settings: Settings): bigint {
  if (mode === 'ipvs') return settings['ipvs.syncPeriod'];
  const max = section === 'ipvs' ? 0n : settings[`${section}.maxSyncPeriod`];
  if (max > 0n) return max;
  const min = settings[`${section}.minSyncPeriod`];
  return min > fullSyncPeriodNs ? min : fullSyncPeriodNs;
}
