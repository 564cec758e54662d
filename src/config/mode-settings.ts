/**
 * The settings that each mode would run with. The requested mode has its own section. Another mode,
 * which runs because `mode` is empty or as a fallback, has its own section where the file gives it,
 * else the requested mode's. So `iptables.masqueradeAll: true` with an empty mode also counts when
 * nftables is chosen.
 */
import { type ModeName, modeNames } from '../modes/mode-table.ts';
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

type Warn = (text: string) => unknown;

export function resolveModes(settings: Settings, given: GivenSettings) {
  const warnings = new Set<string>();
  const warn: Warn = (text) => warnings.add(text);
  const modes = modeNames.map((mode) => [mode, settingsOf(mode, settings, given, warn)]);
  return {
    modes: Object.fromEntries(modes) as Readonly<Record<ModeName, ModeSettings>>,
    warnings: [...warnings],
  };
}

/** What a mode takes from the configuration, resolved for that mode (`Config.modes`). */
export type ModeSettings = Readonly<ReturnType<typeof settingsOf>>;

function settingsOf(mode: ModeName, settings: Settings, given: GivenSettings, warn: Warn) {
  const masqueradeBit = resolveBit(mode, settings, given, warn);
  const section = resolveSyncSection(mode, settings, given, warn);
  const min = settings[`${section}.minSyncPeriod`];
  return {
    /** Bit of the packet mark that means "masquerade me", 0–31. */
    masqueradeBit,
    /** `1 << masqueradeBit` as an unsigned 32-bit number in host order. */
    masqueradeMark: (1 << masqueradeBit) >>> 0,
    /** Masquerade everything that goes to a ClusterIP. */
    masqueradeAll: resolveMasqueradeAll(mode, settings, given),
    /**
     * The longest wait before what the kernel has refused is tried again. Health fails when a sync
     * has been due for twice this time.
     */
    syncPeriodMs: toMs(settings[`${section}.syncPeriod`]),
    /** Least time between two syncs; 0 = none. Never above syncPeriodMs. */
    minSyncPeriodMs: toMs(min === upstreamMinSyncPeriodNs ? 0n : min),
    /** Longest time between two full syncs (audits) when nothing else asks for one. */
    fullSyncPeriodMs: toMs(resolveFullSyncPeriod(mode, section, settings)),
  };
}

function resolveBit(mode: ModeName, settings: Settings, given: GivenSettings, warn: Warn): number {
  const own = `${masqueradeSection(mode)}.masqueradeBit` as const;
  const asked = `${masqueradeSection(settings.mode)}.masqueradeBit` as const;
  if (own === asked) return settings[own];
  const [wrong] = checkField(settings, own);
  if (wrong) warn(`${own} is not used: ${wrong.detail}`);
  return (wrong ? undefined : given[own]) ?? settings[asked];
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
