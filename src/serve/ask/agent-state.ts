/** The state of the process from which answers are made. */

import type { Config } from '../../config/config.ts';
import type { Exclusion, MapView, StaleState } from '../../connect-time/maps/facts.ts';
import type { Placement } from '../../connect-time/maps/placement.ts';
import type { FolderFiles } from '../../host/files.ts';
import type { Finding } from '../../host/finding.ts';
import type { FindRoutes } from '../../host/reach.ts';
import type { Conntrack } from '../../kernel/conntrack.ts';
import type { KernelReader } from '../../kernel/kernel.ts';
import type { Fallback } from '../../modes/index.ts';
import type { Environment, ModeConfig, ModeFacts } from '../../modes/mode.ts';
import type { Count } from '../../modes/traffic-counts.ts';
import type { Address, Family } from '../../net/address.ts';
import type { ServiceBytes } from '../../service-bytes/service-bytes.ts';
import type { Source } from '../../source/source.ts';
import type { DetectionView } from '../../state/detection.ts';
import type { ReadonlyOwners } from '../../state/frontend-owners.ts';
import type { FrontendsByFamily } from '../../state/frontends-in-force.ts';
import type { HeapGuard } from '../../state/heap-guard.ts';
import type { Refused } from '../../state/limits.ts';
import type { ResolveContext } from '../../state/resolve.ts';
import type { ClusterState } from '../../state/store.ts';
import type { Forwarding, Service } from '../../state/types.ts';
import type { Comparison } from '../../sync/comparison.ts';
import type { FamilySync } from '../../sync/family.ts';
import type { Clock } from '../../time/clock.ts';
import type { ServiceCounters } from '../service-counters.ts';
import type { ServiceHealth } from '../service-health.ts';
import type { EventHistory } from './event-history.ts';
import type { ForeignRules } from './foreign-rules/foreign-rules.ts';
import type { StoppedClients } from './foreign-rules/stopped-clients.ts';
import type { Askers } from './lookups.ts';
import type { MachineFindings } from './machine-findings.ts';
import type { KnownProblems } from './problem.ts';
import type { SecondProxy } from './second-proxy.ts';
import type { SliceSurvey } from './slice-survey.ts';
import type { TakenNodePorts } from './taken-node-ports.ts';
import type { UnansweredEndpoints } from './unanswered.ts';
import type { UnroutedEndpoints } from './unrouted.ts';

export interface AgentState {
  readonly clock: Clock;
  readonly nodeName: string;
  readonly state: ClusterState;
  readonly heapGuard: Pick<HeapGuard, 'bytes' | 'leftOut'>;
  /** How many sockets listen for node ports on the loopback address. */
  localhostListeners(family: Family): number;
  readonly eventHistory: EventHistory;
  readonly problemIndex: KnownProblems;
  readonly askers: Pick<Askers, 'admit'>;
  /** What other programs have in the kernel that stops packets. */
  readonly foreignRules: Pick<ForeignRules, 'found' | 'obstacles' | 'refresh'>;
  readonly serviceHealth: Pick<ServiceHealth, 'failureOf'>;
  readonly secondProxy: Pick<SecondProxy, 'refresh'>;
  readonly sliceSurvey: Pick<SliceSurvey, 'problems' | 'refresh'>;
  readonly stoppedClients: Pick<StoppedClients, 'refresh'>;
  readonly takenNodePorts: Pick<TakenNodePorts, 'problems' | 'refresh'>;
  readonly unanswered: Pick<UnansweredEndpoints, 'asked' | 'of' | 'refresh'>;
  readonly unrouted: Pick<UnroutedEndpoints, 'found' | 'podDevices' | 'problems' | 'refresh'>;
  readonly source: Pick<Source, 'condition' | 'lookup' | 'revision' | 'server' | 'serverVersion'>;
  readonly config: Config;
  /** Why the configuration file, as it is now, is not in force. */
  readonly configRefusal: string | undefined;
  readonly machine: Pick<MachineFindings, 'refresh'>;
  /** What does not fit between configuration, Node and machine, as of the last look. */
  readonly findings: readonly Finding[];
  /** The mode that runs, or is about to run. */
  readonly mode: ModeFacts;
  /** The modes that were tried earlier, and why they cannot run. */
  readonly fallbacks: readonly Fallback[];
  readonly connectTime: {
    /** The pods and sockets whose connections are to be translated at connect time. */
    readonly reach: Config['connectTime'];
    readonly excludedPods: { readonly exclusion: Exclusion | undefined };
    /** Programs of earlier processes, as last seen; `find` reads their names from the kernel. */
    readonly stale: { readonly now: StaleState; find(): Promise<string[]> };
  };
  readonly fastPath: {
    readonly state:
      | { readonly kind: 'off' }
      | { readonly kind: 'unavailable'; readonly because: string }
      | { readonly kind: 'flowtable'; readonly packets: number; readonly devices: number };
    /** Whether connections to this Service (`namespace/name`) may take it. */
    takes(service: string): boolean;
  };
  readonly connectionLimits: {
    /** Why limits of the Service are not in force; undefined: they are, or it has none. */
    obstacleOf(service: Service): string | undefined;
    /** What the kernel has counted, as read last. */
    readonly refusals: {
      refresh(): Promise<void>;
      of(service: string): readonly Refused[];
      counts(family: Family): readonly Count[];
    };
  };
  readonly serviceBytes: Pick<ServiceBytes, 'bytesOf' | 'missed' | 'ports' | 'zones'>;
  readonly failureDetection: DetectionView;
  readonly health: { readonly healthy: boolean };
  /** Undefined until an engine runs. */
  readonly engine: RunningEngine | undefined;
  /** Connections and refusals by Service, if they are counted. */
  readonly counters: Pick<ServiceCounters, 'read'>;
  readonly kernel: KernelReader;
  readonly conntrack: Pick<Conntrack, 'dump'>;
  /** Reads how full connection tracking is. Absent if this process does not manage sysctls. */
  readonly host: FolderFiles | undefined;
  /** Absent if routes of this process are not the node's. */
  readonly routesTo: FindRoutes | undefined;
}

/** What the rules of one family depend on. */
export interface Setting {
  readonly config: ModeConfig;
  readonly environment: Environment;
  /** What opens node ports on the loopback address. */
  readonly localhost: 'mode' | 'sockets' | 'nothing';
}

/** The part of an engine that answers need. */
export interface RunningEngine {
  readonly families: readonly FamilySync[];
  readonly frontends: FrontendsByFamily;
  /** See `Engine.upToDate`. */
  readonly upToDate: boolean;
  /** In each family everything that was desired has been in force once. */
  readonly isStarted: boolean;
  /** Undefined: the engine does not serve this family. */
  setting(family: Family): Setting | undefined;
  /** Compares the kernel with what is in force. Undefined: changes interrupted it each time. */
  compare(family: Family): Promise<Comparison | undefined>;
  /** The number of Services that exceed a limit and are served in part. */
  readonly overLimit: number;
  /** The maps of connect-time translation; undefined: not in use. */
  maps(family: Family): MapView | undefined;
  /** Where programs and maps are; undefined: only rules translate connections. */
  readonly connectTime: Placement | undefined;
  /** The addresses at which sockets for node ports listen. */
  listeningAddresses(family: Family): Environment['nodePortAddresses'];
  /** What Forwardings depend on, other than Services and slices. */
  readonly context: ResolveContext;
  /** See `Planner.describe`. */
  describe(forwarding: Forwarding): readonly string[];
  /** Which Service owns each frontend. */
  readonly owners: ReadonlyOwners;
  /** The addresses of this machine. */
  readonly interfaces: readonly Address[];
}
