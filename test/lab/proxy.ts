import { type ModeName, modeNames } from '../../src/modes/mode-table.ts';
import type { KubernetesObject } from './objects.ts';

/** The columns of docs/semantics.md. */
export const MODES = modeNames;
export type Mode = ModeName;
/** The modes that every kernel has: IPVS may be a module that is not there. */
export const MODES_WITHOUT_IPVS = MODES.filter((mode) => mode !== 'ipvs');

/** A proxy, as the lab knows it: how to start one in the node under test. */
export interface ProxyUnderTest {
  /** A mode of the product, or another word for the proxy that tests the lab itself. */
  readonly mode: Mode | (string & {});
  /** Starts the proxy; resolves when what `objects` ask for is in force in the kernel. */
  start(
    node: NodeUnderTest,
    settings: ProxySettings,
    objects: readonly KubernetesObject[],
  ): Promise<RunningProxy>;
  /** Removes what `start` and `apply` made in the namespace, after `stop`. */
  cleanup(node: NodeUnderTest): Promise<void>;
}

export interface RunningProxy {
  /** Takes all objects, not a difference. Resolves when they are in force in the kernel. */
  apply(objects: readonly KubernetesObject[]): Promise<void>;
  /** Its own clock, not the kernel's, is later by this time. */
  skip?(timeMs: number): Promise<void>;
  /** Ends the process; the kernel keeps what it has, as after a crash. */
  stop(): Promise<void>;
}

/** The place to start a proxy in. */
export interface NodeUnderTest {
  /** metadata.name of its Node object. */
  readonly nodeName: string;
  /** For `ip netns exec <namespace> …`. */
  readonly namespace: string;
  /** For setns(2). */
  readonly namespacePath: string;
  /** Runs a command inside; returns its standard output; rejects unless it exits with 0. */
  run(argv: readonly string[], input?: string): Promise<string>;
}

/** The part of KubeProxyConfiguration that stories vary, with its field names. */
export interface ProxySettings {
  readonly clusterCIDR?: string;
  readonly detectLocalMode?: 'ClusterCIDR' | 'NodeCIDR' | 'BridgeInterface' | 'InterfaceNamePrefix';
  readonly detectLocal?: {
    readonly bridgeInterface?: string;
    readonly interfaceNamePrefix?: string;
  };
  readonly masqueradeAll?: boolean;
  readonly masqueradeBit?: number;
  readonly nodePortAddresses?: readonly string[];
  /** A setting of mode iptables. Default here: false, so that modes can be compared. */
  readonly localhostNodePorts?: boolean;
  readonly serviceLimits?: { readonly frontends: number; readonly namespaceFactor?: number };
  readonly connectionLimits?: {
    readonly clientConnections?: number;
    readonly namespaceConnections?: number;
    readonly exemptClients?: readonly string[];
  };
  readonly serviceMetrics?: boolean;
  readonly serviceBytes?: boolean;
  readonly flowLog?: 'off' | 'failed' | 'all';
  readonly healthzNodeShutdown?: boolean;
  readonly healthzNetwork?: boolean;
  readonly serviceProxyName?: string;
  /** Of the product. */
  readonly connectTime?: 'off' | 'host' | 'all';
  readonly connectTimeExcludedPods?: string;
  readonly failureDetection?: 'by-annotation';
  readonly failureDetectionMaxEjected?: number;
  readonly fastPath?: 'off' | 'flowtable';
  readonly fastPathPackets?: number;
  /** The product's flag --own-tables; default: true. */
  readonly ownTables?: boolean;
}
