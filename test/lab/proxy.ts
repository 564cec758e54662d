import type { KubernetesObject } from './objects.ts';

/** The columns of docs/semantics.md. */
export const MODES = ['nftables', 'ipvs', 'iptables', 'userspace'] as const;
export type Mode = (typeof MODES)[number];

/** What the lab knows about a proxy: how to start one in the node under test. */
export interface ProxyUnderTest {
  /** A mode of the product, or any other word for what proves the lab itself. */
  readonly mode: Mode | (string & {});
  /** Resolves when what `objects` ask for is in force in the kernel. */
  start(
    node: NodeUnderTest,
    settings: ProxySettings,
    objects: readonly KubernetesObject[],
  ): Promise<RunningProxy>;
  /** Removes what `start` and `apply` made in the namespace, after `stop`. */
  cleanup(node: NodeUnderTest): Promise<void>;
}

export interface RunningProxy {
  /** `objects` is all there is, not a difference. Resolves when it is in force in the kernel. */
  apply(objects: readonly KubernetesObject[]): Promise<void>;
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
  /** Of mode iptables; default here: false, so that modes compare. */
  readonly localhostNodePorts?: boolean;
  readonly serviceLimits?: { readonly frontends: number };
  readonly serviceMetrics?: boolean;
  /** Of the product. */
  readonly connectTime?: 'off' | 'host' | 'all';
  /** The product's flag --own-tables; default: true. */
  readonly ownTables?: boolean;
}
