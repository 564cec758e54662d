/**
 * The one configuration that the rest of the program sees: flags, file and defaults folded
 * together, validated, parsed and frozen. Built by `load.ts`; nothing outside `src/config`
 * knows flags or files. Durations are milliseconds; 0 means what the field's comment says.
 */
import { type ModeName, modeNames } from '../modes/mode-table.ts';
import type { Address, CIDR } from '../net/address.ts';
import type { HostPort } from '../net/host-port.ts';
import { type ServiceLimits, standardLimits } from '../state/budget.ts';
import type { ConfiguredDetection } from '../state/detection.ts';
import type { ExternalIPRules } from '../state/external-ips.ts';

export { type ModeName, modeNames };

/** What `mode` in the configuration asks for; `''` = the best mode that the kernel can do. */
export type RequestedMode = ModeName | '';

/** What a mode takes from the configuration, resolved for that mode (`Config.modes`). */
export interface ModeSettings {
  /** Bit of the packet mark that means "masquerade me", 0–31. */
  readonly masqueradeBit: number;
  /** `1 << masqueradeBit` as an unsigned 32-bit number in host order. */
  readonly masqueradeMark: number;
  /** Masquerade everything that goes to a ClusterIP. */
  readonly masqueradeAll: boolean;
  /**
   * The longest wait before what the kernel has refused is tried again. Health fails when a sync
   * has been due for twice this time.
   */
  readonly syncPeriodMs: number;
  /**
   * Least time between the end of a sync and the next one; 0 = none, also where the configuration
   * says 1 s (`mode-settings.ts` says why). Never above syncPeriodMs.
   */
  readonly minSyncPeriodMs: number;
  /** Longest time between two full syncs (audits) when nothing else asks for one. */
  readonly fullSyncPeriodMs: number;
}

/**
 * The limits that 0 means. The first three allow as many ports as an object has room for,
 * which is 20,000: what a tenant can ask for otherwise is thousands of times more. Each port with
 * session affinity makes the commits of all others slower (docs/decisions/0015).
 */
export const serviceLimitDefaults = {
  ...standardLimits,
  sourceRanges: 50_000,
  affinityPorts: 1000,
  namespaceFactor: 10,
} as const;

/** How to detect traffic that starts in one of this node's pods. */
export type DetectLocal =
  /** By `Config.clusterCIDR`. `isDefault`: no mode was given. */
  | { readonly kind: 'ClusterCIDR'; readonly isDefault: boolean }
  | { readonly kind: 'NodeCIDR' }
  | { readonly kind: 'BridgeInterface'; readonly bridgeInterface: string }
  | { readonly kind: 'InterfaceNamePrefix'; readonly interfaceNamePrefix: string };

/** Words in nodePortAddresses for these blocks. */
export const addressKeywords: Readonly<Record<string, readonly string[]>> = {
  localhost: ['127.0.0.0/8', '::1/128'],
  all: ['0.0.0.0/0', '::/0'],
};

/** Which of the node's addresses answer on node ports. */
export type NodePortAddresses =
  | { readonly kind: 'all' }
  | {
      readonly kind: 'listed';
      readonly cidrs: readonly CIDR[];
      /** The node's primary addresses, too. */
      readonly primary: boolean;
    };

/** Where Services and EndpointSlices come from. */
export type SourceConfig =
  | { readonly kind: 'manifests'; readonly directory: string }
  | {
      readonly kind: 'kubernetes';
      /** '' together with masterUrl '' = in-cluster configuration. */
      readonly kubeconfigPath: string;
      /** Overrides the server of the kubeconfig; '' = do not. */
      readonly masterUrl: string;
      /** Media types, as they were given; an empty `acceptContentTypes` = as contentType says. */
      readonly contentTypes: {
        readonly contentType: string;
        readonly acceptContentTypes: string;
        readonly dropManagedFields: boolean;
      };
      /** Requests per second, and how many may exceed that rate in a burst. */
      readonly qps: number;
      readonly burst: number;
    };

/** conntrack sysctls (behaviour document 3.4). A timeout of 0 leaves the kernel's value alone. */
export interface ConntrackConfig {
  /** 0 = leave nf_conntrack_max alone and ignore `min`. */
  readonly maxPerCore: number;
  readonly min: number;
  readonly tcpEstablishedTimeoutMs: number;
  readonly tcpCloseWaitTimeoutMs: number;
  readonly tcpBeLiberal: boolean;
  readonly udpTimeoutMs: number;
  readonly udpStreamTimeoutMs: number;
}

export interface IpvsConfig {
  /** '' in the configuration becomes `rr`. */
  readonly scheduler: string;
  readonly excludeCIDRs: readonly CIDR[];
  readonly strictARP: boolean;
  /** 0 = keep the kernel's value. */
  readonly tcpTimeoutMs: number;
  readonly tcpFinTimeoutMs: number;
  readonly udpTimeoutMs: number;
  /** Metrics for each virtual service and each real server. */
  readonly counters: boolean;
}

export interface UserspaceConfig {
  /** How long an idle UDP association is kept; always above 0. */
  readonly udpIdleTimeoutMs: number;
}

/** `auto`: not configured. Then it is text at a terminal, else JSON. */
export type LogFormat = 'text' | 'json' | 'auto';

export interface LoggingConfig {
  readonly format: LogFormat;
  readonly verbosity: number;
}

export const connectTimes = ['off', 'host', 'all'] as const;
export const fastPaths = ['off', 'flowtable'] as const;

/** The effective configuration; deeply frozen. */
export interface Config {
  /** The release of kube-proxy that is reported as ours, `v1.36.2` unless --version says more. */
  readonly kubernetesVersion: string;
  readonly source: SourceConfig;
  /** Start although another Fairlead runs in this network namespace. */
  readonly ignoreOtherInstance: boolean;
  /** Trimmed and lower-cased; '' = use the operating system's host name. */
  readonly hostnameOverride: string;
  /**
   * What the operator says is the node's own address. An unspecified address (0.0.0.0, ::) says
   * nothing; any other one sets the primary family (behaviour document 3.2). Nothing binds to it.
   */
  readonly bindAddress: Address;
  /** undefined = not served. */
  readonly healthzBindAddress: HostPort | undefined;
  readonly metricsBindAddress: HostPort | undefined;
  /** Where authenticated clients of other machines get answers; undefined = nowhere. */
  readonly readBindAddress: HostPort | undefined;
  /** Failing to serve one of these addresses ends the process. */
  readonly bindAddressHardFail: boolean;
  readonly profiling: boolean;
  /** Traffic is counted by Service, in a mode that can do that. */
  readonly serviceMetrics: boolean;

  readonly mode: RequestedMode;
  /** Per mode, so that falling back from one mode to another needs no second resolution. */
  readonly modes: Readonly<Record<ModeName, ModeSettings>>;
  /** Make us the owner of our tables, where the kernel can do that. */
  readonly ownTables: boolean;
  /** Whose connections are translated when they are made. */
  readonly connectTime: (typeof connectTimes)[number];
  /** A label selector of pods whose connections are left to the rules; empty = none. */
  readonly connectTimeExcludedPods: string;
  /** Whether established connections take the kernel's short cut. */
  readonly fastPath: (typeof fastPaths)[number];
  /** After how many packets, both directions together. */
  readonly fastPathPackets: number;
  /** What becomes of endpoints that do not answer, and whether a Service may say it. */
  readonly failureDetection: ConfiguredDetection;
  /** The most endpoints of a pool that are left out for it, in percent. */
  readonly failureDetectionMaxEjected: number;
  readonly iptables: { readonly localhostNodePorts: boolean };
  readonly ipvs: IpvsConfig;
  readonly userspace: UserspaceConfig;

  readonly detectLocal: DetectLocal;
  /** Where pods of the cluster are, in every `detectLocal`; empty: that is not known. */
  readonly clusterCIDR: readonly CIDR[];
  readonly nodePortAddresses: NodePortAddresses;
  readonly externalIPs: ExternalIPRules;
  /** `frontendEndpoints`: 0 = the default of the mode that runs. */
  readonly serviceLimits: ServiceLimits & { readonly namespaceFactor: number };
  readonly oomScoreAdj: number;
  readonly conntrack: ConntrackConfig;
  /** Every known gate with its effective value. */
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly logging: LoggingConfig;

  /** Paths of the fields that file or flags give; all others have their defaults. */
  readonly given: readonly string[];
  /** The file to watch for changes; undefined = none was given. */
  readonly configPath: string | undefined;
  /** The public v1alpha1 form, for /configz: plain JSON, `primary` unexpanded. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Every flag with its value as text, in alphabetical order, for /flagz and the dump at -v=1. */
  readonly flags: readonly { readonly name: string; readonly value: string }[];
}
