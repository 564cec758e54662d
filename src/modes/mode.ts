/**
 * The contract between a proxy mode and the sync loop. A mode translates Forwardings into kernel
 * ops. It has no clock and no logger, and no I/O except through the Kernel that it is given and
 * through sockets of its own, if it has any. The cost of a batch follows the size of the change,
 * not the size of the cluster.
 *
 * What has to happen in an order is an object whose methods are what can be done next: a batch that
 * was taken, an observation, a repair that was begun.
 */
import type { ApplyResult, Kernel, KernelFailure, KernelReader } from '../kernel/kernel.ts';
import type { Address, CIDR, Family } from '../net/address.ts';
import type { Balance, DealingHere } from '../state/deal.ts';
import type { Forwarding, ServicePortName } from '../state/types.ts';
import type { Pause } from '../time/pacer.ts';
import type { ModeName } from './mode-table.ts';
import type { Sysctl, SysctlWishes } from './sysctl.ts';
import type { CountTaker } from './traffic-counts.ts';

export type { ModeName };

/** How traffic of this node's pods is recognised (behaviour document 5.6). */
export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: CIDR }
  | { readonly kind: 'bridge'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** What a mode needs to know for one family, and what never changes while it runs. */
export interface ModeConfig {
  readonly family: Family;
  readonly masqueradeAll: boolean;
  /** The packet mark that asks for masquerading: one bit set. */
  readonly masqueradeMark: number;
  readonly localDetector: LocalDetector;
  /** Node ports are open on IPv4 loopback addresses too, in a mode that can do that (7.7). */
  readonly localhostNodePorts: boolean;
  /**
   * No mode was asked for: mode nftables does with packets what kube-proxy's default, its mode
   * iptables, does with them (docs/decisions/0025-default-mode.md).
   */
  readonly asIptables: boolean;
  /** Drop forwarded packets that connection tracking calls INVALID, in modes that do that (7.4). */
  readonly dropInvalid: boolean;
  /** Make us the owner of our tables, where the kernel can do that. */
  readonly ownTables: boolean;
  /** Connections and refusals are counted, in a mode that can do that. */
  readonly countsTraffic: boolean;
  /** Of mode nftables; default: that of a proxy without a name. */
  readonly table?: string;
  /** Only for ipvs mode. */
  readonly ipvs?: IPVSSettings;
  /** Only for userspace mode. */
  readonly userspace?: Readonly<typeof defaultUserspaceSettings>;
}

/** What only ipvs mode needs to know. */
export const defaultIPVSSettings = {
  /** As the kernel names it. */
  scheduler: 'rr',
  /** Virtual services at these addresses belong to others, unless we made them. */
  excludeCIDRs: [] as readonly CIDR[],
  /** How long the kernel remembers idle connections; 0 = as it is. */
  tcpTimeoutSeconds: 0,
  tcpFinTimeoutSeconds: 0,
  udpTimeoutSeconds: 0,
};

export type IPVSSettings = Readonly<typeof defaultIPVSSettings>;

/** What only userspace mode needs to know. */
export const defaultUserspaceSettings = { udpIdleTimeoutMs: 250 };

/** What applies to all Services and changes while running, for one family. */
export interface Environment {
  /** Packets to addresses within that no Service has are dropped; empty = no range is known. */
  readonly serviceCIDRs: readonly CIDR[];
  /** Addresses of this node that accept node ports; `all` = every local address but loopback. */
  readonly nodePortAddresses: readonly Address[] | 'all';
  /** The machine's own, which no Service may bind. Only for modes that bind addresses. */
  readonly hostAddresses?: readonly Address[];
  /** Those that accept node ports, named loopback ones too. Only for connect-time translation. */
  readonly connectTimeAddresses?: readonly Address[];
  /**
   * Numbers of the cgroups whose processes are left to the rules; the same array until it changes.
   * Absent: none is to be, or they are not known. Only for connect-time translation.
   */
  readonly excludedCgroups?: readonly bigint[] | undefined;
}

/** What a mode has written: ops for one transaction, or for several things in their order. */
export interface WrittenBatch {
  /** Records of `kernelOps`. */
  readonly ops: Uint8Array;
  /** Applies the batch. Without it, `ops` are given to the kernel. */
  apply?(kernel: Kernel): Promise<ApplyResult>;
  /** Objects written or deleted: rules, chains, elements. */
  readonly writes: number;
  /** Keys of the Forwardings whose ops the kernel refused; empty when that is not known. */
  culprits(failure: KernelFailure): readonly string[];
  /** The mode's own names of what it deletes and the planner does not know as objects. */
  deleted?(): readonly string[];
}

/** The answer of a kernel that has applied a whole batch. */
export type Applied = Extract<ApplyResult, { kind: 'applied' }>;

/** How the kernel's content differed from the desired one. */
export interface Drift {
  readonly missing: number;
  readonly wrong: number;
  readonly unwanted: number;
}

/** A set or map that holds another number of elements than it should. */
export interface Miscount {
  /** In nft's words: `map services`. */
  readonly object: string;
  readonly expected: number;
  /** By the kernel. */
  readonly counted: number;
}

/** A batch that was taken. Until it is committed or refused, the planner gives no other one. */
export interface Batch extends WrittenBatch {
  /** The kernel has applied it: what it holds is in force. */
  committed(result: Applied): void;
  /** It is not in force, or not known to be. What was planned since builds on it and is lost. */
  refused(): void;
}

/** Takes a batch that the kernel, or a reading of the kernel, decides about. */
export type TakeLater = (kernel: KernelReader) => Promise<Batch | undefined> | Batch | undefined;

/** What the kernel holds of ours. */
export interface KernelState {
  /**
   * See `generationOfOthers`; undefined where nothing was read from a ruleset. Then only another
   * reading shows what others did.
   */
  readonly generation: number | undefined;
  /** `next` with its pools in the order found in the kernel, so that a repair writes no order. */
  adopt(next: Forwarding): Forwarding;
  /**
   * Makes a repair leave what the kernel has of the Forwarding as it is. Returns false if it has
   * nothing of it, or must not keep what is not as desired.
   */
  leave(forwarding: Forwarding): boolean;
  /**
   * Leaves hooks out, so that no packet meets what is written: a start can then write while it
   * still learns what is desired. Returns what takes the batch of the hooks. Returns
   * undefined, and does nothing, where packets already meet what was found, and in modes without
   * hooks.
   */
  stage(): (() => Batch | undefined) | undefined;
  /** Forgets all that waits, and begins a repair: then `targets` and the environment are in force. */
  restore(targets: Iterable<Forwarding>, pause: Pause): Promise<Repair>;
}

/** The kernel's content, read while batches continue. The planner keeps the last one only. */
export interface Observation extends KernelState {
  /** Batches were applied since, and the mode does not know what of it they have changed. */
  readonly isStale: boolean;
  /** The mode leaves out of a repair what batches wrote while the kernel was read. */
  readonly allowsBatches: boolean;
  /** Begins a repair after which what was planned is in force. */
  repair(pause: Pause): Promise<Repair>;
  /** Gives it up: what batches write is not noted in it any longer. */
  drop(): void;
}

/** A repair whose fixed objects (tables, chains, sets, rules) are planned. */
export interface Repair {
  /** Of the fixed objects. */
  readonly drift: Drift;
  /** Plans the repair of one Forwarding. Batches and other changes may come between two of them. */
  compare(desired: Forwarding): Drift;
  /** Plans the deletion of what belongs to no Forwarding, and ends the repair. */
  finish(pause: Pause): Promise<Drift>;
}

/** How many rules of ours one table has. */
export interface RuleCount {
  readonly table: string;
  readonly total: number;
  /** Since they were counted last. */
  readonly written: number;
}

/** An address that a Service asks for and that is this machine's own. */
export interface RefusedAddress {
  readonly servicePort: ServicePortName;
  readonly address: Address;
}

/** Something in the kernel that is a mode's own. */
export interface OwnedObject {
  /** In the words of the tool that lists it: `table ip fairlead`. */
  readonly object: string;
  /** How we know that it is ours. */
  readonly because: string;
}

/** Metrics of kube-proxy that not every mode has. */
export type ModeMetric =
  | 'fullSync'
  | 'partialSync'
  | 'nftablesFailures'
  | 'nftablesCleanupFailures'
  | 'restoreFailures'
  | 'partialRestoreFailures'
  | 'iptablesRules'
  | 'iptablesRulesLast'
  | 'invalidDropped'
  | 'localhostAccepted'
  | 'iptablesSyncs'
  | 'ipvsSyncs';

/** The clients that session affinity remembers for a pool. */
export interface AffinityFill {
  /** `default/web/tcp/http`, the Service port that it belongs to. */
  readonly servicePort: string;
  readonly pool: 'cluster' | 'local';
  /** 1 = it takes no more clients. */
  readonly share: number;
}

/** What others need to know of a mode. */
export interface ModeFacts {
  readonly name: ModeName;
  /**
   * The interface to which it binds addresses of Services. A mode that does so needs to know the
   * machine's own addresses.
   */
  readonly link?: string;
  /** Its table of nf_tables, with the comment that shows that it is ours. */
  readonly table?: { readonly name: string; readonly comment: string };
  /** All that it writes is in nf_tables, so that the generation shows whether others changed it. */
  readonly hasGeneration: boolean;
  /** Connection tracking translates its connections. Without it, sockets of ours carry them. */
  readonly translates: boolean;
  /** See `ModeConfig`; default: no. */
  readonly asIptables?: true;
  /** Families in which it opens node ports on loopback addresses itself; default: none. */
  readonly localhost?: readonly Family[];
  /** Its chains and named counters have the names of those of kube-proxy's iptables mode. */
  readonly hasKubeProxyNames: boolean;
  /** It has virtual services in IPVS, which look like kube-proxy's. */
  readonly usesIPVS: boolean;
  /** The part of ModeConfig that is for it alone. */
  readonly ownSettings?: keyof Pick<ModeConfig, 'ipvs' | 'userspace'>;
  readonly metrics: readonly ModeMetric[];
  /** Counts the clients in its maps of session affinity, in a mode that has such maps. */
  affinityFill?(kernel: KernelReader, family: Family): Promise<readonly AffinityFill[]>;
  /**
   * Reads the counts of `countsTraffic`, or those that the kernel keeps anyway, in a mode that has
   * any. Counts may be missing while others write the ruleset. `found` gets each count, and returns
   * its namespace. Where packets have nearly filled a set, elements are deleted of the namespaces
   * that have most.
   */
  trafficCounts?(kernel: Kernel, family: Family, pause: Pause, found: CountTaker): Promise<void>;
  /** Whether the mode has a chain of this name, in a mode with chains of kube-proxy's names. */
  ownsChain?(table: string, chain: string): boolean;
  /** What it needs of the kernel in addition to connection tracking. */
  sysctls?(wishes: SysctlWishes): readonly Sysctl[];
}

/** How a mode can share connections out. */
export interface ModeDealing extends DealingHere {
  /**
   * What this kernel lacks for one of `unknown`; undefined: nothing, or it cannot answer now. Leaves
   * nothing behind. Called once a Service asks for the balance: the question loads modules.
   */
  readonly lack?: (kernel: Kernel, balance: Balance) => Promise<string | undefined>;
}
