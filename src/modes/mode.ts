/**
 * The contract between a proxy mode and the sync loop. A mode translates Forwardings into kernel
 * ops; it has no clock, no logger and no I/O except through the Kernel that it is handed, and
 * through sockets of its own, if it serves with these. What it writes costs what changed, never
 * what the cluster holds.
 */
import type { ApplyResult, Kernel, KernelFailure, TableName } from '../kernel/kernel.ts';
import type { MissingFeature } from '../kernel/nft/probe.ts';
import type { Address, CIDR, Family } from '../net/address.ts';
import type { Forwarding, ServicePortName } from '../state/types.ts';
import type { Count } from './traffic-counts.ts';

export type ModeName = 'nftables' | 'ipvs' | 'iptables' | 'userspace';

/** How traffic of this node's pods is told from other traffic (behaviour document 5.6). */
export type LocalDetector =
  | { readonly kind: 'none' }
  | { readonly kind: 'cidr'; readonly cidr: CIDR }
  | { readonly kind: 'bridge'; readonly name: string }
  | { readonly kind: 'interface-prefix'; readonly prefix: string };

/** What a mode needs to know that never changes while it runs, for one family. */
export interface ModeConfig {
  readonly family: Family;
  readonly masqueradeAll: boolean;
  /** The packet mark that asks for masquerading: one bit set. */
  readonly masqueradeMark: number;
  readonly localDetector: LocalDetector;
  /** Node ports are open on IPv4 loopback addresses too, in a mode that can do that (7.7). */
  readonly localhostNodePorts: boolean;
  /** Forwarded packets that connection tracking can't place are dropped, where a mode does (7.4). */
  readonly dropInvalid: boolean;
  /** Tables of our own are to be ours alone, where the kernel can do that; default: no. */
  readonly ownTables?: boolean;
  /** Connections and refusals are counted, in a mode that can do that; default: no. */
  readonly countsTraffic?: boolean;
  /** Only for ipvs mode. */
  readonly ipvs?: IPVSSettings;
  /** Only for userspace mode. */
  readonly userspace?: UserspaceSettings;
}

/** What only ipvs mode needs to know. */
export interface IPVSSettings {
  /** As the kernel names it: `rr`. */
  readonly scheduler: string;
  /** Virtual services at these addresses are others', unless we made them. */
  readonly excludeCIDRs: readonly CIDR[];
  /** How long the kernel remembers idle connections; 0 = as it is. */
  readonly tcpTimeoutSeconds: number;
  readonly tcpFinTimeoutSeconds: number;
  readonly udpTimeoutSeconds: number;
}

export const defaultIPVSSettings: IPVSSettings = {
  scheduler: 'rr',
  excludeCIDRs: [],
  tcpTimeoutSeconds: 0,
  tcpFinTimeoutSeconds: 0,
  udpTimeoutSeconds: 0,
};

/** What only userspace mode needs to know. */
interface UserspaceSettings {
  readonly udpIdleTimeoutMs: number;
}

export const defaultUserspaceSettings: UserspaceSettings = { udpIdleTimeoutMs: 250 };

/** What applies to all Services and changes while running, for one family. */
export interface Environment {
  /** Unallocated addresses within are dropped; empty = nothing is known about them. */
  readonly serviceCIDRs: readonly CIDR[];
  /** Addresses of this node that accept node ports; `all` = every local address but loopback. */
  readonly nodePortAddresses: readonly Address[] | 'all';
  /** Of this machine, which no Service may take from it. Only for modes that bind addresses. */
  readonly hostAddresses?: readonly Address[];
}

/** Ops for one transaction (or, in a mode without transactions, one ordered batch). */
export interface Batch {
  /** Records of `kernelOps`. */
  readonly ops: Uint8Array;
  /** Applies it, where that is more than to hand `ops` to the kernel. */
  apply?(kernel: Kernel): Promise<ApplyResult>;
  /** Transactions of nf_tables in it, each of which moves the generation; default 1. */
  readonly transactions?: number;
  /** Objects written or deleted: rules, chains, elements. */
  readonly writes: number;
  /** Keys of the Forwardings whose ops made the kernel fail; empty when it can't be told. */
  culprits(failure: KernelFailure): readonly string[];
  /** To be called when the kernel has applied it, before the next batch is taken. */
  committed?(result: Extract<ApplyResult, { kind: 'applied' }>): void;
}

/** How what the kernel held differed from what was wanted. */
export interface Drift {
  readonly missing: number;
  readonly wrong: number;
  readonly unwanted: number;
}

/**
 * What was found in the kernel. While a planner repairs against it, the planner may also take
 * changes: what it has written since is left out of the repair.
 */
export interface Observation {
  /**
   * Generation of the ruleset that was read; undefined where nothing of it is in a ruleset: then
   * nothing but reading again tells what others did.
   */
  readonly generation: number | undefined;
  /** False when the fixed objects (tables, chains, sets, rules) are not as wanted. */
  readonly intact: boolean;
  /**
   * True when batches may be taken and applied while it is made: what they write is left out of the
   * repair then, too. Otherwise an audit makes it again.
   */
  readonly besideBatches?: boolean;
  /** `next` with its pools in the order found in the kernel, so that adopting writes nothing. */
  adopt(next: Forwarding): Forwarding;
}

/** A set or map that holds another number of elements than it should. */
export interface Miscount {
  /** In nft's words: `map services`. */
  readonly object: string;
  readonly expected: number;
  /** By the kernel. */
  readonly counted: number;
}

/**
 * Lets the event loop serve others once enough has been done: to be called every few microseconds,
 * and to be awaited when it gives a promise.
 */
export type Pause = () => Promise<void> | undefined;

const itemsPerPause = 8;

/** Does something for each item, and lets the event loop serve others in between. */
export async function inTurns<T>(
  items: Iterable<T>,
  pause: Pause,
  work: (item: T) => void,
): Promise<void> {
  let done = 0;
  for (const item of items) {
    work(item);
    done += 1;
    // Most work takes less time than to ask whether to rest.
    if (done % itemsPerPause !== 0) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
  }
}

/** Where no event loop is waiting for its turn. */
export const noPause: Pause = () => undefined;

/**
 * Translates for one family. It remembers what it has put into batches (shared objects are
 * counted), so every batch taken must be applied, in order, or `reset` be called.
 */
export interface Planner {
  readonly family: Family;
  /** Bytes of ops waiting to be taken. */
  readonly pendingBytes: number;
  /**
   * True while what waits takes the place of rules that are in force: packets would meet what is
   * not there yet if it came in several batches.
   */
  readonly indivisible?: boolean;
  /**
   * Where a commit costs what the tables hold, however little the batch holds: how large batches
   * may be, since cutting them would not save the kernel time but cost it.
   */
  readonly batchBytesMax?: number | undefined;
  /** Objects that may only be deleted by a later transaction are waiting (see `takeDeferred`). */
  readonly deferred: boolean;

  /**
   * The change of one Forwarding: undefined = did not exist, is no longer wanted. Between two
   * batches no frontend may belong to two Forwardings.
   */
  change(previous: Forwarding | undefined, next: Forwarding | undefined): void;
  /** A change of what applies to all Services. It is over before anything else is asked. */
  environment(next: Environment, pause: Pause): Promise<void> | void;
  /** What waits, as one transaction; undefined when nothing does. */
  take(): Batch | undefined;

  /**
   * From now until `hook` no packet is to meet what is written: a start may write then while it
   * still learns what is wanted. Call it before the first repair. False where that is impossible,
   * because packets do meet what was found; nothing has changed then. Only in modes that share no
   * table with others.
   */
  stage?(found: Observation): boolean;
  /** Packets meet the rules from the next batch on. It should hold nothing else. */
  hook?(): void;
  /**
   * Deletions that must not share a transaction with what made the objects unused: a packet
   * between two lookups may still need them, and kernels before 6.2 still count the reference.
   * They are a transaction of their own, so that a refusal harms nothing. Call it every `deferMs`
   * while `deferred`: each call returns what was waiting at the call before, if anything. Where the
   * kernel knows whether packets need an object (the connections of a real server), it is asked.
   */
  takeDeferred(kernel: Kernel): Promise<Batch | undefined> | Batch | undefined;

  /** A batch took away something that packets may have bound clients to (see `takeSweep`). */
  readonly sweepDue: boolean;
  /**
   * Reads what packets have written (session affinity) and deletes what points at endpoints that
   * are gone: call it after the batch that made `sweepDue` true was applied. An element may expire
   * between reading and deleting (ENOENT): call it again then.
   */
  takeSweep(kernel: Kernel): Promise<Batch | undefined>;

  /** Addresses refused since the last call; only modes that bind addresses refuse any. */
  takeRefused?(): readonly RefusedAddress[];

  /** Only modes that have rules for each Service count them. */
  takeRuleCounts?(): readonly RuleCount[];

  /**
   * Makes what rules need and no transaction can hold, and what needs a transaction of nf_tables of
   * its own, by `transact`. Call it before `observe` where a repair of everything follows (`reset`):
   * what is wanted may be another afterwards.
   */
  prepare?(kernel: Kernel, transact: (ops: Uint8Array) => Promise<ApplyResult>): Promise<void>;
  /** Tables of nf_tables that we write and others can change, too, as far as is known. */
  readonly exposed?: readonly TableName[];
  /**
   * Reads what the kernel holds of ours. Read-only. No batch may be under way meanwhile, unless the
   * mode's observations allow it (`besideBatches`); none at its start in any case.
   */
  observe(kernel: Kernel, pause: Pause): Promise<Observation>;
  /**
   * Compares how many objects should be in force with the kernel's own count, which is cheap
   * however many there are. Nothing may wait to be taken or be in flight. Undefined where the
   * kernel does not count; where a mode lacks it, only `observe` tells.
   */
  miscounts?(kernel: Kernel): Promise<readonly Miscount[] | undefined>;
  /**
   * Writes what is needed so that fixed and shared objects are as wanted. Call first in a repair,
   * after `reset` when the process has just started.
   */
  repairFixed(found: Observation, pause: Pause): Promise<Drift>;
  /**
   * Writes what is needed so that this Forwarding is as wanted. Once for each Forwarding. The batch
   * must be taken before this Forwarding changes.
   */
  repair(found: Observation, wanted: Forwarding): Drift;
  /** Deletes what belongs to no Forwarding that was repaired or changed since. Call last. */
  prune(found: Observation, pause: Pause): Promise<Drift>;

  /**
   * Forgets all that waits and counts shared objects anew from what is in force (or, before the
   * first repair, from what is wanted). Nothing else may be asked of the planner meanwhile.
   */
  reset(inForce: Iterable<Forwarding>, pause: Pause): Promise<void>;
}

/** Rules of one table. */
export interface RuleCount {
  readonly table: string;
  readonly total: number;
  /** Since they were counted last. */
  readonly written: number;
}

/** An address that a Service asks for, but that is this machine's own. */
export interface RefusedAddress {
  readonly servicePort: ServicePortName;
  readonly address: Address;
}

/** Least time between two calls of `takeDeferred`. */
export const deferMs = 1000;

/** Something in the kernel that is a mode's own. */
export interface OwnedObject {
  /** In the words of the tool that lists it: `table ip fairlead`. */
  readonly object: string;
  /** How we know that it is ours. */
  readonly because: string;
}

/** A kernel setting that a mode or the configuration asks for. */
export interface Sysctl {
  readonly path: string;
  readonly value: string;
  /** A larger number is as good. */
  readonly atLeast?: boolean;
  /** What can't be done where it can't be written, in words that follow `could not`. */
  readonly purpose: string;
  /** What it is for, or how an operator says that it is none of our business. */
  readonly advice: string;
  /** It is told of when it is right already, too. */
  readonly toldWhenRight?: boolean;
}

/** What settings of the kernel depend on, besides the mode. */
export interface SysctlWishes {
  readonly strictARP: boolean;
  /** Node ports are to answer on IPv4 loopback addresses. */
  readonly localhostNodePorts: boolean;
  /** The kernel's release: `6.12.1`. */
  readonly kernel: string;
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
  readonly clients: number;
  /** 1 = it takes no more clients. */
  readonly share: number;
}

/** What others need to know of a mode. */
export interface ModeFacts {
  readonly name: ModeName;
  /**
   * The interface to which it binds addresses of Services. Such a mode needs to know the addresses
   * that are the machine's.
   */
  readonly link?: string;
  /** Its table of nf_tables, with the comment that tells it from those of others. */
  readonly table?: { readonly name: string; readonly comment: string };
  /** The generation of nf_tables tells whether others changed anything of what it writes. */
  readonly hasGeneration: boolean;
  /** Connection tracking translates its connections; otherwise they are those of its sockets. */
  readonly translates: boolean;
  /** Its chains and named counters have the names of those of kube-proxy's iptables mode. */
  readonly hasKubeProxyNames: boolean;
  /** What it has in IPVS looks like what kube-proxy has there. */
  readonly usesIPVS: boolean;
  /** The part of ModeConfig that is for it alone. */
  readonly ownSettings?: keyof Pick<ModeConfig, 'ipvs' | 'userspace'>;
  readonly metrics: readonly ModeMetric[];
  /** Counts the clients that it remembers in maps; only where it does so. */
  affinityFill?(kernel: Kernel, family: Family): Promise<readonly AffinityFill[]>;
  /**
   * Reads what `countsTraffic` has counted; only where it counts. Some may be missing while others
   * write the ruleset. `told` is given one after the other.
   */
  trafficCounts?(
    kernel: Kernel,
    family: Family,
    pause: Pause,
    told: (count: Count) => void,
  ): Promise<void>;
  /** Whether a chain with kube-proxy's name is its; only where it has such names. */
  ownsChain?(table: string, chain: string): boolean;
  /** What it needs of the kernel besides connection tracking. */
  sysctls?(wishes: SysctlWishes): readonly Sysctl[];
}

export interface ProxyMode extends ModeFacts {
  /** Asks the kernel whether it can do what this mode needs, without leaving anything behind. */
  probe(kernel: Kernel, ipvs?: IPVSSettings): Promise<readonly MissingFeature[]>;
  planner(config: ModeConfig, environment: Environment): Planner;
  /** What `cleanup` would remove. Read-only. */
  owned(kernel: Kernel): Promise<readonly OwnedObject[]>;
  /** Removes everything that this mode ever owns; not an error when nothing is there. */
  cleanup(kernel: Kernel): Promise<void>;
  /**
   * The same after another mode has taken over, but what carries connections stays until they have
   * ended, and no new ones notice it. Resolves to the number of connections; 0 = all is removed.
   * Only for modes whose connections `cleanup` would cut: others leave them to connection tracking.
   */
  retire?(kernel: Kernel): Promise<number>;
  /** Ends what can't outlive this process: sockets, in a mode that has them. The rest stays. */
  close?(): void;
}
