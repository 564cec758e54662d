/**
 * The settings of an engine, derived from configuration, node and host. An engine is created for
 * this value, and replaced exactly when the value changes.
 */
import type { Config } from '../config/config.ts';
import type { Placement } from '../connect-time/maps/placement.ts';
import { hasLocalhostNodePorts, listensOnLocalhost } from '../host/localhost-node-ports.ts';
import { factSettings, type NodeFactsSettings } from '../host/node-facts.ts';
import type { LocalDetector, ModeConfig, ModeFacts } from '../modes/mode.ts';
import { type Family, parseCIDR } from '../net/address.ts';
import type { Node } from '../state/types.ts';
import type { SyncSettings } from '../sync/settings.ts';
import { standardSliceMs } from '../time/pacer.ts';

export type EngineSettings = Readonly<ReturnType<typeof engineSettings>>;

interface EngineSettingsOptions {
  readonly config: Config;
  readonly mode: ModeFacts;
  /** The features of this machine. */
  readonly families: readonly Family[];
  /** Its pod CIDRs may define local pods. */
  readonly node: Node | undefined;
  /** Connection tracking accepts packets outside a TCP window (`nf_conntrack_tcp_be_liberal`). */
  readonly isLiberal: boolean;
  readonly connectTime?: Placement | undefined;
}

export function engineSettings(options: EngineSettingsOptions) {
  const { config, mode } = options;
  return {
    /** One for each family that runs. */
    families: options.families.map((family) => modeConfig(options, family)),
    facts: factsOf(config),
    sync: syncSettings(config, mode),
    /** How the maps of connect-time translation are kept in sync. */
    mapSync: mapSettings(config, mode),
    /** Undefined: only rules translate connections. */
    connectTime: options.connectTime,
    /** Families in which sockets, not rules, serve node ports on the loopback address. */
    localhost: options.families.filter((family) => listensOnLocalhost(config, mode, family)),
  };
}

function factsOf(config: Config): NodeFactsSettings {
  const facts = factSettings.map((name) => [name, config[name]]);
  return Object.fromEntries(facts) as NodeFactsSettings;
}

function modeConfig(options: EngineSettingsOptions, family: Family): ModeConfig {
  const { config, mode, node, isLiberal } = options;
  const { masqueradeAll, masqueradeMark } = config.modes[mode.name];
  return {
    family,
    masqueradeAll,
    masqueradeMark,
    localDetector: localDetector(config, family, node),
    localhostNodePorts: hasLocalhostNodePorts(config, family),
    asIptables: mode.asIptables === true,
    dropInvalid: !isLiberal,
    ownTables: config.ownTables,
    countsTraffic: config.serviceMetrics,
    ...(config.serviceProxyName !== '' && mode.table && { table: mode.table.name }),
    ...(mode.ownSettings ? { [mode.ownSettings]: config[mode.ownSettings] } : {}),
  };
}

/**
 * How traffic of this node's pods is recognised, for one family (behaviour document 3.5, 5.6). The
 * first CIDR of the family counts; without one, no traffic is known to be local.
 */
export function localDetector(
  { clusterCIDR, detectLocal: config }: Pick<Config, 'clusterCIDR' | 'detectLocal'>,
  family: Family,
  node: Node | undefined,
): LocalDetector {
  switch (config.kind) {
    case 'ClusterCIDR': {
      const cidr = clusterCIDR.find(({ address }) => address.family === family);
      return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
    }
    case 'NodeCIDR': {
      const parsed = (node?.podCIDRs ?? []).map((text) => parseCIDR(text));
      const cidr = parsed.find((one) => one?.address.family === family);
      return cidr === undefined ? { kind: 'none' } : { kind: 'cidr', cidr };
    }
    case 'BridgeInterface':
      return { kind: 'bridge', name: config.bridgeInterface };
    case 'InterfaceNamePrefix':
      return { kind: 'interface-prefix', prefix: config.interfaceNamePrefix };
  }
}

/** Small enough that neither encoding it nor the kernel's commit blocks others for long. */
const batchBytesMax = 1024 * 1024;
/**
 * The longest rest after a sync. With the syncs before and after it, a change takes no more than
 * 250 ms in mode nftables, where few syncs take longer than 25 ms, and a second in other modes.
 */
const longestRestMs = { nftables: 200, others: 700 } as const;
/** The kernel reports changes of rules, or prevents them: this audit is for missed ones. */
const auditCheckMs = 60_000;
/** The kernel does not report changes of connect-time maps: their elements are counted. */
const mapCheckMs = 5000;
/** Maps are compared with the desired state at least once in this number of sync periods. */
const mapAuditPeriods = 10;

function syncSettings(config: Config, mode: ModeFacts): SyncSettings {
  const { minSyncPeriodMs, syncPeriodMs, fullSyncPeriodMs } = config.modes[mode.name];
  const maxMs = Math.max(1000, syncPeriodMs);
  return {
    minSyncPeriodMs,
    longestRestMs: longestRestMs[mode.name === 'nftables' ? mode.name : 'others'],
    batchBytesMax,
    sliceMs: standardSliceMs,
    audit: {
      checkMs: Math.min(auditCheckMs, maxMs),
      // No generation reports changes of IPVS and links by other programs: upstream looks as often.
      fullMs: mode.hasGeneration ? fullSyncPeriodMs : Math.min(syncPeriodMs, fullSyncPeriodMs),
      restFactor: 20,
    },
    quarantineBackoff: { firstMs: 1000, secondMs: 2000, maxMs },
    // Soon, regardless of earlier failures: all changes wait for a recovery.
    recoveryBackoff: { firstMs: 0, secondMs: 250, maxMs: Math.min(2000, maxMs) },
  };
}

/**
 * Maps follow the rules, which limit the rate. They are compared as often as the rules, and more
 * often if a generation reports changes of the rules: none reports changes of the maps.
 */
function mapSettings(config: Config, mode: ModeFacts): SyncSettings {
  const settings = syncSettings(config, mode);
  const mostMs = mapAuditPeriods * config.modes[mode.name].syncPeriodMs;
  const checkMs = Math.min(mapCheckMs, settings.audit.checkMs);
  const fullMs = Math.min(mostMs, settings.audit.fullMs);
  const audit = { ...settings.audit, checkMs, fullMs };
  return { ...settings, minSyncPeriodMs: 0, longestRestMs: 0, audit };
}
