/**
 * What runs, worked out from configuration, node and host. An engine is made for this value, and
 * another takes its place exactly when the value changes.
 */
import type { Config } from './config/config.ts';
import { ipvsSettings } from './host/ipvs.ts';
import { localDetector } from './host/local-detector.ts';
import { hasLocalhostNodePorts, listensOnLocalhost } from './host/localhost-node-ports.ts';
import type { NodeFactsSettings } from './host/node-facts.ts';
import type { Placement } from './modes/connect-time/placement.ts';
import type { ModeConfig, ModeFacts } from './modes/mode.ts';
import type { Family } from './net/address.ts';
import type { Node } from './state/types.ts';
import type { SyncSettings } from './sync/settings.ts';

export interface EngineSettings {
  /** One for each family that runs. */
  readonly families: readonly ModeConfig[];
  readonly facts: NodeFactsSettings;
  readonly sync: SyncSettings;
  /** How the maps of connect-time translation are kept in sync. */
  readonly mapSync: SyncSettings;
  /** Undefined: only rules translate connections. */
  readonly connectTime: Placement | undefined;
  /** Families in which sockets beside the mode serve node ports on the loopback address. */
  readonly localhost: readonly Family[];
}

interface EngineSettingsOptions {
  readonly config: Config;
  readonly mode: ModeFacts;
  /** What this machine can do. */
  readonly families: readonly Family[];
  /** Its pod CIDRs may say what a local pod is. */
  readonly node: Node | undefined;
  /** Connection tracking accepts packets outside a TCP window (`nf_conntrack_tcp_be_liberal`). */
  readonly isLiberal: boolean;
  readonly connectTime?: Placement | undefined;
}

export function engineSettings(options: EngineSettingsOptions): EngineSettings {
  const { config, mode } = options;
  return {
    families: options.families.map((family) => modeConfig(options, family)),
    facts: {
      bindAddress: config.bindAddress,
      externalIPs: config.externalIPs,
      featureGates: config.featureGates,
      healthzBindAddress: config.healthzBindAddress,
      metricsBindAddress: config.metricsBindAddress,
      nodePortAddresses: config.nodePortAddresses,
      serviceLimits: config.serviceLimits,
    },
    sync: syncSettings(config, mode),
    mapSync: mapSettings(config, mode),
    connectTime: options.connectTime,
    localhost: options.families.filter((family) => listensOnLocalhost(config, mode, family)),
  };
}

function modeConfig(options: EngineSettingsOptions, family: Family): ModeConfig {
  const { config, mode, node, isLiberal } = options;
  const { masqueradeAll, masqueradeMark } = config.modes[mode.name];
  const own = { ipvs: ipvsSettings(config.ipvs), userspace: config.userspace };
  return {
    family,
    masqueradeAll,
    masqueradeMark,
    localDetector: localDetector(config.detectLocal, family, node),
    localhostNodePorts: hasLocalhostNodePorts(config, family),
    dropInvalid: !isLiberal,
    ownTables: config.ownTables,
    countsTraffic: config.serviceMetrics,
    ...(mode.ownSettings ? { [mode.ownSettings]: own[mode.ownSettings] } : {}),
  };
}

/** Small enough that neither encoding it nor the kernel's commit holds anybody up for long. */
const batchBytesMax = 1024 * 1024;
/**
 * Resolving and two families may each take a slice of one turn of the event loop, and the source
 * its own (`source/pacer.ts`): together with a pause of the collector, that stays below 20 ms.
 */
const sliceMs = 2;
/** The kernel tells of changes to rules, or lets nobody make any: this is in case it did not. */
const auditCheckMs = 60_000;
/** It does not tell of changes to maps of connect time: their elements are counted. */
const mapCheckMs = 5000;
/** Maps are compared with what is desired at least once in so many sync periods. */
const mapAuditPeriods = 10;

function syncSettings(config: Config, mode: ModeFacts): SyncSettings {
  const { minSyncPeriodMs, syncPeriodMs, fullSyncPeriodMs } = config.modes[mode.name];
  const maxMs = Math.max(1000, syncPeriodMs);
  return {
    minSyncPeriodMs,
    batchBytesMax,
    sliceMs,
    audit: {
      checkMs: Math.min(auditCheckMs, maxMs),
      // No generation tells what others did to IPVS and links: upstream looks as often.
      fullMs: mode.hasGeneration ? fullSyncPeriodMs : Math.min(syncPeriodMs, fullSyncPeriodMs),
      restFactor: 20,
    },
    quarantineBackoff: { firstMs: 1000, secondMs: 2000, maxMs },
    // Soon, whatever went before: everybody waits for it.
    recoveryBackoff: { firstMs: 0, secondMs: 250, maxMs: Math.min(2000, maxMs) },
  };
}

/**
 * Maps follow the rules, which keep the pace. They are compared as often as the rules, and more
 * often where a generation tells of changes of the rules: none tells of changes of the maps.
 */
function mapSettings(config: Config, mode: ModeFacts): SyncSettings {
  const settings = syncSettings(config, mode);
  const mostMs = mapAuditPeriods * config.modes[mode.name].syncPeriodMs;
  const checkMs = Math.min(mapCheckMs, settings.audit.checkMs);
  const fullMs = Math.min(mostMs, settings.audit.fullMs);
  const audit = { ...settings.audit, checkMs, fullMs };
  return { ...settings, minSyncPeriodMs: 0, audit };
}
